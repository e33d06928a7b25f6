"""Reads a run's files into arrays."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from curro.core.errors import ConfigError, RunError
from curro.core.groups import largest_reward
from curro.core.prompts import PromptTable
from curro.runs.folder import PREDICTED, RunFolder
from curro.runs.json_lines import check_whole, read_rows

UNSOLVED, LEARNABLE, SOLVED = 0, 1, 2
"""The state of a prompt by one group: all failed, rewards varied, all succeeded."""


@dataclass(frozen=True)
class GroupColumns:
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
        predicted: by the names of `PREDICTED` that the run has, float64, NaN where a group had no prediction.
        latest: bool, whether it is its prompt's last.
        sources: the names of the sources.
        keys, texts, tickets: each group's, None where the line has none.
        unscored: bool, of every line in the file, whether the group had no reward and is left out here.
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
    latest: np.ndarray
    sources: list[str]
    keys: list[str | None]
    texts: list[str | None]
    tickets: list[int | None]
    unscored: np.ndarray

    def key(self, row: int) -> str:
        """The key of a group's prompt; its number where the line has none."""
        return self.keys[row] or f"prompt {self.prompt[row]}"

    def text(self, row: int) -> str:
        """The beginning of a group's prompt; its key where the line has none."""
        return self.texts[row] or self.key(row)


@dataclass(frozen=True)
class History:
    """A run, read once.

    Attributes:
        name: the run's folder, of a trainer's run the trainer's own.
        config: what the run was started with.
        metrics: by name, float64 (S,) for the S lines of metrics; NaN where a line lacks the name.
        groups: the finished groups.
    """

    name: str
    config: Mapping[str, Any]
    metrics: Mapping[str, np.ndarray]
    groups: GroupColumns

    def series(self, name: str, against: str = "step") -> tuple[np.ndarray, np.ndarray]:
        """Where a metric and `against` are known: the values of `against`, and its own."""
        if name not in self.metrics or against not in self.metrics:
            return np.empty(0), np.empty(0)
        x, values = self.metrics[against], self.metrics[name]
        known = ~(np.isnan(x) | np.isnan(values))
        return x[known], values[known]

    def last(self, name: str) -> float:
        """The latest known value of a metric; NaN where there is none."""
        values = self.series(name)[1]
        return float(values[-1]) if len(values) else np.nan

    @property
    def method(self) -> str:
        """What chose the prompts, as it is typed: `prioritized-replay: variant=published`."""
        curriculum = self.config.get("curriculum")
        return _typed(curriculum.get("selection", "") if isinstance(curriculum, Mapping) else curriculum)

    @property
    def curriculum(self) -> str:
        """All parts of the curriculum as they are typed: `frontier admission=signal`."""
        parts = self.config.get("curriculum")
        kinds = ("allocation", "advantage", "admission")
        others = (
            [f"{kind}={_typed(parts[kind])}" for kind in kinds if parts.get(kind)]
            if isinstance(parts, Mapping)
            else []
        )
        return " ".join([self.method or self.name, *others])

    @property
    def evaluations(self) -> list[str]:
        """The names of the held-out pass@k that have a value, by k.

        They are `eval/NAME/pass@k` where there are several data sets.
        """
        names = [name for name in self.metrics if re.fullmatch(r"eval/(.+/)?pass@\d{1,9}", name)]
        return sorted(
            (name for name in names if len(self.series(name)[1])), key=lambda name: (len(name), name)
        )


def _typed(part: Any) -> str:
    """A part of a curriculum as it is typed: its name and its options."""
    if not isinstance(part, Mapping):
        return str(part or "")
    options = ", ".join(f"{name}={value}" for name, value in part.items() if name != "name")
    return f"{part.get('name', '')}: {options}" if options else str(part.get("name", ""))


def scale(config: Mapping[str, Any]) -> PromptTable:
    """A table that knows the run's reward range: the port's own success rate and tolerance."""
    curriculum = config.get("curriculum")
    bounds = curriculum.get("reward_range", (0.0, 1.0)) if isinstance(curriculum, Mapping) else (0.0, 1.0)
    return PromptTable(1, reward_range=bounds)


MOST_STEPS, MOST_PROMPTS = 10_000_000, 1 << 25
"""A page counts by step and by prompt, so these bound the memory that it takes."""

MOST_TOKENS = 1 << 40
"""Upper bound for the tokens of one group. Larger values are damage; smaller ones add up exactly."""

LARGEST = 1e100
"""Metrics from this size on count for none: a page could not take their squares."""

REQUIRED = ("step", "prompt", "reason")
NUMBERS = (*REQUIRED, "mean", "variance", "rollouts", "tokens", "cut", *PREDICTED)
"""The numbers of a group's line, which has those that are `REQUIRED`."""
TEXTS = ("source", "key", "text")


