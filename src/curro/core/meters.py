"""What a curriculum measures of itself: its signal, its sources, and what uniform sampling would find."""

from __future__ import annotations

import logging
import warnings
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from curro.core.checkpoint import check_prompt_numbers, check_state
from curro.core.groups import Groups
from curro.core.intervals import agresti_coull
from curro.core.prompts import OTHER, PromptTable
from curro.core.standing import UNIFORM_LEAST, WINDOW, Standing, no_gain
from curro.core.text import printable

_LOG = logging.getLogger(__name__)

SHAPING_WINDOW = 64
"""Groups that `ShapingMeter` looks at: the latest."""


class _Warner:
    """Looks at the latest groups, which are not saved, and warns once."""

    def __init__(self, table: PromptTable) -> None:
        self.table, self._has_warned = table, False

    def _warn(self, message: str, stacklevel: int) -> None:
        self._has_warned = True
        warnings.warn(message, RuntimeWarning, stacklevel=stacklevel)


class ShapingMeter(_Warner):
    """Warns where the trained reward varies in most of 64 admitted groups and its outcome in few.

    Then most of the update follows the other parts of the reward, as a format or a length.
    """

    def __init__(self, table: PromptTable) -> None:
        super().__init__(table)
        self._latest: deque[tuple[bool, bool]] = deque(maxlen=SHAPING_WINDOW)

    def observe(self, trained_P: np.ndarray, outcome_P: np.ndarray) -> None:
        """Take in the variances of admitted groups: of the trained reward, and of the signal."""
        if not self.table.signal_parts:
            return
        varies = (~self.table.is_flat(trained_P)).tolist(), (~self.table.is_flat(outcome_P)).tolist()
        self._latest.extend(zip(*varies, strict=True))
        trained, outcome = np.sum(self._latest, axis=0).tolist() if self._latest else (0, 0)
        is_shaped = len(self._latest) == SHAPING_WINDOW and 2 * trained > SHAPING_WINDOW > 4 * outcome
        if is_shaped and not self._has_warned:
            self._warn(
                f"the trained reward varies in {trained} of the latest {SHAPING_WINDOW} groups, and "
                f"{' + '.join(self.table.signal_parts)} in {outcome}: most of the update follows other parts "
                "of the reward. Set admission=signal, which trains on groups whose outcome varies, or lower "
                "their weights",
                stacklevel=5,
            )


SURVIVAL_WINDOW, SURVIVAL_LEAST = 512, 32
"""Tickets that `SurvivalMeter` looks at, the latest; how many trained and lost ones it needs to warn."""

EASIER = 0.1
"""How much higher the success rate of trained prompts has to be than that of drawn ones for a warning."""


