"""Fifteen minutes on one card: what curro costs there, and the pools of five natures with many seeds at once.

    python -m benchmarks.gpu.pack ...       # elsewhere: packs the folder `kit`
    python -m benchmarks.gpu.run kit        # in the checkout, on the machine with the card

It needs PyTorch, transformers and the folder, and nothing from outside. In turn it makes

* the runs of `benchmarks.learning.pretrained_natures` that have no row yet, several side by side, in the
  order of `orders`;
* measurements of a step with completions of 1,024 tokens behind long prompts, with prompts computed once, in
  TRL's way, and with entropies;
* measurements of curro's own seconds in a step, with uniform sampling, `frontier` and `frontier` with
  entropies.

Each measurement is a row of OUT/gpu.jsonl and each run a file of OUT/rows, and rows name the card. After
`--minutes` the runs that have not ended are stopped; the same command goes on with what has no row there or
in benchmarks/results.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice, pairwise, product
from pathlib import Path
from typing import Annotated, Any

import typer
from benchmarks.gpu.pack import join

Case = dict[str, Any]
LONG = {"prompts_per_step": 4, "rollouts_per_prompt": 8, "max_completion_length": 1_024}
MEASURED: dict[str, Case] = {
    "long, prompts computed once": {"curriculum": "uniform", **LONG},
    "long, prompts computed for each completion": {"curriculum": "uniform", "share_prompts": False, **LONG},
    "long, with entropies": {"curriculum": "frontier:features=text+entropy", **LONG},
    "uniform": {"curriculum": "uniform"},
    "frontier": {"curriculum": "frontier"},
    "frontier with entropies": {"curriculum": "frontier:features=text+entropy"},
}
"""By its name the settings of each measurement, in their order."""
STEPS, LONG_STEPS = 12, 4
"""Steps of a measurement, the first quarter of which is not counted."""
POOL = "mixture_sixteen"
EXAMPLES = 40
"""Solved problems before each of the long prompts."""


def install(kit: Path) -> Path:
    """The folder of the kit's packages, installed there on the first call."""
    site = kit / "site"
    if (wheels := sorted(map(str, (kit / "wheels").glob("*.whl")))) and not site.exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
        subprocess.run([*command, "--target", str(site), *wheels], check=True)
    return site


def prepare_data(kit: Path) -> Path:
    """The folder of the pools, with the model, which is made of the parts on the first call."""
    folder = kit / "data"
    if not (folder / "model").exists():
        from curro.rollout.engines.models import load_model

        model, tokenizer = load_model(str(join(kit / "weights", kit)))
        model.save_pretrained(folder / "model")
        tokenizer.save_pretrained(folder / "model")
    return folder


def long_prompts(data: Path) -> Path:
    """A file of the pool's problems behind the same solved problems."""
    rows = [json.loads(line) for line in (data / f"{POOL}.jsonl").read_text().splitlines()]
    before = "".join(f"{row['prompt']} {row['answer']}\n\n" for row in rows[:EXAMPLES])
    target = data / "long.jsonl"
    target.write_text(
        "".join(json.dumps({**row, "prompt": before + row["prompt"]}) + "\n" for row in rows[40:])
    )
    return target


def timed(method: Callable[..., Any], spent: list[float]) -> Callable[..., Any]:
    """The method, whose seconds are added to a list."""

    def call(*args: Any, **options: Any) -> Any:
        begun = time.perf_counter()
        answer = method(*args, **options)
        spent.append(time.perf_counter() - begun)
        return answer

    return call


def measure(name: str, data: Path, out: Path) -> Case:
    """The row of a measurement: the median seconds of a step, and curro's own in it, the mean.

    It leaves the curriculum's methods timed, so each measurement has a process of its own.
    """
    import torch
    from benchmarks.learning.pretrained_natures import settings_of

    from curro import Curriculum
    from curro.runs.folder import RunFolder
    from curro.training.plan import plan
    from curro.training.run import train
    from curro.training.settings import TrainSettings

    values = {**settings_of(data, POOL), "eval_data": None, "eval_every": 0, **MEASURED[name]}
    if name.startswith("long"):
        values["data"] = str(long_prompts(data))
    count = LONG_STEPS if name.startswith("long") else STEPS
    warm = count // 4
    values["rollouts"] = count * values["prompts_per_step"] * values["rollouts_per_prompt"]
    chosen: list[float] = []
    observed: list[float] = []
    Curriculum.select = timed(Curriculum.select, chosen)  # type: ignore[method-assign]
    Curriculum.observe = timed(Curriculum.observe, observed)  # type: ignore[method-assign]
    folder = RunFolder.create(out / f"{name.replace(' ', '-')}-{os.getpid()}", {"settings": values})
    train(plan(TrainSettings(**values)), folder, page=False)
    seconds = [line["seconds"] for line in folder.metrics()]
    steps = [after - start for start, after in pairwise(seconds[warm:])]
    groups = folder.groups()
    return {
        "name": name,
        "card": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
        "step_seconds": round(statistics.median(steps), 4),
        "select_seconds": round(statistics.mean(chosen[warm:]), 5),
        "observe_seconds": round(statistics.mean(observed[warm:]), 5),
        "mean_tokens": sum(group["tokens"] for group in groups) / sum(group["rollouts"] for group in groups),
    }


