"""A run as arrays: what pictures, tables, advice and comparisons are made of."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from curro.prompts import PromptTable

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
        admitted: bool, whether it was trained on.
        rollouts, tokens, cut: float64, how many rollouts the group had, how many tokens they have together,
            and how many of them were cut at the length limit; NaN where the run did not write it down.
        source: int64, the number of the prompt's source in `sources`; -1 without one.
        predicted: by the names of `PREDICTED` (run_folder) that the run has, float64, NaN where a group
            had no prediction.
        earlier: int64, the row of the same prompt's group before, -1 at its first visit.
        latest: bool, whether it is its prompt's last.
        sources: the names of the sources.
        line: int64, where in the file of groups the group's line begins.
        path: that file.
    """

    step: np.ndarray
    prompt: np.ndarray
    reason: np.ndarray
    rate: np.ndarray
    variance: np.ndarray
    state: np.ndarray
    admitted: np.ndarray
    rollouts: np.ndarray
    tokens: np.ndarray
    cut: np.ndarray
    source: np.ndarray
    predicted: Mapping[str, np.ndarray]
    earlier: np.ndarray
    latest: np.ndarray
    sources: list[str]
    line: np.ndarray
    path: Path

    @property
    def first(self) -> np.ndarray:
        """bool (F,), whether a group is its prompt's first."""
        return self.earlier < 0

    def key(self, row: int) -> str:
        """The key of a group's prompt, from the group's line; its number where the line is gone."""
        try:
            with self.path.open("rb") as file:
                file.seek(int(self.line[row]))
                return str(json.loads(file.readline())["key"])
        except (OSError, ValueError, LookupError, TypeError):
            return f"prompt {self.prompt[row]}"


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

    def tokens_after(self, rollouts: float) -> float:
        """How many tokens the run had generated when it had spent so many rollouts; NaN where none knows."""
        step_S, spent_S = self.series("rollouts")
        order_F = np.argsort(self.groups.step, kind="stable")
        tokens_F = np.concatenate([[0.0], self.groups.tokens[order_F].cumsum()])
        tokens_S = tokens_F[np.searchsorted(self.groups.step[order_F], step_S, side="right")]
        return float(np.interp(rollouts, [0, *spent_S], [0, *tokens_S]))

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
        """The names of the held-out pass@k, by k; `eval/NAME/pass@k` where there are several data sets."""
        names = [name for name in self.metrics if re.fullmatch(r"eval/(.+/)?pass@\d+", name)]
        return sorted(names, key=lambda name: (len(name), name))

    @property
    def prompts(self) -> int:
        """How many prompts the data set has, as far as the run tells; at least those that were seen."""
        seen = int(self.groups.first.sum())
        unseen = self.last("table/unseen")
        return seen + (0 if np.isnan(unseen) else int(unseen))


def scale(config: Mapping[str, Any]) -> PromptTable:
    """A table that knows the run's reward range: the port's own success rate and tolerance."""
    curriculum = config.get("curriculum")
    bounds = curriculum.get("reward_range", (0.0, 1.0)) if isinstance(curriculum, Mapping) else (0.0, 1.0)
    return PromptTable(1, reward_range=tuple(bounds))
