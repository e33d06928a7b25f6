"""Methods on a pretrained model where most problems are hopeless: who finds those that can be learnt?

    make pretrained                                          # the model and the pools, in runs/pretrained
    python -m benchmarks.learning.pretrained_mixed           # trains what has no row yet
    python -m benchmarks.learning.pretrained_mixed --report  # trains nothing, writes the page

SmolLM2-135M-Instruct on the pool `sums_75`: 250 sums of two or three numbers of one or two digits among 750
that no training would teach it. Steps of 8 prompts with 4 rollouts, 3,840 rollouts a run, held-out accuracy
on 100 problems of the first kind with 4 samples each (its standard error is about .02). A row is added to
benchmarks/results/pretrained_mixed.jsonl as a run ends, seed by seed, so that all methods have equally many
wherever it is stopped. It gives up a search: of two learning rates each method has both.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

os.environ.setdefault("OMP_NUM_THREADS", "1")

import typer
from benchmarks.common import RESULTS, write_page
from benchmarks.papers.variants import Results, Tables, Variant, report

from curro.errors import ConfigError

POOL = "sums_75"
COMMAND = "python -m benchmarks.learning.pretrained_mixed --report"
TABLES: Tables = {
    "Two learning rates": {
        "uniform": Variant("uniform", {"learning_rate": 3e-6}),
        "frontier": Variant("frontier", {"learning_rate": 1e-5}),
        "uniform, 1e-5": Variant("uniform", {"learning_rate": 1e-5}),
        "frontier, 3e-6": Variant("frontier", {"learning_rate": 3e-6}),
        "prioritized replay": Variant("prioritized-replay", {"learning_rate": 3e-6}),
        "prioritized replay, 1e-5": Variant("prioritized-replay", {"learning_rate": 1e-5}),
        "PSPO": Variant("pspo", {"learning_rate": 3e-6}),
        "PSPO, 1e-5": Variant("pspo", {"learning_rate": 1e-5}),
    },
    "Steps without signal skipped": {
        "uniform": Variant("uniform", {"learning_rate": 1e-5}),
        "uniform, skipping": Variant("uniform", {"learning_rate": 1e-5, "skip_empty_steps": True}),
        "frontier": Variant("frontier", {"learning_rate": 1e-5}),
        "frontier, skipping": Variant("frontier", {"learning_rate": 1e-5, "skip_empty_steps": True}),
    },
}
SERIES = ("eval/pass@4", "signal_share", "seconds", "cpu_seconds")


def common(folder: Path) -> dict[str, object]:
    """The settings that all runs share.

    Raises:
        ConfigError: the folder lacks the model.
    """
    if not (folder / "model").is_dir():
        raise ConfigError(f"{folder} has no model: run make pretrained, or name its folder")
    return {
        "data": str(folder / f"{POOL}.jsonl"),
        "eval_data": str(folder / f"{POOL}.held-out.jsonl"),
        "model": str(folder / "model"),
        "reward": "math",
        "precision": "bfloat16",
        "max_completion_length": 6,
        "prompts_per_step": 8,
        "rollouts_per_prompt": 4,
        "rollouts": 3_840,
        "eval_every": 40,
        "eval_prompts": 100,
        "save_every": 1_000,
    }


def main(
    folder: Annotated[Path, typer.Option(help="What recipes/pretrained/prepare.py has written.")] = Path(
        "runs/pretrained"
    ),
    results: Annotated[Path, typer.Option(help="The file of rows.")] = RESULTS / "pretrained_mixed.jsonl",
    runs: Annotated[Path, typer.Option(help="Where the run in progress is.")] = Path("runs/pretrained-mixed"),
    seeds: Annotated[int, typer.Option(help="How many seeds.")] = 5,
    only_report: Annotated[bool, typer.Option("--report", help="Train nothing.")] = False,
) -> None:
    rows = Results(results, runs)
    if not only_report:
        variants = [variant for table in TABLES.values() for variant in table.values()]
        rows.run(variants, seeds, common(folder), series=SERIES)
    write_page(
        "pretrained_mixed", "A pretrained model among hopeless problems", COMMAND, report(TABLES, rows)
    )


if __name__ == "__main__":
    typer.run(main)