def orders() -> Iterator[tuple[str, tuple[str, ...], int]]:
    """The pool, methods and seed of each process.

    First come the pairs at the rate 1e-5, which has rows with one seed; then the baselines of the plan that
    have none.
    """
    from benchmarks.learning.pretrained_natures import JUDGING, SEEDS

    tried = ("uniform-1e-5", "frontier-1e-5"), ("shortest-quarter", "pspo")
    for methods, seed, pool in product(tried, SEEDS[1:], JUDGING):
        yield pool, methods, seed


def side_by_side(
    commands: Iterator[list[str]], jobs: int, until: float, environment: dict[str, str]
) -> tuple[int, int]:
    """Run so many commands at a time until none is left or time is up; how many ended well, and badly."""
    running: list[subprocess.Popen[bytes]] = []
    codes: list[int] = []
    try:
        while time.monotonic() < until:
            free = jobs - len(running)
            running += [subprocess.Popen(command, env=environment) for command in islice(commands, free)]
            if not running:
                break
            codes += [process.returncode for process in running if process.poll() is not None]
            running = [process for process in running if process.returncode is None]
            time.sleep(0.2)
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait()
    return codes.count(0), len(codes) - codes.count(0)


def main(
    kit: Annotated[Path, typer.Argument(help="The folder that benchmarks.gpu.pack wrote.")],
    out: Annotated[Path, typer.Option(help="Where rows are added.")] = Path("runs/gpu"),
    minutes: Annotated[float, typer.Option(help="All in all.")] = 14.0,
    jobs: Annotated[int, typer.Option(help="Runs side by side.")] = 10,
    measured: Annotated[bool, typer.Option(help="Make the measurements, after the runs.")] = True,
    only: Annotated[str | None, typer.Option(help="Make this measurement and no other, here.")] = None,
) -> None:
    until = time.monotonic() + 60 * minutes
    out.mkdir(parents=True, exist_ok=True)
    site, source = install(kit), Path(__file__).parents[2]
    sys.path[:0] = [str(source / "src"), str(site)]
    paths = [str(source / "src"), str(source), str(site), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    environment["CURRO_VERSION"] = (kit / "version").read_text().strip()
    from curro.runs.json_lines import append_rows, read_rows

    data = prepare_data(kit)
    rows = out / "gpu.jsonl"
    if only is not None:
        append_rows(rows, [measure(only, data, out)])
        return
    from benchmarks.common import RESULTS
    from benchmarks.learning.pretrained_natures import cases

    known = [*read_rows(RESULTS / "pretrained_natures.jsonl")]
    known += [row for part in (out / "rows").glob("*.jsonl") for row in read_rows(part)]
    (out / "rows").mkdir(exist_ok=True)
    common = [sys.executable, "-m", "benchmarks.learning.pretrained_natures", f"--folder={data}"]
    # methods that are compared share a process, which takes longer to start than some of the runs
    commands = (
        [
            *[*common, f"--results={out}/rows/{pool}-{methods[0]}-{seed}.jsonl", f"--runs={out}/runs"],
            *[f"--pool={pool}", *(f"--method={method}" for method in methods), f"--seed={seed}"],
        ]
        for pool, methods, seed in orders()
        if cases(known, [seed], [methods], [pool])
    )
    well, badly = side_by_side(commands, jobs, until, environment)
    print(f"{well} runs ended and {badly} failed; their rows are in {out}/rows")

    here = [sys.executable, "-m", "benchmarks.gpu.run", str(kit), f"--out={out}"]
    done = {row["name"] for path in (RESULTS / rows.name, rows) for row in read_rows(path)}
    wanted = (name for name in MEASURED if measured and name not in done)
    side_by_side(([*here, f"--only={name}"] for name in wanted), 1, until, environment)
    for row in read_rows(rows):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    typer.run(main)
