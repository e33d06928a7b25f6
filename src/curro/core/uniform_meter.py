"""What uniform sampling would find, estimated beside the method, and how the method stands against it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from curro.core.checkpoint import check_state
from curro.core.intervals import agresti_coull
from curro.core.prompts import PromptTable

_LOG = logging.getLogger(__name__)

UNIFORM_WINDOW = 1024
"""Groups that the estimate for uniform sampling looks at: the latest."""

UNIFORM_LEAST = 16
"""The effective number of groups from which on there is an estimate."""

FIRST = 128
"""The number of groups at which a run is judged first; again at each double."""
LEAST_GAIN, LEAST_DIFFERENCE = 1.1, 0.02
"""The factor over uniform sampling's share of groups with a signal, and the difference, up to which the
method finds no more."""
MOST = 0.6
"""Uniform sampling's share of groups with a signal above which little can be saved."""
FLAT = 0.9
"""The share of random prompts that are solved, or fail, in all rollouts, above which nothing can be found."""


class UniformMeter:
    """What uniform sampling would find, estimated from groups whose chance of being drawn is known.

    Prompts that the method chose for their promise say nothing of the others. So a group counts by the weight
    w that `Selection.uniform_weights` gave it when it was drawn, which is in proportion to one over its
    probability, and a group without a weight does not count. Predictions make the estimate sharper: the
    offset d of a group is its prediction less the mean prediction of all candidates of its draw, which is 0
    in expectation (`Selection.prediction_offsets`). With y the variance of a group, or 1 if it has a
    signal and else 0, the estimate is

        m = sum(w (y - c d)) / sum(w)

    where c is the least-squares slope of y by d, at least 0, of all groups but this one.

    This is prediction-powered inference (Angelopoulos et al., arXiv 2301.09633) with the tuned slope of
    arXiv 2311.01453: predictions that are wrong make it no less true, and useless ones no less sharp.

    The effective number of groups is e = sum(w)^2 / sum(w^2). With e below 16 there is no estimate, and none
    where the mean weight is below 1 - 2 / sqrt(e), two of its standard deviations below what it has to be:
    then prompts that are drawn too rarely for the window are missing. The interval of the share is that of
    Agresti and Coull (1998) at 95%, of as many groups as have the variance of the estimate without
    predictions: m (1 - m) (e - 2) / sum(w (y - m - c d)^2) sum(w).
    """

    def __init__(self, table: PromptTable) -> None:
        self.table = table
        self._open: dict[int, tuple[float, float]] = {}
        # of each group: weight, offset of its prediction, variance, success rate
        self._latest = np.empty((4, 0))

    def draw(self, tickets_P: np.ndarray, weights_P: np.ndarray, offsets_P: np.ndarray) -> None:
        """Note the weights with which groups will count, NaN for none, and the offsets of predictions."""
        rows = zip(tickets_P.tolist(), weights_P.tolist(), offsets_P.tolist(), strict=True)
        self._open.update((ticket, (weight, offset)) for ticket, weight, offset in rows if weight > 0)

    def observe(self, tickets_P: np.ndarray, variance_P: np.ndarray, rate_P: np.ndarray) -> None:
        """Take in finished groups: their variances and success rates."""
        noted_P2 = [self._open.pop(ticket, (np.nan, 0.0)) for ticket in tickets_P.tolist()]
        rows_P4 = np.column_stack([np.reshape(noted_P2, (-1, 2)), variance_P, rate_P])
        self._latest = np.concatenate([self._latest, rows_P4.T], axis=1)[:, -UNIFORM_WINDOW:]

    def drop(self, tickets_P: np.ndarray) -> None:
        """Forget groups that were dropped."""
        for ticket in tickets_P.tolist():
            self._open.pop(ticket, None)

    def chosen(self) -> np.ndarray:
        """Which of the latest groups, bool (K,), have no weight: the method chose them itself."""
        return np.isnan(self._latest[0])

    def flat(self) -> np.ndarray:
        """Which of the latest groups, bool (K,), have no signal."""
        return self.table.is_flat(self._latest[2])

    def rates(self) -> np.ndarray:
        """Success rates (K,) of the latest groups."""
        return self._latest[3]

    def metrics(self, recent: float) -> dict[str, float]:
        """The estimates; NaN where too little is known.

        Args:
            recent: the mean square advantage of recent groups, of whatever prompts.
        """
        weight_K, offset_K, variance_K, _ = self._latest[:, ~self.chosen()]
        total, squares = weight_K.sum(), np.square(weight_K).sum()
        count = total**2 / squares if squares else 0.0
        variance = share = low = high = np.nan
        if count >= UNIFORM_LEAST and total >= len(weight_K) * (1 - 2 / np.sqrt(count)):
            weight_K = weight_K / total
            variance = max(_with_predictions(weight_K, offset_K, variance_K)[0], 0.0)
            has_signal_K = (~self.table.is_flat(variance_K)).astype(float)
            share, spread = _with_predictions(weight_K, offset_K, has_signal_K)
            share = min(max(share, 0.0), 1.0)
            if spread > 0:
                count = max(count, share * (1 - share) * (count - 2) / spread)
            low, high = agresti_coull(share, count)
        return {
            "signal/uniform": variance,
            "signal/ratio": recent / variance if variance > 0 else np.nan,
            "signal/uniform_share": share,
            "signal/uniform_share_low": low,
            "signal/uniform_share_high": high,
        }

    def state_dict(self) -> dict[str, Any]:
        tickets = np.array(sorted(self._open), np.int64)
        open_T2 = np.reshape([self._open[ticket] for ticket in tickets.tolist()], (-1, 2)).astype(np.float64)
        return {"tickets": tickets, "open": open_T2, "latest": self._latest.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        tickets, open_T2, latest = state["tickets"], state["open"], state["latest"]
        are_weights = open_T2.shape == (len(tickets), 2) and (open_T2[:, :1] > 0).all()
        check_state(are_weights, "uniform/open", "is not of weights")
        is_window = len(latest) == 4 and latest.shape[1] <= UNIFORM_WINDOW
        check_state(is_window and not (latest[[0, 2]] <= -1).any(), "uniform/latest", "is not of groups")
        rows = zip(tickets.tolist(), open_T2.tolist(), strict=True)
        self._open = {ticket: (weight, offset) for ticket, (weight, offset) in rows}
        self._latest = latest.copy()


def _with_predictions(weight_K: np.ndarray, offset_K: np.ndarray, y_K: np.ndarray) -> tuple[float, float]:
    """The mean of y with weights that sum to 1, less what predictions explain, and the variance of a group
    that is left."""
    square_K = weight_K * offset_K**2
    product_K = weight_K * offset_K * (y_K - weight_K @ y_K)
    others_K = np.maximum(square_K.sum() - square_K, 1e-12)
    rest_K = y_K - np.maximum((product_K.sum() - product_K) / others_K, 0) * offset_K
    mean = float(weight_K @ rest_K)
    return mean, float(weight_K @ (rest_K - mean) ** 2)


def no_gain(meter: UniformMeter) -> str | None:
    """What to tell a user whose method finds no more than uniform sampling; None where it finds more.

    None too where too few groups of either are known. The method counts as finding more where its share of
    groups with a signal is above 1.1 times uniform sampling's, and above it by 0.02.
    """
    chosen_K, flat_K, rate_K = meter.chosen(), meter.flat(), meter.rates()
    uniform = meter.metrics(0.0)["signal/uniform_share"]
    count = int(np.count_nonzero(chosen_K))
    if np.isnan(uniform) or count < FIRST // 4:
        return None
    share = float(np.mean(~flat_K[chosen_K]))
    if share > max(LEAST_GAIN * uniform, uniform + LEAST_DIFFERENCE):
        return None
    random_K = ~chosen_K
    solved = float(np.mean(flat_K[random_K] & (rate_K[random_K] > 0.5)))
    failed = float(np.mean(flat_K[random_K] & (rate_K[random_K] <= 0.5)))
    if uniform > MOST:
        cause = "Most groups have a signal anyway, so there is little to save: uniform sampling does as well."
    elif failed > FLAT:
        cause = (
            f"{failed:.0%} of random prompts fail in all rollouts. Read some rollouts, as the reward may not "
            "recognise right answers; add easier prompts, or start from a model that solves some."
        )
    elif solved > FLAT:
        cause = f"{solved:.0%} of random prompts are solved in all rollouts: add harder ones."
    elif solved + failed > FLAT:
        cause = f"{solved:.0%} of random prompts are always solved and {failed:.0%} never: add others."
    else:
        cause = (
            "What the method reads does not tell which prompts have a signal: try "
            "frontier:features=text+entropy, known pass rates (--known), or uniform sampling."
        )
    return (
        f"so far the method finds no more than uniform sampling: {share:.0%} of the groups that it "
        f"chose have a signal, and of random ones an estimated {uniform:.0%}. {cause}"
    )


class StandingMeter:
    """Logs once that the method finds no more than uniform sampling; it judges at 128, 256, 512, ... groups.

    The counts are not saved: a resumed run is judged anew.
    """

    def __init__(self, uniform: UniformMeter) -> None:
        self.uniform = uniform
        self._seen, self._next, self._has_warned = 0, FIRST, False

    def observe(self, groups: int) -> None:
        """Take in the number of groups that have finished since the last call."""
        self._seen += groups
        if self._has_warned or self._seen < self._next:
            return
        while self._next <= self._seen:
            self._next *= 2
        if (sentence := no_gain(self.uniform)) is not None:
            self._has_warned = True
            _LOG.warning(sentence)
