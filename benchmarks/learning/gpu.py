"""The benchmark on pretrained models, for a machine with a GPU: GSM8K and MATH, four methods, five seeds.

    python -m benchmarks.learning.gpu --gsm8k train.jsonl test.jsonl --math train.jsonl test.jsonl
    python -m benchmarks.learning.gpu --gsm8k train.jsonl test.jsonl --model Qwen/Qwen2.5-0.5B --hours

Files are JSONL or Parquet as the data sets are published: `question` and `answer` for GSM8K, `problem` and
`solution` or `answer` for MATH. A model is a folder or a hub id, by default Qwen2.5-0.5B-Instruct and
Qwen2.5-1.5B-Instruct.

It writes the tasks into OUT/tasks.toml, times a few steps of each, says how many hours all runs will take,
and then runs `python -m benchmarks.bench --task-file OUT/tasks.toml`, which goes on where it stopped.
`--tune` gives each method its own prompts a step and learning rate, which takes about three times as long.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from curro.runs.json_lines import read_rows
from curro.training.declared import flags_of

METHODS = ("uniform", "frontier", "PPS", "replay")
MODELS = ("Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen2.5-1.5B-Instruct")
PROBE = 4
"""Steps that are timed."""
SEARCHED = 3.2
"""Runs of a search and its reported runs, as a multiple of the reported ones."""

Settings = dict[str, str | int | float]


def task_of(model: str, train: Path, test: Path, *, length: int, rollouts: int) -> Settings:
    """The settings of a task, as a table of the benchmark's task file.

    Args:
        length: the most tokens of a completion.
        rollouts: the budget of a run.
    """
    return {
        "data": str(train),
        "eval_data": str(test),
        "model": model,
        "reward": "math",
        "learning_rate": 1e-6,
        "rollouts": rollouts,
        "prompts_per_step": 16,
        "rollouts_per_prompt": 8,
        "max_completion_length": length,
        "device_batch": 32,
        "judge": False,
    }


def toml_of(tasks: Mapping[str, Settings]) -> str:
    """The task file; strings and numbers of JSON are those of TOML."""
    tables = []
    for name, settings in tasks.items():
        lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
        tables.append("\n".join([f'["{name}"]', *lines]))
    return "\n\n".join(tables) + "\n"


def seconds_per_step(task: Settings, folder: Path) -> float:
    """Seconds of a training step, the mean of all steps of a short run but its first, which warms up.

    Raises:
        SystemExit: the run failed; it has said why.
    """
    flags = flags_of({key: value for key, value in task.items() if key not in ("judge", "rollouts")})
    command = [sys.executable, "-m", "curro", "train", "--curriculum=uniform", *flags]
    command += [
        f"--rollouts={PROBE * size_of(task)}",
        "--eval-every=0",
        "--eval-prompts=1",
        f"--out={folder}",
    ]
    shutil.rmtree(folder, ignore_errors=True)
    failed = subprocess.run(command, stdout=subprocess.DEVNULL).returncode
    if failed:
        raise SystemExit(failed)
    spent = [row["seconds"] for row in read_rows(folder / "metrics.jsonl") if row["step"] > 0]
    return float(spent[-1] - spent[0]) / (len(spent) - 1)


def size_of(task: Settings) -> int:
    """Rollouts of a step."""
    return int(task["prompts_per_step"]) * int(task["rollouts_per_prompt"])


def hours(task: Settings, step_seconds: float, seeds: int, tune: bool) -> float:
    """Of all runs of a task, without its evaluations."""
    runs = len(METHODS) * seeds * (SEARCHED if tune else 1)
    return runs * int(task["rollouts"]) / size_of(task) * step_seconds / 3600


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gsm8k", type=Path, nargs=2, metavar=("TRAIN", "TEST"))
    parser.add_argument("--math", type=Path, nargs=2, metavar=("TRAIN", "TEST"))
    parser.add_argument("--model", action="append", help="may be repeated")
    parser.add_argument("--rollouts", type=int, default=51_200, help="the budget of a run")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--hours", action="store_true", help="say how long it will take, and stop")
    parser.add_argument("--out", type=Path, default=Path("runs/gpu"))
    args = parser.parse_args()
    if not args.gsm8k and not args.math:
        parser.error("name the files of a data set: --gsm8k TRAIN TEST, --math TRAIN TEST")
    for path in [*(args.gsm8k or ()), *(args.math or ())]:
        if not path.is_file():
            parser.error(f"there is no file {path}")
    return args


def main() -> None:
    args = arguments()
    tasks: dict[str, Settings] = {}
    for model in args.model or MODELS:
        size = "".join(letter if letter.isalnum() else "_" for letter in Path(model).name)
        for family, files, length in (("gsm8k", args.gsm8k, 512), ("math", args.math, 1024)):
            if files:
                name = f"{family}_{size}/hard"
                tasks[name] = task_of(model, *files, length=length, rollouts=args.rollouts)
    args.out.mkdir(parents=True, exist_ok=True)
    whole = 0.0
    for name, task in tasks.items():
        step = seconds_per_step(task, args.out / "probe" / name.partition("/")[0])
        whole += hours(task, step, args.seeds, args.tune)
        print(f"{name}: {step:.1f} s a step", flush=True)
    print(f"all runs: about {whole:.1f} hours, and the evaluations", flush=True)
    if args.hours:
        return
    file = args.out / "tasks.toml"
    file.write_text(toml_of(tasks))
    command = [sys.executable, "-m", "benchmarks.bench", f"--task-file={file}", f"--out={args.out}"]
    command += [f"--method={method}" for method in METHODS] + [f"--seeds={args.seeds}"]
    raise SystemExit(subprocess.run(command + ["--tune"] * args.tune).returncode)


if __name__ == "__main__":
    main()
