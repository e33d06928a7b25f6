"""What every method costs from ten thousand to a hundred million prompts.

    python -m benchmarks.port.scale                    # 10^4 to 10^7 prompts: half an hour
    python -m benchmarks.port.scale --most 8           # up to 10^8, as far as the memory allows
    python -m benchmarks.port.scale --data 7           # a Parquet file of 10^7 rows opened, instead
    python -m benchmarks.port.scale --draw             # the picture and the page from the rows

A process for each method and size builds a curriculum, selects and observes batches of 64 groups of 8
rollouts, saves, and resumes in a new curriculum. Seconds are processor time, so that other work on the
machine counts little; a call's are the median of 60. The peak is that of the process, less what it had after
its imports. Prompts have no text, so that frontier predicts from outcomes alone. A size that does not fit
into the limit of memory is left out.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import typer
from benchmarks.common import PICTURES, RESULTS, write_page

METHODS = {
    "uniform": "uniform",
    "least visited": "least-visited",
    "prioritized replay": "prioritized-replay",
    "replay, published": "prioritized-replay:variant=published",
    "replay, published, proportional": "prioritized-replay:variant=published,draw=proportional",
    "PSPO": "pspo",
    "posterior": "posterior",
    "frontier": "frontier",
    "SEC": "sec:categories=8",
    "ADCL": "adcl",
}
ROWS = RESULTS / "scale.jsonl"
BATCH, ROLLOUTS, CALLS = 64, 8, 60


def measure(spec: str, prompts: int) -> dict[str, Any]:
    """One method at one size, in this process."""
    from curro import Curriculum

    rng, clock = np.random.default_rng(0), time.process_time
    warm = Curriculum(spec, 1000)
    batch(warm, rng, 0)
    warm.state_dict()
    before = peak()
    began = clock()
    curriculum = Curriculum(spec, prompts)
    measures: dict[str, Any] = {"build": clock() - began}
    costs = [batch(curriculum, rng, step) for step in range(CALLS)]
    measures["select"], measures["observe"] = (statistics.median(part) for part in zip(*costs, strict=True))
    began = clock()
    curriculum.metrics()
    measures["metrics"] = clock() - began
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "saved.npz"
        began = clock()
        curriculum.save(path)
        measures["save"], measures["bytes"] = clock() - began, path.stat().st_size
        del curriculum
        resumed = Curriculum(spec, prompts)
        began = clock()
        resumed.load(path)
        measures["resume"] = clock() - began
    measures["peak"] = peak() - before
    return measures


def batch(curriculum: Any, rng: np.random.Generator, step: int) -> tuple[float, float]:
    """Seconds of a select and of its observe."""
    clock = time.process_time
    began = clock()
    draw = curriculum.select(BATCH, step=step)
    selected = clock()
    rewards = (rng.random((len(draw), ROLLOUTS)) < rng.random((len(draw), 1))).astype(float)
    chosen = clock()
    curriculum.observe(draw.tickets, rewards)
    return selected - began, clock() - chosen


def peak() -> int:
    """Bytes of memory that the process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def open_data(exponent: int) -> dict[str, Any]:
    """A Parquet file of problems, opened and asked for some rows."""
    import datasets  # noqa: F401  its memory is not the data's
    import pyarrow as pa
    import pyarrow.parquet as pq

    from curro import Curriculum
    from curro.data import load_prompts

    rows = 10**exponent
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        with pq.ParquetWriter(path, pa.schema({"prompt": pa.string(), "answer": pa.string()})) as file:
            for start in range(0, rows, 10**5):
                numbers = range(start, min(start + 10**5, rows))
                texts = [f"A train travels {i} miles in 3 hours. How far does it go in 5?" for i in numbers]
                table = {"prompt": texts, "answer": [str(5 * i / 3) for i in numbers]}
                file.write_table(pa.table(table))
        warm = Path(folder) / "warm.parquet"
        pq.write_table(pa.table({"prompt": ["a"], "answer": ["b"]}), warm)
        load_prompts(str(warm))
        before, clock = peak(), time.process_time
        began = clock()
        prompts = load_prompts(str(path))
        opened, held = clock() - began, peak() - before
        rng = np.random.default_rng(0)
        began = clock()
        for prompt in rng.integers(0, rows, 1000).tolist():
            prompts[prompt]
        row = (clock() - began) / 1000
        began = clock()
        prompts.to_hf()
        converted = clock() - began
        began = clock()
        curriculum = Curriculum("frontier", prompts)
        built = clock() - began
        began = clock()
        curriculum.select(BATCH, step=0)
        return {
            "rows": rows, "file": path.stat().st_size, "open": opened, "open peak": held, "row": row,
            "to_hf": converted,
            "frontier": built, "first select": clock() - began, "peak": peak() - before,
        }  # fmt: skip


