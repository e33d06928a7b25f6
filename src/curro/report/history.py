"""A run as arrays: what pictures, tables and comparisons are made of."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from curro.prompts import PromptTable
from curro.runs import PREDICTED, RunError, RunFolder

_COLUMNS = ("step", "prompt", "key", "reason", "mean", "variance")

UNSOLVED, LEARNABLE, SOLVED = 0, 1, 2
"""The state of a prompt by one group: all failed, rewards varied, all succeeded."""


@dataclass(frozen=True)
class Groups:
    """The finished groups with a reward in order; arrays of shape (F,).

    Attributes:
        step: int64, the training step.
        prompt: int64.
        reason: int64, values of `curro.Reason`.
        rate: float64, the mean reward on the scale where 0 is complete failure and 1 complete success.
        variance: float64, of the rewards.
        state: int64, UNSOLVED, LEARNABLE or SOLVED.
        predicted: by the names of `curro.runs.PREDICTED` that the run has, float64, NaN where a group
            had no prediction.
        earlier: int64, the row of the same prompt's group before, -1 at its first visit.
        latest: bool, whether it is its prompt's last.
        keys: the prompts' keys by number.
    """

    step: np.ndarray
    prompt: np.ndarray
    reason: np.ndarray
    rate: np.ndarray
    variance: np.ndarray
    state: np.ndarray
    predicted: Mapping[str, np.ndarray]
    earlier: np.ndarray
    latest: np.ndarray
    keys: dict[int, str]

    @property
    def first(self) -> np.ndarray:
        """bool (F,), whether a group is its prompt's first."""
        return self.earlier < 0


@dataclass(frozen=True)
class History:
    """A run, read once.

    Attributes:
        name: the folder's name.
        config: what the run was started with.
        metrics: by name, float64 (S,) for the S lines of metrics; NaN where a line lacks the name.
        groups: the finished groups.
    """

    name: str
    config: Mapping[str, Any]
    metrics: Mapping[str, np.ndarray]
    groups: Groups

    def series(self, name: str, against: str = "step") -> tuple[np.ndarray, np.ndarray]:
        """Where a metric is known: the values of `against` there, and its own."""
        values = self.metrics.get(name, np.empty(0))
        known = ~np.isnan(values)
        return (self.metrics[against][known], values[known]) if known.any() else (np.empty(0), np.empty(0))

    def last(self, name: str) -> float:
        """The latest known value of a metric; NaN where there is none."""
        values = self.series(name)[1]
        return float(values[-1]) if len(values) else np.nan

    @property
    def method(self) -> str:
        """What chose the prompts, as it is typed: `prioritized-replay: variant=published`."""
        curriculum = self.config.get("curriculum")
        chosen = curriculum.get("selection", "") if isinstance(curriculum, Mapping) else curriculum or ""
        if not isinstance(chosen, Mapping):
            return str(chosen)
        options = ", ".join(f"{name}={value}" for name, value in chosen.items() if name != "name")
        return f"{chosen.get('name', '')}: {options}" if options else str(chosen.get("name", ""))

    @property
    def evaluations(self) -> list[str]:
        """The names of the held-out pass@k, by k."""
        names = [name for name in self.metrics if name.startswith("eval/pass@")]
        return sorted(names, key=lambda name: (len(name), name))


def read_history(run: RunFolder | str | os.PathLike[str]) -> History:
    """Read a run.

    Raises:
        RunError: no run, a damaged one, or one that has not finished a training step yet.
    """
    folder = run if isinstance(run, RunFolder) else RunFolder.open(run)
    rows, config = folder.metrics(["step"]), folder.config
    if not rows:
        raise RunError(
            f"the run in {folder.path} has not finished a training step yet: there is nothing to show"
        )
    names = dict.fromkeys(name for row in rows for name in row)
    metrics = {name: np.array([row.get(name, np.nan) for row in rows], np.float64) for name in names}
    return History(folder.path.resolve().name, config, metrics, _groups(folder.groups(_COLUMNS), config))


def scale(config: Mapping[str, Any]) -> PromptTable:
    """A table that knows the run's reward range: the port's own success rate and tolerance."""
    curriculum = config.get("curriculum")
    bounds = curriculum.get("reward_range", (0.0, 1.0)) if isinstance(curriculum, Mapping) else (0.0, 1.0)
    return PromptTable(1, reward_range=tuple(bounds))


def _groups(rows: list[dict[str, Any]], config: Mapping[str, Any]) -> Groups:
    rows = [row for row in rows if not np.isnan(row["mean"])]

    def column(name: str, dtype: Any) -> np.ndarray:
        return np.array([row[name] for row in rows], dtype)

    prompt, rules = column("prompt", np.int64), scale(config)
    rate = rules.success_rate(column("mean", np.float64))
    variance = column("variance", np.float64)
    flat = rules.is_flat(variance)
    order = np.argsort(prompt, kind="stable")
    again = np.zeros(len(rows), np.bool_)
    again[1:] = prompt[order][1:] == prompt[order][:-1]
    earlier = np.full(len(rows), -1)
    earlier[order[again]] = order[np.flatnonzero(again) - 1]
    latest = np.ones(len(rows), np.bool_)
    latest[earlier[earlier >= 0]] = False
    return Groups(
        step=column("step", np.int64),
        prompt=prompt,
        reason=column("reason", np.int64),
        rate=rate,
        variance=variance,
        state=np.where(flat, np.where(rate >= 0.5, SOLVED, UNSOLVED), LEARNABLE),
        predicted={
            name: np.array([row.get(name, np.nan) for row in rows], np.float64)
            for name in PREDICTED
            if any(name in row for row in rows)
        },
        earlier=earlier,
        latest=latest,
        keys={row["prompt"]: row["key"] for row in rows},
    )