class SurvivalMeter(_Warner):
    """How hard the prompts were that were drawn, trained on and lost recently; warns of a bias.

    Asynchronous trainers throw away groups that take long, as hard prompts' do, and gates reject groups in
    which no rollout succeeds. The difficulty is the success rate that the table had when the group ended;
    prompts that were never observed before do not count.
    """

    def __init__(self, table: PromptTable) -> None:
        super().__init__(table)
        self._latest: deque[tuple[float, str]] = deque(maxlen=SURVIVAL_WINDOW)
        self._unchecked = 0

    def settle(self, prompts_P: np.ndarray, admitted_P: np.ndarray | None, cause: str = "dropped") -> None:
        """Take in prompts whose tickets are settled, before the table notes the visit.

        `admitted_P` is None where they were dropped, for this `cause`: empty if nothing was rolled out.
        """
        if admitted_P is None and not cause:
            return
        rates_P = self.table.success_rate(self.table["reward_mean"][prompts_P])
        fates_P = [cause] * len(prompts_P)
        if admitted_P is not None:
            fates_P = np.where(admitted_P, "trained", "rejected").tolist()
        known = [(rate, fate) for rate, fate in zip(rates_P.tolist(), fates_P, strict=True) if rate == rate]
        self._latest.extend(known)
        self._unchecked += len(known)
        if admitted_P is not None and self._unchecked >= SURVIVAL_LEAST and not self._has_warned:
            self._unchecked = 0
            self._compare()

    def _rates(self) -> dict[str, np.ndarray]:
        """The success rates in the window of all prompts, `drawn`, and by what became of their groups."""
        rates: dict[str, list[float]] = {"drawn": [rate for rate, _ in self._latest], "trained": []}
        for rate, fate in self._latest:
            rates.setdefault(fate, []).append(rate)
        return {fate: np.array(some) for fate, some in rates.items()}

    def _compare(self) -> None:
        rates = self._rates()
        drawn, trained = rates.pop("drawn"), rates.pop("trained")
        lost = np.concatenate([*rates.values(), []])
        if min(len(lost), len(trained)) < SURVIVAL_LEAST:
            return
        error = np.sqrt(trained.var() / len(trained) + lost.var() / len(lost))
        # asked again and again, three standard errors are passed by chance now and then
        if trained.mean() - lost.mean() > 5 * error and trained.mean() - drawn.mean() > EASIER:
            cause = max(rates, key=lambda fate: (trained.mean() - rates[fate]).sum())
            advice = (
                "More rollouts of a prompt let more of its groups pass the gate"
                if cause == "rejected"
                else "Let the trainer wait longer for groups, or train on older ones: it starves hard prompts"
            )
            self._warn(
                f"prompts that are trained on are easier than those that are drawn: success rates of "
                f"{trained.mean():.2f} and {drawn.mean():.2f} in the latest {len(drawn)} groups, of which "
                f"{len(rates[cause])} were {cause}, with {rates[cause].mean():.2f}. {advice}",
                stacklevel=6,
            )

    def metrics(self) -> dict[str, float]:
        """The mean success rate of prompts drawn, trained on, and lost by each cause, where there are any."""
        return {
            f"{fate}/success_rate": float(some.mean()) for fate, some in self._rates().items() if len(some)
        }


class RangeMeter(_Warner):
    """Warns of rewards outside of the reward range.

    With rewards of -1 and +1 and a range of (0, 1), a band around 1/2 admits groups that succeed in three
    quarters of their rollouts. Rewards outside are allowed: a shaped reward may have them on purpose.
    """

    def __init__(self, table: PromptTable) -> None:
        super().__init__(table)
        self._lowest, self._highest = np.inf, -np.inf

    def observe(self, groups: Groups) -> None:
        """Take in groups with the rewards by which they are judged, before they are settled."""
        if self._has_warned or not groups.scored.any():
            return
        rewards, parts = groups.rewards[groups.scored], self.table.signal_parts
        self._lowest = min(self._lowest, float(rewards.min()))
        self._highest = max(self._highest, float(rewards.max()))
        low, high = self.table.reward_range
        rounding = 1e-6 * (high - low)
        if low - rounding <= self._lowest and self._highest <= high + rounding:
            return
        ends = f"{min(low, self._lowest):g}", f"{max(high, self._highest):g}"
        name = f"values of the signal {' + '.join(parts)}" if parts else "rewards"
        self._warn(
            f"{name} from {self._lowest:g} to {self._highest:g} were seen, and the reward range is "
            f"{low:g} to {high:g}: success rates, bands and predictions misread what lies outside of it. Set "
            f"reward_range=({', '.join(ends)}), the rewards of complete failure and of complete success "
            f"(curro train: --reward-range={','.join(ends)}; verl and slime: curro.reward_range)",
            stacklevel=5,
        )


SOURCE_WINDOW = 512
"""Groups that `GroupMeter` looks at for sources, the latest."""

MAX_SOURCES = 32
"""With more sources there are no metrics by source."""

FIRST, TENTH = 128, 10
"""A run is judged first after so many groups, or the tenth part of its steps; again at each double."""


