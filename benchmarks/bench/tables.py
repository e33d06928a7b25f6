"""The benchmark's tables in words, for the terminal and for the pages in benchmarks/results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from benchmarks.bench.plan import BASELINE, CEILING, METHODS
from benchmarks.bench.results import Results
from benchmarks.bench.search import SearchedMethod
from benchmarks.bench.statistics import (
    Estimate,
    MethodScore,
    MethodTotal,
    ResultRows,
    task_scores,
    totals,
)
from benchmarks.bench.tasks import TASKS, pool_of

from curro.rollout.evaluation_results import Sheet


def sheets(results: Results) -> list[Sheet]:
    """All tables that there are results for: all hard pools, all easy ones, each task."""
    tasks = _complete(results.of())
    result = _over_pools(tasks)
    for name, methods in tasks.items():
        result.append(Sheet(name, SCORE_COLUMNS, tuple(map(score_cells, task_scores(methods)))))
    return result


def searched_sheets(searched: Mapping[str, Mapping[str, SearchedMethod]]) -> list[Sheet]:
    """The same of methods with settings of their own, which each task's table has, and calibration."""
    tasks = _complete(
        {task: {name: method.runs for name, method in methods.items()} for task, methods in searched.items()}
    )
    sheets = _over_pools(tasks)
    for task, methods in tasks.items():
        rows = []
        for score in task_scores(methods):
            method, cells = searched[task][score.method], score_cells(score)
            setting = (f"{method.setting.prompts}", f"{method.setting.rollouts}", f"x{method.rate:g}")
            cost = (f"{method.tried}", f"{method.seconds / 60:.0f}")
            rows.append((cells[0], *setting, *cells[1:], *cost))
        sheets.append(Sheet(task, SEARCHED_COLUMNS, tuple(rows)))
    return sheets + _calibration(tasks)


def _calibration(tasks: Mapping[str, Mapping[str, ResultRows]]) -> list[Sheet]:
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


def _complete(tasks: Mapping[str, Mapping[str, ResultRows]]) -> dict[str, dict[str, ResultRows]]:
    """Tasks that have runs of the baseline, methods in the order of `METHODS`."""
    return {
        task: {name: methods[name] for name in METHODS if name in methods}
        for task, methods in tasks.items()
        if BASELINE in methods
    }


def _over_pools(tasks: Mapping[str, Mapping[str, ResultRows]]) -> list[Sheet]:
    total_sheets = []
    for pool in dict.fromkeys(map(pool_of, tasks)):
        pools = {name: methods for name, methods in tasks.items() if pool_of(name) == pool}
        seeds = [len(runs) for methods in pools.values() for runs in methods.values()]
        title = f"All {pool} pools ({', '.join(pools)}), {_seeds(seeds)}"
        total_sheets.append(Sheet(title, TOTAL_COLUMNS, tuple(map(total_cells, totals(pools)))))
    return total_sheets


SCORE_COLUMNS = (
    "method", "seeds", "pass@1", "pass@4", "rollouts to uniform's level", "regret", "signal", "updates",
    "at equal updates", "seconds", "at equal seconds",
)  # fmt: skip


SEARCHED_COLUMNS = (
    SCORE_COLUMNS[0], "P", "G", "rate", *SCORE_COLUMNS[1:], "runs of the search", "its minutes",
)  # fmt: skip
TENTHS = 10


def score_cells(score: MethodScore) -> tuple[str, ...]:
    """A line of a task's table."""
    return (
        score.method,
        f"{score.seeds}",
        interval(score.pass_1),
        interval(score.pass_4),
        ratio(score.rollout_share),
        "-" if math.isnan(score.regret) else f"{score.regret:.3f}",
        f"{score.signal:.2f}",
        f"{score.updates:,.0f}",
        f"{score.at_updates:.3f}",
        f"{score.seconds:,.0f}",
        f"{score.at_seconds:.3f}",
    )


TOTAL_COLUMNS = ("method", "tasks", "pass@1", "better than uniform", "rollouts to uniform's level", "reached")


def total_cells(total: MethodTotal) -> tuple[str, ...]:
    """A line of the table over several tasks."""
    return (
        total.method,
        f"{total.tasks}",
        interval(total.pass_1),
        interval(total.better, 2),
        ratio(total.rollout_share),
        f"{total.reached} of {total.tasks}",
    )


def _seeds(counts: Sequence[int]) -> str:
    least, most = min(counts), max(counts)
    if most == 1:
        return "one seed, so without intervals"
    return f"{most} seeds" if least == most else f"{least} to {most} seeds"


def interval(estimate: Estimate, digits: int = 3) -> str:
    """A number and its interval, if seeds differ at all."""
    if estimate.low == estimate.high:
        return f"{estimate.value:.{digits}f}"
    return f"{estimate.value:.{digits}f} ({estimate.low:.{digits}f} to {estimate.high:.{digits}f})"


def ratio(estimate: Estimate) -> str:
    """A share of uniform's rollouts; "not reached" where the budget did not suffice."""
    if estimate.low == estimate.high or math.isnan(estimate.value):
        return _share(estimate.value)
    return f"{_share(estimate.value)} ({_share(estimate.low)} to {_share(estimate.high)})"


def _share(value: float) -> str:
    if math.isnan(value):
        return "-"
    return "not reached" if math.isinf(value) else f"{value:.2f}"


def chosen_by() -> Sequence[tuple[str, str]]:
    """By task, how its learning rate was found."""
    return [(task.name, f"{task.learning_rate:g}: {task.chosen_by}") for task in TASKS.values()]
