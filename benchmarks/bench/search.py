"""The settings that suit each method: prompts a step, rollouts per prompt and learning rate, for each task.

A setting is a place on a grid: P = 1, 2, 4, 8 or 16 prompts a step, G = 1/4, 1/2, 1 or 2 times the task's
rollouts per prompt, and a factor 1/4, 1/2, 1, 2 or 4 with which the learning rate is

    rate = factor sqrt(P G / (P G of the task)) x the task's learning rate:

the noise of a step's gradient falls with the root of its rollouts, and steps of Adam with that rate bear as
much of it. The rule is the same for all methods, the oracle included:

1. Two seeds run with every P, the task's G and factor 1. From the best setting, they run with its neighbours
   on the grid (P, G or the factor halved or doubled), and go on from the best so far, until no neighbour is
   better. That setting is chosen.
2. Other seeds run with the chosen setting. They alone are reported.

What is best has the highest held-out pass@1, the mean of both seeds over the second half of the budget: one
evaluation at the end has a standard error that differences between neighbours do not reach, and one seed
differs from another by more than neighbours do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from benchmarks.bench.plan import Cell
from benchmarks.bench.results import Results
from benchmarks.bench.statistics import POINTS, ResultRows, curves

PROMPTS = (1, 2, 4, 8, 16)
ROLLOUTS = (0.25, 0.5, 1.0, 2.0)
"""Multiples of the task's rollouts per prompt."""
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
CHOOSING = (0, 1)
"""The seeds that choose."""
BROKEN = -1.0
"""The score of a run that failed."""


class GridPoint(NamedTuple):
    """A place on the grid: P prompts a step, G rollouts per prompt, and the factor of the learning rate."""

    prompts: int
    rollouts: int
    factor: float


@dataclass(frozen=True)
class Search:
    """One method on one task.

    Attributes:
        cell: its run with seed 0 and the task's own settings.
        seeds: how many runs are reported.
    """

    cell: Cell
    seeds: int

    def at(self, setting: GridPoint, seed: int) -> Cell:
        """The run of a setting. Its rate has three digits, so that its flags have all of it."""
        ratio = setting.factor * math.sqrt(setting.prompts * setting.rollouts / self.cell.task.step)
        return replace(
            self.cell,
            seed=seed,
            rate=float(f"{ratio:.3g}"),
            prompts_per_step=setting.prompts,
            rollouts_per_prompt=setting.rollouts,
        )

    def grid(self) -> list[GridPoint]:
        """All settings whose groups have two rollouts or more and whose first step the budget covers."""
        budget, prompts = self.cell.budget, self.cell.task.prompts or math.inf
        groups = [int(g) for g in self._rollouts() if g >= 2 and g.is_integer()]
        steps = [(p, g) for p in PROMPTS for g in groups if p <= prompts and p * g <= budget]
        return [GridPoint(p, g, factor) for p, g in steps for factor in FACTORS]

    def missing(self, scores: Mapping[tuple[Any, ...], float]) -> list[Cell]:
        """The runs that are needed next; none where the search and its reported runs are complete."""
        settings = self._wanted(scores)
        chosen = self.chosen(scores)
        cells = (
            [self.at(setting, seed) for setting in settings for seed in CHOOSING]
            if chosen is None
            else self.reported(chosen)
        )
        return [cell for cell in cells if cell.identity not in scores]

    def chosen(self, scores: Mapping[tuple[Any, ...], float]) -> GridPoint | None:
        """The best setting, if it was run with every neighbour that it has."""
        tried = self.tried_settings(scores)
        return _best(tried) if all(setting in tried for setting in self._wanted(scores)) else None

    def reported(self, setting: GridPoint) -> list[Cell]:
        """The runs whose numbers count."""
        return [self.at(setting, len(CHOOSING) + i) for i in range(self.seeds)]

    def tried(self, scores: Mapping[tuple[Any, ...], float]) -> list[Cell]:
        """The runs of the search itself that have been made."""
        cells = [self.at(setting, seed) for seed in CHOOSING for setting in self.grid()]
        return [cell for cell in cells if cell.identity in scores]

    def tried_settings(self, scores: Mapping[tuple[Any, ...], float]) -> dict[GridPoint, float]:
        """The settings that both seeds ran with, and the means of their scores."""
        accuracies = {}
        for setting in self.grid():
            keys = [self.at(setting, seed).identity for seed in CHOOSING]
            if all(key in scores for key in keys):
                accuracies[setting] = sum(scores[key] for key in keys) / len(keys)
        return accuracies

    def _wanted(self, scores: Mapping[tuple[Any, ...], float]) -> list[GridPoint]:
        """The settings that both seeds have to run with before more is known."""
        tried, rollouts = self.tried_settings(scores), self.cell.task.rollouts_per_prompt
        start = [setting for setting in self.grid() if setting.rollouts == rollouts and setting.factor == 1]
        return self._neighbours(_best(tried)) if all(setting in tried for setting in start) else start

    def _neighbours(self, setting: GridPoint) -> list[GridPoint]:
        coordinates = self._coordinates(setting)
        return [
            neighbour
            for neighbour in self.grid()
            if sum(abs(i - j) for i, j in zip(self._coordinates(neighbour), coordinates, strict=True)) == 1
        ]

    def _coordinates(self, setting: GridPoint) -> tuple[int, int, int]:
        return (
            PROMPTS.index(setting.prompts),
            self._rollouts().index(setting.rollouts),
            FACTORS.index(setting.factor),
        )

    def _rollouts(self) -> list[float]:
        return [self.cell.task.rollouts_per_prompt * multiple for multiple in ROLLOUTS]


def searches(cells: Iterable[Cell], seeds: int) -> list[Search]:
    """One for each method and task of the cells."""
    return [Search(cell, seeds) for cell in cells if cell.seed == CHOOSING[0]]


def scores_of(results: Results, failed: Iterable[Cell] = ()) -> dict[tuple[Any, ...], float]:
    """What the search compares, by the identity of runs: mean pass@1 over the second half of the budget."""
    accuracies: dict[tuple[Any, ...], float] = {cell.identity: BROKEN for cell in failed}
    return accuracies | {
        key: float(curves([row])[0, POINTS // 2 :].mean()) for key, row in results.rows.items()
    }


@dataclass(frozen=True)
class SearchedMethod:
    """A method with the setting that suits it on a task.

    Attributes:
        setting: what was chosen.
        rate: its multiple of the task's learning rate.
        runs: those that are reported.
        tried: how many runs the search took.
        seconds: how long those took, on one core of the CPU.
    """

    setting: GridPoint
    rate: float
    runs: ResultRows
    tried: int
    seconds: float


def searched_methods(
    results: Results, all_searches: Iterable[Search]
) -> dict[str, dict[str, SearchedMethod]]:
    """By task and method what has at least one reported run."""
    scores = scores_of(results)
    searched: dict[str, dict[str, SearchedMethod]] = {}
    for search in all_searches:
        setting = search.chosen(scores)
        if setting is None:
            continue
        cells = search.reported(setting)
        runs = [results.rows[cell.identity] for cell in cells if cell.identity in results.rows]
        tried = [results.rows[cell.identity] for cell in search.tried(scores)]
        if runs:
            searched.setdefault(search.cell.task.name, {})[search.cell.method.name] = SearchedMethod(
                setting, cells[0].rate, runs, len(tried), sum(run["eval_seconds"][-1] for run in tried)
            )
    return searched


def _best(scores: Mapping[GridPoint, float]) -> GridPoint:
    return max(scores, key=scores.__getitem__)
