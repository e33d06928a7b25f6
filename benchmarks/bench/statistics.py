"""Numbers with intervals from few seeds: interquartile means, stratified bootstrap, shares of rollouts.

Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice" (2021): aggregate by
the mean of the middle half of all runs, resample seeds within every task, and ask how probable it is that a
run of one method is better than a run of another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from benchmarks.bench.plan import BASELINE, CEILING
from scipy.stats import trim_mean

from curro.core.intervals import bootstrap_interval
from curro.runs.report.compare import crossing, isotonic

RESAMPLES = 2000


@dataclass(frozen=True)
class Estimate:
    """A number with the 95% interval of its resamples; infinite where a level was not reached."""

    value: float
    low: float
    high: float


def iqm(scores: Sequence[np.ndarray]) -> np.ndarray:
    """The mean over tasks of the interquartile mean of the seeds' scores, (...).

    Levels differ by task: over all runs together the quartiles would leave out whole tasks.

    Args:
        scores: an array (..., S) of the seeds' scores for each of the tasks.
    """
    return np.mean([trim_mean(runs, 0.25, axis=-1) for runs in scores], axis=0)


def probability_of_improvement(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> np.ndarray:
    """The probability that a run of ours scores more than one of theirs, (...), the mean over tasks.

    A tie counts half.

    Args:
        ours, theirs: an array (..., S) of the seeds' scores for each of the same tasks.
    """
    pairs = [(a[..., :, None], b[..., None, :]) for a, b in zip(ours, theirs, strict=True)]
    return np.mean([((a > b) + 0.5 * (a == b)).mean(axis=(-2, -1)) for a, b in pairs], axis=0)


def bootstrap(
    statistic: Callable[..., np.ndarray],
    *groups: Sequence[np.ndarray],
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Estimate:
    """The statistic of the groups, and its interval when seeds are drawn again within every task.

    Resamples in which the statistic is NaN are left out. For rollouts to a level they are those in which the
    runs that set the level learnt nothing. `bootstrap_interval` makes up for few seeds, with the degrees of
    freedom of the group that has the fewest; with one seed the interval has no width.

    Args:
        statistic: takes one argument for each group, with further leading axes for the resamples.
        groups: each has an array (S, ...) for every task, whose first axis is the seed.
    """
    rng = np.random.default_rng(seed)
    resampled = [[runs[rng.integers(len(runs), size=(resamples, len(runs)))] for runs in g] for g in groups]
    value, values = float(statistic(*groups)), statistic(*resampled)
    fewest = min(len(runs) for g in groups for runs in g)
    if fewest == 1:
        return Estimate(value, value, value)
    degrees = min(sum(len(runs) - 1 for runs in g) for g in groups)
    defined = values[~np.isnan(values)] if not np.isnan(values).all() else values
    return Estimate(value, *bootstrap_interval(defined, fewest, degrees))


def rollouts_to_level(x: np.ndarray, ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Our rollouts to their final level, as a share (...) of theirs; infinite if it was not reached.

    Curves are averaged over seeds and fitted by the nearest non-decreasing one, as `comparison_table` does.
    NaN if they had the level from the start.

    Args:
        x: rollouts (E,) of the evaluations.
        ours, theirs: accuracies (..., S, E), of any numbers of seeds.
    """
    our_means, their_means = ours.mean(axis=-2), theirs.mean(axis=-2)
    pairs = zip(our_means.reshape(-1, len(x)), their_means.reshape(-1, len(x)), strict=True)
    return np.array([_share(x, a, b) for a, b in pairs]).reshape(our_means.shape[:-1])


def _share(x: np.ndarray, ours: np.ndarray, theirs: np.ndarray) -> float:
    fit = isotonic(theirs)
    needed, reached = crossing(x, fit, fit[-1]), crossing(x, isotonic(ours), fit[-1])
    if not needed:
        return np.nan
    return np.inf if reached is None else reached / needed


def geometric_mean(shares: Sequence[np.ndarray]) -> np.ndarray:
    """The geometric mean over tasks, (...): infinite where a share is; NaN is left out unless all are NaN."""
    logs = np.log(np.maximum(shares, 1e-12))
    is_defined = ~np.isnan(logs)
    with np.errstate(invalid="ignore"):
        return np.exp(np.where(is_defined, logs, 0).sum(axis=0) / is_defined.sum(axis=0))


POINTS = 21
"""Learning curves are read off at so many points, from 0 to the whole budget at equal distances."""

ResultRows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class MethodScore:
    """A method on a task.

    Attributes:
        method: its name.
        seeds: how many runs.
        pass_1, pass_4: held-out, when the budget of rollouts is spent; interquartile means.
        rollout_share: rollouts to the baseline's final level, as a share of those that the baseline took.
        regret: how much higher the ceiling's pass@1 is on average over the budget; NaN without the ceiling.
        updates: of one run within the budget, the mean over seeds.
        at_updates: pass@1 after as many updates as the method with the fewest makes.
        at_seconds: pass@1 after as many seconds as the fastest method takes.
        seconds: of one run within the budget, the mean over seeds.
        signal: the share of groups rolled out that had signal.
    """

    method: str
    seeds: int
    pass_1: Estimate
    pass_4: Estimate
    rollout_share: Estimate
    regret: float
    updates: float
    at_updates: float
    at_seconds: float
    seconds: float
    signal: float


