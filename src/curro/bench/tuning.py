"""A learning rate for each method: tried with seed 0, run and scored with the other seeds."""

from __future__ import annotations

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
        runs: those with the other seeds.
    """

    rate: float
    runs: Runs


def trials(cells: Iterable[Cell], rates: Sequence[float]) -> list[Cell]:
    """The cells of seed 0 again, with multiples of the tasks' learning rates.

    Raises:
        ConfigError: a rate that is not above 0; cells of one seed, which leave none to score.
    """
    cells = list(cells)
    if any(not rate > 0 for rate in rates):
        raise ConfigError(f"tune with multiples above 0 of the tasks' learning rates, not {list(rates)}")
    if rates and not any(cell.seed for cell in cells):
        raise ConfigError("tuning chooses rates with seed 0 and scores the other seeds: ask for 2 or more")
    return [replace(cell, rate=rate) for rate in rates for cell in cells if cell.seed == 0 and rate != 1]


def finals(cells: Iterable[Cell], results: Results) -> list[Cell]:
    """The cells of the other seeds, with the rate that was best for their method on their task."""
    cells = list(cells)
    best = {cell.task.name: best_rates(results, cell.task.name) for cell in cells}
    return [
        replace(cell, rate=best[cell.task.name].get(cell.method.name, cell.rate))
        for cell in cells
        if cell.seed
    ]


def best_rates(results: Results, task: str) -> dict[str, float]:
    """The best rate by method, of those that were tried with seed 0; methods with one rate are left out."""
    tried: dict[str, dict[float, float]] = {}
    for (where, method, seed, rate), run in results.rows.items():
        if where == task and seed == 0:
            tried.setdefault(method, {})[rate] = within(run, "pass_1")
    return {method: max(ends, key=ends.__getitem__) for method, ends in tried.items() if len(ends) > 1}


def tuned(results: Results, task: str) -> Mapping[str, Tuned]:
    """By method, where rates were tried and another seed was run with the best."""
    found = {}
    for method, rate in best_rates(results, task).items():
        runs = [run for run in results.of(rate)[task].get(method, []) if run["seed"]]
        if runs:
            found[method] = Tuned(rate, runs)
    return found