def in_process(*arguments: str, gigabytes: float) -> dict[str, Any] | None:
    """Run this file with these arguments under a memory limit: its output, or None if it does not fit."""

    def limit() -> None:
        bytes_ = int(gigabytes * 2**30)
        resource.setrlimit(resource.RLIMIT_DATA, (bytes_, bytes_))

    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.port.scale", "child", *arguments],
        capture_output=True,
        text=True,
        preexec_fn=limit,
    )
    if done.returncode and "MemoryError" not in done.stderr:
        raise RuntimeError(done.stderr[-3000:])
    return None if done.returncode else json.loads(done.stdout)


def draw(rows: list[dict[str, Any]]) -> None:
    """The picture of cost against size, and the page of tables."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context({"svg.hashsalt": "curro", "svg.fonttype": "none", "font.size": 9}):
        figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained")
        for method in METHODS:
            own = sorted((row for row in rows if row["method"] == method), key=lambda row: row["prompts"])
            sizes = [row["prompts"] for row in own]
            pair = [(row["select"] + row["observe"]) * 1e6 for row in own]
            axes[0].plot(sizes, pair, marker="o", markersize=3, label=method)
            axes[1].plot(sizes, [row["save"] + row["resume"] for row in own], marker="o", markersize=3)
            axes[2].plot(sizes, [row["peak"] / row["prompts"] for row in own], marker="o", markersize=3)
        titles = ("select and observe 64, microseconds", "save and resume, seconds", "peak, bytes a prompt")
        for axis, title in zip(axes, titles, strict=True):
            axis.set(xscale="log", yscale="log", xlabel="prompts", title=title)
            axis.grid(alpha=0.3)
        figure.legend(loc="outside lower center", ncols=5, frameon=False)
        figure.savefig(PICTURES / "scale.svg", metadata={"Date": None})
        plt.close(figure)
    lines = ["![cost against the number of prompts](../../docs/img/scale.svg)", "", __doc__.split("\n\n")[2]]
    for name, unit, scale in (
        ("select", "microseconds", 1e6), ("observe", "microseconds", 1e6), ("metrics", "milliseconds", 1e3),
        ("build", "seconds", 1), ("save", "seconds", 1), ("resume", "seconds", 1),
        ("bytes", "MB on disk", 1e-6), ("peak", "MB of memory", 1e-6),
    ):  # fmt: skip
        sizes = sorted({row["prompts"] for row in rows})
        lines += ["", f"## {name}, {unit}", "", "| method | " + " | ".join(f"{n:,}" for n in sizes) + " |"]
        lines.append("|---|" + "--:|" * len(sizes))
        for method in METHODS:
            cells = {row["prompts"]: row[name] * scale for row in rows if row["method"] == method}
            shown = (
                "-" if n not in cells else f"{cells[n]:,.2f}" if scale == 1 else f"{cells[n]:,.0f}"
                for n in sizes
            )
            lines.append(f"| {method} | " + " | ".join(shown) + " |")
    write_page(
        "scale", "Cost against the number of prompts", "python -m benchmarks.port.scale", "\n".join(lines)
    )


def main(
    least: Annotated[int, typer.Option(help="the smallest size, a power of ten")] = 4,
    most: Annotated[int, typer.Option(help="the largest")] = 7,
    data: Annotated[int | None, typer.Option(help="open a Parquet file of so many rows, instead")] = None,
    only_draw: Annotated[bool, typer.Option("--draw", help="measure nothing")] = False,
    gigabytes: Annotated[float, typer.Option(help="memory of a process")] = 6.0,
    only: Annotated[str | None, typer.Option(help="one method")] = None,
) -> None:
    if data is not None:
        typer.echo(in_process("data", str(data), gigabytes=gigabytes))
        return
    rows = [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.exists() else []
    for exponent in () if only_draw else range(least, most + 1):
        for method, spec in METHODS.items():
            if only in (None, method) and (
                measures := in_process(spec, str(10**exponent), gigabytes=gigabytes)
            ):
                row = {"method": method, "prompts": 10**exponent, **measures}
                rows = [row for row in rows if (row["method"], row["prompts"]) != (method, 10**exponent)]
                rows.append(row)
                ROWS.write_text("".join(json.dumps(row) + "\n" for row in rows))
                typer.echo(json.dumps(row))
    draw(rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        what, size = sys.argv[2:]
        print(json.dumps(open_data(int(size)) if what == "data" else measure(what, int(size))))
    else:
        typer.run(main)