@dataclass(frozen=True)
class MethodTotal:
    """A method over several tasks.

    Attributes:
        tasks: how many have runs of it.
        pass_1: the mean over tasks of the interquartile mean over runs.
        better: the probability that a run is better than one of the baseline's.
        rollout_share: geometric mean over tasks of the same.
        reached: on how many tasks the level was reached.
    """

    method: str
    tasks: int
    pass_1: Estimate
    better: Estimate
    rollout_share: Estimate
    reached: int


def curves(runs: ResultRows, against: str = "eval_rollouts", end: float | None = None) -> np.ndarray:
    """pass@1 (S, E) at E = `POINTS` points from 0 to the budget or `end`, linear between evaluations."""
    x = np.linspace(0, runs[0]["budget"] if end is None else end, POINTS)
    return np.stack([np.interp(x, run[against], run["pass_1"]) for run in runs])


def _at(runs: ResultRows, against: str, x: float, metric: str = "pass_1") -> np.ndarray:
    return np.array([np.interp(x, run[against], run[metric]) for run in runs])


def within(run: Mapping[str, Any], metric: str) -> float:
    """The metric's value when the budget of rollouts is spent."""
    return float(np.interp(run["budget"], run["eval_rollouts"], run[metric]))


def task_scores(methods: Mapping[str, ResultRows]) -> list[MethodScore]:
    """A line for each method of one task, in the order given; the baseline is one of them."""
    budget = float(methods[BASELINE][0]["budget"])
    x = np.linspace(0, budget, POINTS)
    curve = {name: curves(runs) for name, runs in methods.items()}
    ceiling = curve[CEILING].mean(axis=0) if CEILING in curve else None
    means = {
        name: {
            metric: float(np.mean([within(run, metric) for run in runs]))
            for metric in ("eval_step", "eval_seconds")
        }
        for name, runs in methods.items()
    }
    fair_methods = [name for name in methods if name != CEILING]  # its uncounted rollouts take time
    updates = min(means[name]["eval_step"] for name in fair_methods)
    seconds = min(means[name]["eval_seconds"] for name in fair_methods)
    return [
        MethodScore(
            method=name,
            seeds=len(runs),
            pass_1=bootstrap(iqm, [_at(runs, "eval_rollouts", budget)]),
            pass_4=bootstrap(iqm, [_at(runs, "eval_rollouts", budget, "pass_4")]),
            rollout_share=bootstrap(
                lambda ours, theirs: rollouts_to_level(x, ours[0], theirs[0]),
                [curve[name]],
                [curve[BASELINE]],
            ),
            regret=np.nan if ceiling is None else float((ceiling - curve[name].mean(axis=0)).mean()),
            updates=means[name]["eval_step"],
            at_updates=float(_at(runs, "eval_step", updates).mean()),
            at_seconds=float(_at(runs, "eval_seconds", seconds).mean()),
            seconds=means[name]["eval_seconds"],
            signal=float(np.nanmean([[np.nan if s is None else s for s in run["signal"]] for run in runs])),
        )
        for name, runs in methods.items()
    ]


def totals(tasks: Mapping[str, Mapping[str, ResultRows]]) -> list[MethodTotal]:
    """A line for each method over all tasks that have runs of it, against the baseline of each."""
    names = dict.fromkeys(name for methods in tasks.values() for name in methods)
    scores = []
    for name in names:
        on = [methods for methods in tasks.values() if name in methods and BASELINE in methods]
        if not on:
            continue
        x = [np.linspace(0, methods[name][0]["budget"], POINTS) for methods in on]
        ours, theirs = [curves(m[name]) for m in on], [curves(m[BASELINE]) for m in on]

        def shares(
            a: Sequence[np.ndarray], b: Sequence[np.ndarray], x: Sequence[np.ndarray] = x
        ) -> list[np.ndarray]:
            return [rollouts_to_level(at, mine, baseline) for at, mine, baseline in zip(x, a, b, strict=True)]

        final = [curve[:, -1] for curve in ours]
        scores.append(
            MethodTotal(
                method=name,
                tasks=len(on),
                pass_1=bootstrap(iqm, final),
                better=bootstrap(probability_of_improvement, final, [curve[:, -1] for curve in theirs]),
                rollout_share=bootstrap(
                    lambda a, b, shares=shares: geometric_mean(shares(a, b)), ours, theirs
                ),
                reached=int(np.isfinite(shares(ours, theirs)).sum()),
            )
        )
    return scores
