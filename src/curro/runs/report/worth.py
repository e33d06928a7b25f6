"""What the choice of prompts was worth: the rollouts that uniform sampling would have needed for as much."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from curro.runs.reader import LEARNABLE, History
from curro.runs.report.figures import rollouts_of_groups


@dataclass(frozen=True)
class Worth:
    """The rollouts of a run, and those that uniform sampling would have needed for the same signal.

    A group i of n_i rollouts has a signal (s_i = 1) where its rewards vary. With u_i the share of groups with
    a signal that uniform sampling would have had at its step, by the estimate of that step
    (`curro.core.meters.UniformMeter`; before the first estimate, that one),

        needed = sum over i of s_i n_i / u_i

    so that the choice of prompts was worth `needed` less `spent`. The interval puts the ends of every
    estimate's 95% interval in place of u_i. It is wide, because the estimates of neighbouring steps share
    most of their groups and are not averaged out.

    Attributes:
        spent: rollouts of all groups, those without a reward too.
        with_signal: rollouts of groups with a signal.
        needed, low, high: the estimate and its interval; NaN where nothing is known of uniform sampling, and
            infinite where its share may be 0.
    """

    spent: float
    with_signal: float
    needed: float
    low: float
    high: float

    @classmethod
    def of(cls, history: History) -> Worth | None:
        """What a run was worth; None for one without finished groups, or that does not say their sizes."""
        sizes = rollouts_of_groups(history)
        if sizes is None or not sizes.sum():
            return None
        useful = np.where(history.groups.state == LEARNABLE, sizes, 0.0)
        needed = {}
        for end in ("", "_low", "_high"):
            at, share = history.series(f"signal/uniform_share{end}")
            if not len(at):
                needed[end] = np.nan
                continue
            latest = np.searchsorted(at, history.groups.step, side="right") - 1
            share_F, has_signal = share[np.maximum(latest, 0)], useful > 0
            with np.errstate(divide="ignore", over="ignore"):
                needed[end] = float((useful[has_signal] / share_F[has_signal]).sum())
        # the most is needed where uniform sampling would find least
        unscored = np.nansum(history.generated["rollouts"]) - np.nansum(history.groups.rollouts)
        return cls(
            float(sizes.sum() + unscored), float(useful.sum()), needed[""], needed["_high"], needed["_low"]
        )

    def describe(self) -> str:
        """The sentence for a user, which also holds where nothing is known of uniform sampling."""
        share = self.with_signal / self.spent
        useful = f"{self.with_signal:,.0f} ({share:.0%})"
        sentence = f"Of {self.spent:,.0f} rollouts, {useful} were in groups with a signal."
        if np.isnan(self.needed):
            return (
                f"{sentence} What uniform sampling would have needed for as many is not known: too few "
                "prompts were drawn with a known probability."
            )
        if np.isinf(self.needed):
            return f"{sentence} Uniform sampling, by its estimate, would have found none in any number."
        most = f"to {self.high:,.0f}" if np.isfinite(self.high) else "or more"
        gain = self.needed - self.spent
        if self.low <= self.spent <= self.high:
            verdict = "which is no more and no less than was spent, as far as the estimate tells"
        else:
            verdict = (
                f"so that the choice of prompts {'was worth' if gain > 0 else 'cost'} about "
                f"{abs(gain):,.0f} rollouts"
            )
        return (
            f"{sentence} Uniform sampling would have needed an estimated {self.needed:,.0f} "
            f"({self.low:,.0f} {most}) for as many, {verdict}."
        )
