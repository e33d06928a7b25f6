"""How a method stands against uniform sampling: how much more it finds, and why it finds no more."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from curro.core.intervals import Interval, agresti_coull, ratio_interval

WINDOW = 1024
"""Groups that are looked at, the latest."""
UNIFORM_LEAST = 16
"""The effective number of groups from which on there is an estimate for uniform sampling."""
LEAST_CHOSEN = 32
"""The number of groups that the method chose itself from which on it is judged."""
LEAST_GAIN, LEAST_DIFFERENCE = 1.1, 0.02
"""A share must be above uniform sampling's by this factor and difference, or the method gains nothing."""
MOST = 0.6
"""Uniform sampling's share of groups with a signal above which little can be saved."""
FLAT = 0.9
"""The share of random prompts that are solved, or fail, in all rollouts, above which nothing can be found."""


@dataclass(frozen=True)
class Standing:
    """The number of a method's latest groups, the share of them with a signal, and the estimate of what
    uniform sampling would have found in their place, with the ends of its 95% interval.
    """

    count: int
    share: float
    uniform: float
    ends: Interval

    @property
    def ratio(self) -> float:
        """How many times as many groups with a signal the method found; infinite where uniform finds none."""
        return self.share / self.uniform if self.uniform else math.inf

    @property
    def interval(self) -> Interval:
        """The 95% interval of `ratio`, from the intervals of both shares (`ratio_interval`).

        The share's own is Agresti's and Coull's. Uniform sampling's places are among the groups, so that
        both estimates err in the same direction and the interval is rather too wide.
        """
        return ratio_interval(self.share, agresti_coull(self.share, self.count), self.uniform, self.ends)

    @property
    def word(self) -> str:
        """The verdict: "works", "level" with uniform sampling or "behind" it."""
        low, high = self.interval
        if low > 1 and self.ratio > LEAST_GAIN:
            return "works"
        return "behind" if high < 1 else "level"

    def sentence(self, name: str) -> str:
        """What a method of this name found in these groups."""
        (low, high), (least, most) = self.interval, self.ends
        if self.share == self.uniform == 0:
            return (
                f"None of the last {self.count:,} groups that {name} chose had a signal, and uniform "
                f"sampling would have found one in 0% to {most:.0%}."
            )
        if self.uniform == 0:
            times = f"at least {low:.2f}"
        elif high == math.inf:
            times = f"{self.ratio:.2f} ({low:.2f} or more)"
        else:
            times = f"{self.ratio:.2f} ({low:.2f} to {high:.2f})"
        return (
            f"In the last {self.count:,} groups {name} found {times} times as many groups with a signal as "
            f"uniform sampling would have: {self.share:.0%} of them had one, against an estimated "
            f"{self.uniform:.0%} ({least:.0%} to {most:.0%})."
        )


def no_gain(uniform: float, chosen_K: np.ndarray, flat_K: np.ndarray, rate_K: np.ndarray) -> str | None:
    """What to tell a user whose method finds no more than uniform sampling; None where it finds more.

    None too where too few groups of either are known. The method counts as finding more where its share of
    groups with a signal is above 1.1 times uniform sampling's, and above it by 0.02.

    Args:
        uniform: the estimate of uniform sampling's share of groups with a signal, NaN for none.
        chosen_K: which of the latest groups the method chose itself, bool (K,); the others are random ones.
        flat_K: which have no signal, bool (K,).
        rate_K: their success rates (K,).
    """
    if np.isnan(uniform) or np.count_nonzero(chosen_K) < LEAST_CHOSEN:
        return None
    share = float(np.mean(~flat_K[chosen_K]))
    if share > max(LEAST_GAIN * uniform, uniform + LEAST_DIFFERENCE):
        return None
    flat_R, rate_R = flat_K[~chosen_K], rate_K[~chosen_K]
    solved, failed = float(np.mean(flat_R & (rate_R > 0.5))), float(np.mean(flat_R & (rate_R <= 0.5)))
    if flat_K.all() and np.ptp(rate_K) == 0 and 0 < rate_K[0] < 1:
        cause = "All rollouts had the same reward: it may not depend on the completion."
    elif uniform > MOST:
        cause = "Most groups have a signal anyway, so there is little to save: uniform sampling does as well."
    elif failed > FLAT:
        cause = (
            f"{failed:.0%} of random prompts fail in all rollouts. Read some rollouts, as they may be cut or "
            "the reward may not recognise right answers; add easier prompts, or start from a model that "
            "solves some."
        )
    elif solved > FLAT:
        cause = f"{solved:.0%} of random prompts are solved in all rollouts: add harder ones."
    elif solved + failed > FLAT:
        cause = (
            f"{solved:.0%} of random prompts are always solved and {failed:.0%} never: sample with a higher "
            "temperature if rollouts of a prompt are alike, or add other prompts."
        )
    else:
        cause = (
            "What the method reads does not tell which prompts have a signal: try "
            "frontier:features=text+entropy, known pass rates (--known), or uniform sampling."
        )
    return (
        f"so far the method finds no more than uniform sampling: {share:.0%} of the groups that it "
        f"chose have a signal, and of random ones an estimated {uniform:.0%}. {cause}"
    )
