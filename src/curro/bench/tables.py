"""The benchmark's tables in words: for the terminal, the page and the documentation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from curro.bench.plan import BASELINE, CEILING, METHODS
from curro.bench.results import Results
from curro.bench.search import Found
from curro.bench.statistics import Interval
from curro.bench.summary import Runs, Score, Total, task_scores, totals
from curro.bench.tasks import TASKS, pool_of


@dataclass(frozen=True)
class Sheet:
    """A table of texts; the first column is the method's name."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        head = f"| {' | '.join(self.columns)} |\n|---|{'--:|' * (len(self.columns) - 1)}\n"
        return head + "".join(f"| {' | '.join(row)} |\n" for row in self.rows)


def sheets(results: Results) -> list[Sheet]:
    """All tables that there are results for: all hard pools, all easy ones, each task."""
    tasks = _complete(results.of())
    found = _over_pools(tasks)
    for name, methods in tasks.items():
        found.append(Sheet(name, SCORE_COLUMNS, tuple(map(score_cells, task_scores(methods)))))
    return found


def searched_sheets(found: Mapping[str, Mapping[str, Found]]) -> list[Sheet]:
    """The same of methods with settings of their own, which each task's table has, and calibration."""
    tasks = _complete(
        {task: {name: one.runs for name, one in methods.items()} for task, methods in found.items()}
    )
    sheets = _over_pools(tasks)
    for task, methods in tasks.items():
        rows = []
        for score in task_scores(methods):
            one, cells = found[task][score.method], score_cells(score)
            setting = (f"{one.setting.prompts}", f"{one.setting.rollouts}", f"x{one.rate:g}")
            cost = (f"{one.tried}", f"{one.seconds / 60:.0f}")
            rows.append((cells[0], *setting, *cells[1:], *cost))
        sheets.append(Sheet(task, SEARCHED_COLUMNS, tuple(rows)))
    return sheets + _calibration(tasks)


def _calibration(tasks: Mapping[str, Mapping[str, Runs]]) -> list[Sheet]:
    """Realised over predicted p(1-p) in each tenth of the predictions, by task and method."""
    rows = []
    for task, methods in tasks.items():
        for name, runs in methods.items():
            tenths = [run for run in runs if len(run["predicted_variance"]) == TENTHS]
            if not tenths or name == CEILING:
                continue
            predicted, realised = (
                np.mean([run[column] for run in tenths], axis=0)
                for column in ("predicted_variance", "realised_variance")
            )
            rows.append(
                (f"{name}, {task}", *(f"{r / p:.2f}" for p, r in zip(predicted, realised, strict=True)))
            )
    columns = ("realised over predicted p(1-p)", *(f"{i + 1}" for i in range(TENTHS)))
    return [Sheet("Calibration, in tenths by prediction", columns, tuple(rows))] if rows else []


def _complete(tasks: Mapping[str, Mapping[str, Runs]]) -> dict[str, dict[str, Runs]]:
    """Tasks that have runs of the baseline, methods in the order of `METHODS`."""
    return {
        task: {name: methods[name] for name in METHODS if name in methods}
        for task, methods in tasks.items()
        if BASELINE in methods
    }


def _over_pools(tasks: Mapping[str, Mapping[str, Runs]]) -> list[Sheet]:
    found = []
    for pool in dict.fromkeys(map(pool_of, tasks)):
        pools = {name: methods for name, methods in tasks.items() if pool_of(name) == pool}
        seeds = [len(runs) for methods in pools.values() for runs in methods.values()]
        title = f"All {pool} pools ({', '.join(pools)}), {_seeds(seeds)}"
        found.append(Sheet(title, TOTAL_COLUMNS, tuple(map(total_cells, totals(pools)))))
    return found


SCORE_COLUMNS = (
    "method", "seeds", "pass@1", "pass@4", "rollouts to uniform's level", "regret", "signal", "updates",
    "at equal updates", "seconds", "at equal seconds",
)  # fmt: skip


SEARCHED_COLUMNS = (
    SCORE_COLUMNS[0], "P", "G", "rate", *SCORE_COLUMNS[1:], "runs of the search", "its minutes",
)  # fmt: skip
TENTHS = 10


def score_cells(score: Score) -> tuple[str, ...]:
    """A line of a task's table."""
    return (
        score.method,
        f"{score.seeds}",
        interval(score.pass_1),
        interval(score.pass_4),
        ratio(score.ratio),
        "-" if math.isnan(score.regret) else f"{score.regret:.3f}",
        f"{score.signal:.2f}",
        f"{score.updates:,.0f}",
        f"{score.at_updates:.3f}",
        f"{score.seconds:,.0f}",
        f"{score.at_seconds:.3f}",
    )


TOTAL_COLUMNS = ("method", "tasks", "pass@1", "better than uniform", "rollouts to uniform's level", "reached")


def total_cells(total: Total) -> tuple[str, ...]:
    """A line of the table over several tasks."""
    return (
        total.method,
        f"{total.tasks}",
        interval(total.pass_1),
        interval(total.better, 2),
        ratio(total.ratio),
        f"{total.reached} of {total.tasks}",
    )


def _seeds(counts: Sequence[int]) -> str:
    least, most = min(counts), max(counts)
    if most == 1:
        return "one seed, so without intervals"
    return f"{most} seeds" if least == most else f"{least} to {most} seeds"


def interval(found: Interval, digits: int = 3) -> str:
    """A number and its interval, if seeds differ at all."""
    if found.low == found.high:
        return f"{found.value:.{digits}f}"
    return f"{found.value:.{digits}f} ({found.low:.{digits}f} to {found.high:.{digits}f})"


def ratio(found: Interval) -> str:
    """A share of uniform's rollouts; "not reached" where the budget did not suffice."""
    if found.low == found.high or math.isnan(found.value):
        return _share(found.value)
    return f"{_share(found.value)} ({_share(found.low)} to {_share(found.high)})"


def _share(value: float) -> str:
    if math.isnan(value):
        return "-"
    return "not reached" if math.isinf(value) else f"{value:.2f}"


def chosen_by() -> Sequence[tuple[str, str]]:
    """By task, how its learning rate was found."""
    return [(task.name, f"{task.learning_rate:g}: {task.chosen_by}") for task in TASKS.values()]
