"""The benchmark's results: a row a run, in one Parquet file."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from benchmarks.bench.plan import Cell
from benchmarks.bench.tasks import TASKS

from curro.core.errors import RunError
from curro.core.files import replacing
from curro.runs.folder import RunFolder
from curro.runs.reader import History, read_history, scale

WINDOWS = 10
"""Parts of the budget over which choices are summed up."""
RATE_QUARTERS = (0.0, 1e-9, 0.25, 0.5, 0.75, 1 - 1e-9, 1.1)
"""Pass rates in the results: never, in quarters, always."""

_NUMBERS, _COUNTS = pa.list_(pa.float64()), pa.list_(pa.list_(pa.int64()))
SCHEMA = pa.schema(
    [
        ("task", pa.string()),
        ("method", pa.string()),
        ("seed", pa.int64()),
        ("rate", pa.float64()),
        ("prompts_per_step", pa.int64()),
        ("rollouts_per_prompt", pa.int64()),
        ("budget", pa.int64()),
        ("flags", pa.string()),
        ("version", pa.string()),
        ("device", pa.string()),
        ("updates", pa.int64()),
        ("eval_step", _NUMBERS),
        ("eval_rollouts", _NUMBERS),
        ("eval_seconds", _NUMBERS),
        ("pass_1", _NUMBERS),
        ("pass_4", _NUMBERS),
        ("reward", _NUMBERS),
        ("train_reward", _NUMBERS),
        ("signal", _NUMBERS),
        ("warm_rate", _NUMBERS),
        ("selected_warm", _COUNTS),
        ("selected_now", _COUNTS),
        ("rank_correlation", _NUMBERS),
        ("predicted_variance", _NUMBERS),
        ("realised_variance", _NUMBERS),
    ]
)
"""
`eval_rollouts` counts judgments as rollouts; `eval_seconds` are those of one core on the CPU, else of the
wall clock. From `train_reward` on there is a number for each of the windows of the budget: the mean reward of
the groups that were rolled out, the share of them with signal, the mean pass rate of the warm model on the
chosen prompts, how many had which pass rate (`RATE_QUARTERS`) under the warm model and as rolled out. The
last two are means of a tenth of the groups each, by what was predicted; empty where the method predicts no
variance.
"""


@dataclass(frozen=True)
class Results:
    """The rows of the runs made so far, by the identity of their runs."""

    path: Path
    rows: dict[tuple[str, str, int, float, int, int], dict[str, Any]]

    @classmethod
    def open(cls, path: Path) -> Results:
        """The results in a file; empty without a file.

        Raises:
            RunError: the file is damaged, or of another version.
        """
        if not path.exists():
            return cls(path, {})
        try:
            table = pq.read_table(path)
        except (pa.ArrowInvalid, OSError) as error:
            raise RunError(f"{path} is damaged: {error}") from error
        if table.schema != SCHEMA:
            raise RunError(f"{path} was written by another version of curro: choose another folder")
        rows = table.to_pylist()
        return cls(path, {_identity(row): row for row in rows})

    def has(self, cell: Cell, flags: str) -> bool:
        """Whether the run was made.

        Raises:
            RunError: it was made with other settings.
        """
        row = self.rows.get(cell.identity)
        if row is not None and row["flags"] != flags:
            raise RunError(
                f"{self.path} has {cell.title!r} with other settings ({row['flags']}, now {flags}): "
                "choose another folder"
            )
        return row is not None

    def add(self, row: dict[str, Any]) -> None:
        """Keep a row; the file is whole at any time."""
        self.rows[_identity(row)] = row
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(self.path) as part:
            pq.write_table(pa.Table.from_pylist(list(self.rows.values()), SCHEMA), part)

    def of(self) -> dict[str, dict[str, list[dict[str, Any]]]]:
        """By task, the lab's first, and method the runs by seed."""
        order = {name: i for i, name in enumerate(TASKS)}
        grouped: dict[str, dict[str, list[dict[str, Any]]]] = {}
        for key in sorted(self.rows, key=lambda key: (order.get(key[0], len(order)), key[0], key[2])):
            grouped.setdefault(key[0], {}).setdefault(key[1], []).append(self.rows[key])
        return grouped


