"""PODS: many rollouts, of which those whose rewards vary the most are trained on."""

from __future__ import annotations

import numpy as np

from curro.core.allocation import Allocation
from curro.core.errors import ConfigError
from curro.core.groups import Groups
from curro.core.prompts import PromptTable

BASELINES = ("kept", "all")
_ROUNDING = 1e-12
"""Variances that differ by less than this share of the largest are equal."""


class Pods(Allocation):
    """Large groups, of which the subset with the largest reward variance is trained on.

    Source: PODS, "Not All Rollouts are Useful" (arXiv 2504.13818), section 3.

    Of the n rollouts of a prompt the m are trained on that maximise

        Var(r_i : i in S)    over all S of m of the n rollouts

    The paper's theorem: the maximum is at the k highest and the m - k lowest rewards, for some k from 0 to m.
    So sorting the rewards and trying every k finds it, in O(n log n). Of subsets of equal variance the one
    with k nearest to m / 2 is taken, so that 0/1 rewards give half successes and half failures where there
    are enough of both. The subset's advantages are relative to its own mean, as in the paper: they sum to 0.
    Selections, gates and metrics see all n rewards.

    Args:
        total: n, the rollouts of every prompt; 64 in the paper's first experiment.
        keep: m, how many of them are trained on; 16 there.
        baseline: advantages follow from the "kept" rewards alone, as in the paper, or from "all".

    Raises:
        ConfigError: not 2 <= keep <= total, or another baseline.
    """

    needs_budget = needs_belief = False
    keep: int

    def __init__(self, *, total: int = 64, keep: int = 16, baseline: str = "kept") -> None:
        if not 2 <= keep <= total:
            raise ConfigError(f"keep and total are 2 <= keep <= total, not {keep} and {total}")
        if baseline not in BASELINES:
            raise ConfigError(f"baseline is one of {', '.join(BASELINES)}, not {baseline!r}")
        self.total, self.keep, self.baseline = total, keep, baseline
        self.first, self.credits_kept_alone = total, baseline == "kept"

    def kept(self, groups: Groups, table: PromptTable) -> np.ndarray:
        kept_PG = groups.scored.copy()
        for row in np.flatnonzero(groups.count > self.keep):
            scored = np.flatnonzero(groups.scored[row])
            kept_PG[row] = False
            kept_PG[row, scored[largest_variance(groups.rewards[row, scored], self.keep)]] = True
        return kept_PG


def largest_variance(rewards_n: np.ndarray, m: int) -> np.ndarray:
    """The positions (m,) of the m of n rewards, m <= n, that have the largest variance."""
    order = np.argsort(rewards_n, kind="stable")
    centred = rewards_n[order] - rewards_n.mean()
    first, square = (np.concatenate([[0.0], np.cumsum(values)]) for values in (centred, centred**2))
    highest = np.arange(m + 1)
    lowest, rest = m - highest, len(order) - highest
    sums = first[lowest] + first[-1] - first[rest]
    variances = (square[lowest] + square[-1] - square[rest]) / m - (sums / m) ** 2
    best = np.flatnonzero(variances >= variances.max() - _ROUNDING * max(square[-1], 0.0))
    k = best[np.argmin(np.abs(2 * best - m))]
    return np.concatenate([order[: m - k], order[len(order) - k :]])