class GroupMeter:
    """What the latest groups show: their signal, their sources, and what uniform sampling would find.

    The signal is the mean of A^2, A = r - mean r ("Prioritized Replay for RL Post-training", section 4.3):
    gradients grow with it, so a learning rate tuned for uniform sampling may have to come down.

    Uniform sampling is estimated from groups whose chance of being drawn is known: a group counts by the
    weight w that `Selection.uniform_weights` gave it when it was drawn, in proportion to one over its
    probability. Predictions make the estimate sharper: the offset d of a group is its prediction less the
    mean prediction of all candidates of its draw, which is 0 in expectation
    (`Selection.prediction_offsets`). With y the variance of a group, or 1 if it has a signal and else 0, the
    estimate is

        m = sum(w (y - c d)) / sum(w)

    where c is the least-squares slope of y by d, at least 0, of all groups but this one.

    This is prediction-powered inference (Angelopoulos et al., arXiv 2301.09633) with the tuned slope of
    arXiv 2311.01453: predictions that are wrong make it no less true, and useless ones no less sharp.

    The effective number of groups is e = sum(w)^2 / sum(w^2). With e below 16 there is no estimate, and none
    where the mean weight is below 1 - 2 / sqrt(e), two of its standard deviations below what it has to be:
    then prompts that are drawn too rarely for the window are missing. The interval of the share is
    Agresti's and Coull's (1998) at 95%, for as many groups as have the variance of the estimate without
    predictions: m (1 - m) (e - 2) / sum(w (y - m - c d)^2) sum(w).
    """

    def __init__(self, table: PromptTable) -> None:
        self.table = table
        self.steps: int | None = None  # training steps of the run, where a host has said how many
        self._open: dict[int, tuple[float, float]] = {}
        self._source_names: dict[int, str] = {}
        # rows of each group: weight (NaN: the method chose it), offset, variance, success rate, prompt
        self._latest = np.empty((5, 0))
        # not saved: a resumed run is judged anew
        self._seen, self._next = 0, 0
        self._has_warned = self._has_withdrawn = False

    def draw(self, tickets_P: np.ndarray, weights_P: np.ndarray, offsets_P: np.ndarray) -> None:
        """Note the weights with which groups will count, NaN for none, and the offsets of predictions."""
        noted = zip(weights_P.tolist(), offsets_P.tolist(), strict=True)
        drawn = zip(tickets_P.tolist(), noted, strict=True)
        self._open.update((ticket, pair) for ticket, pair in drawn if pair[0] > 0)

    def observe(
        self,
        tickets_P: np.ndarray,
        prompts_P: np.ndarray,
        variance_P: np.ndarray,
        mean_P: np.ndarray,
        step: int = 0,
    ) -> None:
        """Take in finished groups: their prompts, and the variances and means of the signal's rewards.

        After a tenth of the run's steps, or after 128 groups where these are not known, and at each double of
        the groups so far, it logs once that the method finds no more than uniform sampling, and once that
        later groups show the contrary. `step` is how many training steps had finished at the latest draw.
        """
        noted_P2 = [self._open.pop(ticket, (np.nan, 0.0)) for ticket in tickets_P.tolist()]
        rate_P = self.table.success_rate(mean_P)
        rows_P5 = np.column_stack([np.reshape(noted_P2, (-1, 2)), variance_P, rate_P, prompts_P])
        self._latest = np.concatenate([self._latest, rows_P5.T], axis=1)[:, -WINDOW:]
        self._seen += len(tickets_P)
        is_due = self._seen >= (self._next or FIRST)
        if self.steps is not None and not self._next:
            is_due = TENTH * (step + 1) >= self.steps
        if is_due and not self._has_withdrawn:
            self._next = 2 * self._seen
            self._judge()

    def _judge(self) -> None:
        """Warn of a method that finds no more than uniform sampling, or take the warning back."""
        metrics = self.metrics()
        uniform, low, high = (metrics[f"signal/uniform_share{end}"] for end in ("", "_low", "_high"))
        flat_K = self.table.is_flat(self._latest[2])
        if not self._has_warned:
            sentence = no_gain(uniform, np.isnan(self._latest[0]), flat_K, self._latest[3])
            if sentence is not None:
                self._has_warned = True
                _LOG.warning(sentence)
        elif not np.isnan(uniform):
            standing = Standing(len(flat_K), float(np.mean(~flat_K)), uniform, (low, high))
            if standing.word == "works":
                self._has_withdrawn = True
                sentence = standing.sentence("the method")
                _LOG.warning(f"contrary to what was said before, the method helps now. {sentence}")

    def drop(self, tickets_P: np.ndarray) -> None:
        """Forget groups that were dropped."""
        for ticket in tickets_P.tolist():
            self._open.pop(ticket, None)

    def metrics(self) -> dict[str, float]:
        """The signal and the estimates, NaN where too little is known, and what `_source_metrics` gives."""
        # the same groups as uniform sampling's: the policy learns, and others would be of another policy
        signal = float(self._latest[2].mean()) if self._latest.size else np.nan
        weight_K, offset_K, variance_K, *_ = self._latest[:, ~np.isnan(self._latest[0])]
        total, squares = weight_K.sum(), np.square(weight_K).sum()
        count = total**2 / squares if squares else 0.0
        variance = share = low = high = np.nan
        if count >= UNIFORM_LEAST and total >= len(weight_K) * (1 - 2 / np.sqrt(count)):
            weight_K = weight_K / total
            variance = max(_with_predictions(weight_K, offset_K, variance_K)[0], 0.0)
            has_signal_K = (~self.table.is_flat(variance_K)).astype(float)
            share, spread = _with_predictions(weight_K, offset_K, has_signal_K)
            share = min(max(share, 0.0), 1.0)
            if spread > 1e-12:  # with equal groups it is 0 or rounding
                count = max(count, share * (1 - share) * (count - 2) / spread)
            low, high = agresti_coull(share, count)
        return {
            "signal/mean_square_advantage": signal,
            "signal/uniform": variance,
            "signal/ratio": signal / variance if variance > 0 else np.nan,
            "signal/uniform_share": share,
            "signal/uniform_share_low": low,
            "signal/uniform_share_high": high,
            **self._source_metrics(),
        }

    def _source_metrics(self) -> dict[str, float]:
        """`<source>/share`, `<source>/pass_rate` and `<source>/signal_share` of the latest 512 groups."""
        if self.table.source_column is None:
            return {}
        variance_K, rate_K, prompt_K = self._latest[2:, -SOURCE_WINDOW:]
        names, source_K = np.unique([self._source(int(prompt)) for prompt in prompt_K], return_inverse=True)
        metrics: dict[str, float] = {}
        for source, name in enumerate(names.tolist() if len(names) <= MAX_SOURCES else []):
            own_K = source_K == source
            metrics[f"{name}/share"] = float(own_K.mean())
            metrics[f"{name}/pass_rate"] = float(rate_K[own_K].mean())
            metrics[f"{name}/signal_share"] = float(np.mean(~self.table.is_flat(variance_K[own_K])))
        return metrics

    def _source(self, prompt: int) -> str:
        if prompt not in self._source_names:  # reading a row may take long
            self._source_names[prompt] = printable(self.table.source(prompt) or OTHER).replace("/", "-")
        return self._source_names[prompt]

    def state_dict(self) -> dict[str, Any]:
        tickets = np.array(sorted(self._open), np.int64)
        open_T2 = np.reshape([self._open[ticket] for ticket in tickets.tolist()], (-1, 2)).astype(np.float64)
        return {"tickets": tickets, "open": open_T2, "latest": self._latest.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        tickets, open_T2, latest = state["tickets"], state["open"], state["latest"]
        are_weights = open_T2.shape == (len(tickets), 2) and (open_T2[:, :1] > 0).all()
        check_state(are_weights, "meters/open")
        is_window = len(latest) == 5 and latest.shape[1] <= WINDOW
        check_state(is_window and not (latest[[0, 2]] <= -1).any(), "meters/latest")
        check_prompt_numbers(latest[4], self.table.size, "meters/latest")
        self._open = dict(zip(tickets.tolist(), map(tuple, open_T2.tolist()), strict=True))
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