def row_of(cell: Cell, flags: str, folder: RunFolder, warm_N: np.ndarray) -> dict[str, Any]:
    """The row of a finished run.

    Args:
        warm_N: float64 (N,), the pass rates of the warm model on the task's prompts; NaN where not known.

    Raises:
        RunError: the run was never evaluated, or its folder is damaged.
    """
    history = read_history(folder)
    judgments = history.metrics.get("judge/judgments", np.zeros(len(history.metrics["step"])))
    spent_S = history.metrics["rollouts"] + np.nan_to_num(judgments)
    evaluated = ~np.isnan(history.metrics.get("eval/pass@1", np.full(len(spent_S), np.nan)))
    if not evaluated.any():
        raise RunError(f"the run in {folder.path} has no held-out accuracy")
    cuda = torch.cuda.is_available()
    clock = "seconds" if cuda else "cpu_seconds"
    steps = np.searchsorted(np.linspace(0, cell.budget, WINDOWS + 1)[1:-1], spent_S, side="left")
    return {
        "task": cell.task.name,
        "method": cell.method.name,
        "seed": cell.seed,
        "rate": cell.rate,
        "prompts_per_step": cell.prompts_per_step,
        "rollouts_per_prompt": cell.rollouts_per_prompt,
        "budget": cell.budget,
        "flags": flags,
        "version": version("curro"),
        "device": torch.cuda.get_device_name() if cuda else "cpu",
        "updates": int(history.metrics["step"][spent_S <= cell.budget][-1]),
        "eval_step": history.metrics["step"][evaluated],
        "eval_rollouts": spent_S[evaluated],
        "eval_seconds": history.metrics[clock][evaluated],
        "pass_1": history.metrics["eval/pass@1"][evaluated],
        "pass_4": history.metrics["eval/pass@4"][evaluated],
        "reward": history.metrics["eval/reward"][evaluated],
        **_choices(history, steps, warm_N),
        **_calibration(history, judged=cell.method.asks),
    }


def _identity(row: dict[str, Any]) -> tuple[str, str, int, float, int, int]:
    run = row["task"], row["method"], row["seed"]
    return *run, row["rate"], row["prompts_per_step"], row["rollouts_per_prompt"]


def _calibration(history: History, judged: bool) -> dict[str, Any]:
    """What was predicted of the groups and what came of it, in tenths.

    A judge predicts the variance of a group of n rollouts, whose mean is (n - 1) / n p (1 - p). Other methods
    predict p (1 - p), which is compared with the variance with the divisor n - 1.
    """
    groups = history.groups
    predicted_K = groups.predicted.get("predicted_variance", np.full(len(groups.rate), np.nan))
    kept = ~np.isnan(predicted_K) & (groups.rollouts > 1)
    if not kept.any():
        return {"predicted_variance": [], "realised_variance": []}
    predicted_K, n = predicted_K[kept], groups.rollouts[kept]
    low, high = scale(history.config).reward_range
    realised_K = groups.variance[kept] / (high - low) ** 2 * (1 if judged else n / (n - 1))
    # quantile bins; equal predictions share one
    edges = np.unique(np.quantile(predicted_K, np.arange(1, 10) / 10, method="inverted_cdf"))
    _, bin_K, count = np.unique(np.searchsorted(edges, predicted_K), return_inverse=True, return_counts=True)
    predicted, realised = (np.bincount(bin_K, values) / count for values in (predicted_K, realised_K))
    return {"predicted_variance": predicted, "realised_variance": realised}


def _choices(history: History, window_S: np.ndarray, warm_N: np.ndarray) -> dict[str, Any]:
    """What was chosen in each window, from the groups."""
    groups = history.groups
    at = dict(zip(history.metrics["step"].astype(int).tolist(), window_S.tolist(), strict=True))
    window = np.array([at.get(step, WINDOWS - 1) for step in groups.step.tolist()], np.int64)
    warm = warm_N[groups.prompt]
    columns: dict[str, list[Any]] = {
        name: [] for name in ("train_reward", "signal", "warm_rate", "selected_warm", "selected_now")
    }
    for i in range(WINDOWS):
        in_window = window == i
        columns["train_reward"].append(_mean(groups.rate[in_window]))
        columns["signal"].append(_mean(groups.state[in_window] == 1))
        columns["warm_rate"].append(_mean(warm[in_window]))
        columns["selected_warm"].append(np.histogram(warm[in_window], RATE_QUARTERS)[0])
        columns["selected_now"].append(np.histogram(groups.rate[in_window], RATE_QUARTERS)[0])
    correlations = history.metrics.get("prediction/rank_correlation", np.full(len(window_S), np.nan))
    columns["rank_correlation"] = [_mean(correlations[window_S == i]) for i in range(WINDOWS)]
    return columns


def _mean(values: np.ndarray) -> float | None:
    values = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    return float(values.mean()) if len(values) else None
