"""Time to the live page, on a run folder of 100,000 steps of a million prompts.

    python -m benchmarks.hosts.watch_speed [--steps 100000] [--prompts 1000000] [--groups 16] [FOLDER]

Makes such a folder (280 MB, unless FOLDER holds a run already), starts `curro watch` on it as a process of
its own, and asks as a browser does. Prints the seconds to the first page and until everything is shown.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np

from curro.runs.folder import RunFolder
from curro.runs.json_lines import append_rows


def make(folder: Path, steps: int, prompts: int, groups: int) -> None:
    """Write the run: prompts drawn at random, success rates that rise."""
    run = RunFolder.create(folder, {"curriculum": {"selection": {"name": "uniform"}}, "steps": steps})
    rng = np.random.default_rng(0)
    for start in range(0, steps, 1000):
        metrics, lines = [], []
        for step in range(start + 1, start + 1001):
            rate = rng.beta(1 + 2 * step / steps, 2, groups)
            means = rng.binomial(8, rate) / 8
            metrics.append(
                {
                    "step": step,
                    "rollouts": 8 * groups * step,
                    "seconds": 1.5 * step,
                    "reward": means.mean(),
                    "signal_share": ((means > 0) & (means < 1)).mean(),
                    **{
                        f"table/{name}": float(step) for name in ("solved", "unsolved", "learnable", "unseen")
                    },
                    **{f"signal/{name}": 1.0 + step / steps for name in ("ratio", "uniform")},
                }
                | ({"eval/pass@1": float(means.mean())} if step % 500 == 0 else {})
            )
            lines += [
                {
                    "step": step,
                    "prompt": int(prompt),
                    "key": f"prompt-{prompt:07d}",
                    "reason": 5,
                    "mean": mean,
                    "variance": mean * (1 - mean),
                    "admitted": True,
                    "rollouts": 8,
                    "tokens": 2048,
                    "cut": 0,
                }
                for prompt, mean in zip(rng.integers(prompts, size=groups), means, strict=True)
            ]
        append_rows(folder / "metrics.jsonl", metrics)
        run.append_groups(lines)


def ask(opener: urllib.request.OpenerDirector, url: str) -> tuple[float, str]:
    begun = time.perf_counter()
    with opener.open(url, timeout=600) as answer:
        page = answer.read().decode()
    return time.perf_counter() - begun, page


def measure(folder: Path) -> None:
    begun = time.perf_counter()
    server = subprocess.Popen(
        [sys.executable, "-m", "curro", "watch", str(folder), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        url = re.search(r"http://\S+", server.stdout.readline())[0]  # type: ignore[index]
        print(f"{time.perf_counter() - begun:.2f} s until the server answers")
        proxies, cookies = urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor()
        opener, asked = urllib.request.build_opener(proxies, cookies), time.perf_counter()
        seconds, page = ask(opener, url)
        print(f"{seconds:.2f} s to the first page, of what was read by then, {len(page) / 1000:.0f} kB")
        while "still to be read" in page:
            time.sleep(0.2)
            seconds, page = ask(opener, url.partition("?")[0])
        print(f"{time.perf_counter() - asked:.2f} s until all is read and shown, {len(page) / 1000:.0f} kB")
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--prompts", type=int, default=1_000_000)
    parser.add_argument("--groups", type=int, default=16)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch) / "run"
        if not (folder / "config.json").exists():
            make(folder, options.steps, options.prompts, options.groups)
        measure(folder)


if __name__ == "__main__":
    main()