def read_history(run: RunFolder | str | os.PathLike[str]) -> History:
    """Read a run as far as it is.

    Raises:
        RunError: no run, a damaged one, or one that has not finished a training step yet.
    """
    folder = run if isinstance(run, RunFolder) else RunFolder.open(run)
    config = folder.config
    try:
        rules = scale(config)
    except ConfigError as error:
        raise RunError(f"{folder.path / 'config.json'} is damaged: {error}") from error
    metrics = _read_metrics(folder.metrics_file)
    if not metrics:
        raise RunError(
            f"the run in {folder.path} has not finished a training step yet: there is nothing to show"
        )
    return History(folder.name, config, metrics, _read_groups(folder.groups_file, rules))


def _read_metrics(path: Path) -> dict[str, np.ndarray]:
    """Every number of the lines by its name, float64 (S,)."""
    cells: dict[str, dict[int, float]] = defaultdict(dict)
    count = 0
    for row in read_rows(path, ("step",)):
        check_whole(row, ("step",), f"line {count + 1} of {path}")
        _check(path, "step", np.array([row["step"]]), 0, MOST_STEPS)
        for name, value in row.items():
            if type(value) in (int, float) and abs(value) < LARGEST:
                cells[name][count] = value
        count += 1
    metrics = {name: np.full(count, np.nan) for name in cells}
    for name, values in cells.items():
        metrics[name][list(values)] = list(values.values())
    return metrics


def _read_groups(path: Path, rules: PromptTable) -> GroupColumns:
    cells: dict[str, list[Any]] = {name: [] for name in (*NUMBERS, "admitted", "ticket", *TEXTS)}
    unscored = []
    for number, row in enumerate(read_rows(path), 1):
        check_whole(row, REQUIRED, f"line {number} of {path}")
        mean = row.get("mean", np.nan)
        unscored.append(mean != mean)
        if unscored[-1]:
            continue  # the group was dropped: it is neither a failure nor a visit
        for name, values in cells.items():
            values.append(row.get(name, np.nan))
    most = largest_reward(rules.reward_range)
    columns = {name: _numbers(path, name, cells[name]) for name in NUMBERS}
    bounds = {
        "step": (0, MOST_STEPS), "prompt": (0, MOST_PROMPTS), "reason": (0, 255),
        "mean": (-most, most), "variance": (0, most**2),
        **dict.fromkeys(("rollouts", "tokens", "cut"), (0, MOST_TOKENS)),
        **dict.fromkeys(PREDICTED, (-LARGEST, LARGEST)),
    }  # fmt: skip
    for name, (least, largest) in bounds.items():
        _check(path, name, columns[name], least, largest, is_whole=largest == MOST_TOKENS)
    columns |= {name: columns[name].astype(np.int64) for name in REQUIRED}
    mean, variance = columns.pop("mean"), columns["variance"]
    ends = np.where(rules.is_solved(mean, variance), SOLVED, UNSOLVED)
    texts = {name: [text if isinstance(text, str) else None for text in cells[name]] for name in TEXTS}
    sources = {name: i for i, name in enumerate(dict.fromkeys(filter(None, texts["source"])))}
    predicted = {name: columns.pop(name) for name in PREDICTED}
    return GroupColumns(
        **columns,
        rate=rules.success_rate(mean),
        state=np.where(rules.is_flat(variance), ends, LEARNABLE).astype(np.int64),
        admitted=np.array([is_admitted is not False for is_admitted in cells["admitted"]], np.bool_),
        source=np.array([sources.get(name or "", -1) for name in texts["source"]], np.int64),
        predicted={name: values for name, values in predicted.items() if not np.isnan(values).all()},
        latest=_latest(columns["prompt"]),
        sources=list(sources),
        keys=texts["key"],
        texts=texts["text"],
        tickets=[ticket if type(ticket) is int else None for ticket in cells["ticket"]],
        unscored=np.array(unscored, np.bool_),
    )


def _numbers(path: Path, name: str, values: Sequence[Any]) -> np.ndarray:
    try:
        return np.fromiter(values, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise RunError(f"{path} is damaged: it has a {name} that is no number ({error!s:.100})") from error


def _check(
    path: Path, name: str, values: np.ndarray, least: float, most: float, *, is_whole: bool = False
) -> None:
    """Refuse numbers that no run has: the curriculum refuses rewards that would give them."""
    wrong = values[(values < least) | (values > most) | (is_whole & (values != np.trunc(values)))]
    wrong = wrong[~np.isnan(wrong)]
    if len(wrong):
        raise RunError(
            f"{path} is damaged: it has the {name} {wrong[0]:g}, which is no "
            f"{'whole ' * is_whole}number from {least:g} to {most:g}"
        )


def _latest(prompts: np.ndarray) -> np.ndarray:
    """Whether each group is its prompt's last, bool."""
    latest = np.zeros(len(prompts), np.bool_)
    latest[len(prompts) - 1 - np.unique(prompts[::-1], return_index=True)[1]] = True
    return latest
