"""A learning rate for each method: tried with seed 0, run and scored with the other seeds.

One seed is a noisy choice, and what is scored is the whole procedure: choose so, then train.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from curro.bench.plan import Cell
from curro.bench.results import Results
from curro.bench.summary import Runs, within
from curro.errors import ConfigError


@dataclass(frozen=True)
class Tuned:
    """A method with the rate that suits it.

    Attributes:
        rate: the multiple of the task's learning rate with the highest final pass@1 of seed 0.
        tried: all that there are runs of.
        runs: those with the other seeds.
    """

    rate: float
    tried: tuple[float, ...]
    runs: Runs


def trials(cells: Iterable[Cell], rates: Sequence[float]) -> list[Cell]:
    """The cells of seed 0 again, with multiples of the tasks' learning rates.

    Raises:
        ConfigError: a rate that is not above 0 and finite; cells of one seed, which leave none to score.
    """
    cells, rates = list(cells), list(dict.fromkeys(rates))
    if any(not 0 < rate < math.inf for rate in rates):
        raise ConfigError(f"tune with multiples above 0 of the tasks' learning rates, not {rates}")
    if rates and not any(cell.seed for cell in cells):
        raise ConfigError("tuning chooses rates with seed 0 and scores the other seeds: ask for 2 or more")
    return [replace(cell, rate=rate) for rate in rates for cell in cells if cell.seed == 0 and rate != 1]


def finals(cells: Iterable[Cell], results: Results) -> list[Cell]:
    """The cells of the other seeds, with the rate that was best for their method on their task."""
    cells = list(cells)
    best = {cell.task.name: best_rates(results, cell.task.name) for cell in cells}
    chosen = (best[cell.task.name].get(cell.method.name, (cell.rate,))[0] for cell in cells)
    return [replace(cell, rate=rate) for cell, rate in zip(cells, chosen, strict=True) if cell.seed]


def best_rates(results: Results, task: str) -> dict[str, tuple[float, ...]]:
    """The rates by method that have a run with seed 0, the best first; methods with one rate are left out."""
    tried: dict[str, dict[float, float]] = {}
    for (where, method, seed, rate), run in results.rows.items():
        if where == task and seed == 0:
            tried.setdefault(method, {})[rate] = within(run, "pass_1")
    return {
        method: tuple(sorted(ends, key=ends.__getitem__, reverse=True))
        for method, ends in tried.items()
        if len(ends) > 1
    }


def tuned(results: Results, task: str) -> Mapping[str, Tuned]:
    """By method; nothing as long as a method for which rates were tried lacks the runs with the best."""
    found = {}
    for method, rates in best_rates(results, task).items():
        runs = [run for run in results.of(rates[0])[task].get(method, []) if run["seed"]]
        if not runs:
            return {}
        found[method] = Tuned(rates[0], tuple(sorted(rates)), runs)
    return found
