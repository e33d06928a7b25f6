"""What a curriculum measures of itself: its signal, its sources, and what shapes its updates."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from curro.core.checkpoint import check_state
from curro.core.groups import Groups
from curro.core.prompts import OTHER, PromptTable
from curro.core.text import printable
from curro.core.uniform_meter import StandingMeter, UniformMeter

_RATE = 1 / 256


class SignalMeter:
    """The advantages' mean square, A = r - mean r, of recent groups.

    "Prioritized Replay for RL Post-training", section 4.3: gradients grow with it, so a learning rate tuned
    for uniform sampling may have to come down. `UniformMeter` has what uniform sampling would see.
    """

    def __init__(self, table: PromptTable) -> None:
        self.table = table
        self.average, self.groups = 0.0, 0
        self._kept: np.ndarray = np.ones(1)

    def observe(self, variance_P: np.ndarray) -> None:
        """Take in the variances of finished groups."""
        if len(variance_P) >= len(self._kept):
            self._kept = (1 - _RATE) ** np.arange(2 * len(variance_P), -1, -1)
        kept = self._kept[-1 - len(variance_P) :]
        self.average = float(kept[0]) * self.average + _RATE * float(kept[1:].dot(variance_P))
        self.groups += len(variance_P)

    def metrics(self) -> dict[str, float]:
        recent = self.average / (1 - (1 - _RATE) ** self.groups) if self.groups else np.nan
        return {"signal/mean_square_advantage": recent}

    def state_dict(self) -> dict[str, Any]:
        return {"average": self.average, "groups": self.groups}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        is_mean_square = 0 <= state["average"] < np.inf and state["groups"] >= 0
        check_state(is_mean_square, "signal", "is not a mean square of a number of groups")
        self.average, self.groups = state["average"], state["groups"]


WINDOW = 512
"""Groups that are counted: the latest."""

MAX_SOURCES = 32
"""With more sources there are no metrics by source."""

SHAPING_WINDOW = 64
"""Groups that `ShapingMeter` looks at: the latest."""


class SourceMeter:
    """The share drawn, the pass rate and the share of groups with a signal of every source, recently.

    The window is not saved: a resumed run fills it anew.
    """

    def __init__(self, table: PromptTable) -> None:
        self.table = table
        self._latest: deque[tuple[str, float, bool]] = deque(maxlen=WINDOW)

    def observe(self, prompts_P: np.ndarray, mean_P: np.ndarray, variance_P: np.ndarray) -> None:
        """Take in finished groups."""
        if self.table.source_column is None:
            return
        rates, flat = self.table.success_rate(mean_P).tolist(), self.table.is_flat(variance_P).tolist()
        for prompt, rate, is_flat in zip(prompts_P.tolist(), rates, flat, strict=True):
            name = printable(self.table.source(prompt) or OTHER).replace("/", "-")
            self._latest.append((name, rate, not is_flat))

    def metrics(self) -> dict[str, float]:
        """`<source>/share`, `<source>/pass_rate` and `<source>/signal_share` over the window."""
        groups_of: dict[str, list[tuple[float, bool]]] = {}
        for name, rate, has_signal in self._latest:
            groups_of.setdefault(name, []).append((rate, has_signal))
        if len(groups_of) > MAX_SOURCES:
            return {}
        metrics = {}
        for name, groups in sorted(groups_of.items()):
            metrics[f"{name}/share"] = len(groups) / len(self._latest)
            metrics[f"{name}/pass_rate"] = float(np.mean([rate for rate, _ in groups]))
            metrics[f"{name}/signal_share"] = float(np.mean([has_signal for _, has_signal in groups]))
        return metrics


class ShapingMeter:
    """Warns once where the trained reward varies in most groups and its outcome in few.

    Then most of the update follows the other parts of the reward, as a format or a length. It looks at the
    latest 64 groups that were admitted; they are not saved.
    """

    def __init__(self, table: PromptTable) -> None:
        self.table = table
        self._latest: deque[tuple[bool, bool]] = deque(maxlen=SHAPING_WINDOW)
        self._has_warned = False

    def observe(self, trained_P: np.ndarray, outcome_P: np.ndarray, parts: Sequence[str]) -> None:
        """Take in the variances of admitted groups: of the trained reward, and of these parts of it."""
        varies = (~self.table.is_flat(trained_P)).tolist(), (~self.table.is_flat(outcome_P)).tolist()
        self._latest.extend(zip(*varies, strict=True))
        trained, outcome = np.sum(self._latest, axis=0).tolist() if self._latest else (0, 0)
        is_shaped = len(self._latest) == SHAPING_WINDOW and 2 * trained > SHAPING_WINDOW > 4 * outcome
        if is_shaped and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"the trained reward varies in {trained} of the latest {SHAPING_WINDOW} groups, and "
                f"{' + '.join(parts)} in {outcome}: most of the update follows other parts of the reward. "
                "Set admission=signal, which trains on groups whose outcome varies, or lower their weights",
                RuntimeWarning,
                stacklevel=5,
            )


SURVIVAL_WINDOW, SURVIVAL_LEAST = 512, 32
"""Tickets that `SurvivalMeter` looks at, the latest; how many dropped and observed ones it needs to warn."""


class SurvivalMeter:
    """How hard the prompts were that were drawn, dropped and trained on, recently; warns once of a bias.

    Asynchronous trainers throw away groups that take long, as hard prompts' do. The difficulty is
    the success rate that the table had when the group ended; prompts that were never observed before do not
    count. The window is not saved.
    """

    def __init__(self, table: PromptTable) -> None:
        self.table = table
        self._latest: deque[tuple[float, bool, bool]] = deque(maxlen=SURVIVAL_WINDOW)
        self._is_unchecked = self._has_warned = False

    def settle(self, prompts_P: np.ndarray, admitted_P: np.ndarray | None) -> None:
        """Take in prompts whose tickets are settled, before the table notes the visit.

        Args:
            admitted_P: which are trained on, bool (P,); None where the tickets were dropped.
        """
        rates_P = self.table.success_rate(self.table["reward_mean"][prompts_P])
        known_P = np.flatnonzero(~np.isnan(rates_P))
        trained = np.zeros(len(prompts_P), np.bool_) if admitted_P is None else admitted_P
        fates = [(admitted_P is None, bool(is_trained)) for is_trained in trained[known_P]]
        self._latest.extend(
            (rate, *fate) for rate, fate in zip(rates_P[known_P].tolist(), fates, strict=True)
        )
        if admitted_P is None:
            self._is_unchecked |= len(known_P) > 0
        elif self._is_unchecked and not self._has_warned:
            self._is_unchecked = False
            self._warn()

    def _split(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The success rates in the window, and which tickets were dropped and which trained on."""
        rates, dropped, trained = np.array(self._latest, np.float64).reshape(-1, 3).T
        return rates, dropped == 1, trained == 1

    def _warn(self) -> None:
        rates, is_dropped, _ = self._split()
        dropped, observed = rates[is_dropped], rates[~is_dropped]
        if min(len(dropped), len(observed)) < SURVIVAL_LEAST or 10 * len(dropped) < len(rates):
            return
        difference = observed.mean() - dropped.mean()
        error = np.sqrt(dropped.var() / len(dropped) + observed.var() / len(observed))
        if difference > max(0.1, 3 * error):
            self._has_warned = True
            warnings.warn(
                f"{len(dropped)} of the latest {len(rates)} groups were dropped; their prompts were harder "
                f"than the others: success rates of {dropped.mean():.2f} and {observed.mean():.2f}. Let the "
                "trainer wait longer for groups, or train on older ones, or it starves hard prompts",
                RuntimeWarning,
                stacklevel=4,
            )

    def metrics(self) -> dict[str, float]:
        """The mean success rate of prompts `drawn`, `dropped` and `trained` on, once some were dropped."""
        rates, is_dropped, is_trained = self._split()
        if not is_dropped.any():
            return {}
        return {
            "drawn/success_rate": float(rates.mean()),
            "dropped/success_rate": float(rates[is_dropped].mean()),
            "trained/success_rate": float(rates[is_trained].mean()) if is_trained.any() else np.nan,
        }


class RangeMeter:
    """Warns once of rewards outside of the reward range.

    Success rates are (r - low) / (high - low), and predictions, bands and pass rates follow from them: with
    rewards of -1 and +1 and a range of (0, 1), a band around 1/2 admits groups that succeed in three quarters
    of their rollouts. Rewards outside are allowed, because a shaped reward may have them on purpose.
    """

    def __init__(self, table: PromptTable) -> None:
        self.table = table
        self._lowest, self._highest = np.inf, -np.inf
        self._has_warned = False

    def observe(self, rewards_PG: np.ndarray, scored_PG: np.ndarray, parts: Sequence[str]) -> None:
        """Take in the rewards by which groups are judged."""
        if self._has_warned or not scored_PG.any():
            return
        rewards = rewards_PG[scored_PG]
        self._lowest = min(self._lowest, float(rewards.min()))
        self._highest = max(self._highest, float(rewards.max()))
        low, high = self.table.reward_range
        rounding = 1e-6 * (high - low)
        if low - rounding <= self._lowest and self._highest <= high + rounding:
            return
        self._has_warned = True
        ends = f"{min(low, self._lowest):g}", f"{max(high, self._highest):g}"
        name = f"values of the signal {' + '.join(parts)}" if parts else "rewards"
        warnings.warn(
            f"{name} from {self._lowest:g} to {self._highest:g} were seen, and the reward range is "
            f"{low:g} to {high:g}: success rates, bands and predictions misread what lies outside of it. Set "
            f"reward_range=({', '.join(ends)}), the rewards of complete failure and of complete success "
            f"(curro train: --reward-range={','.join(ends)}; verl and slime: curro.reward_range)",
            RuntimeWarning,
            stacklevel=5,
        )


class Meters:
    """All meters of a curriculum: what it measures of finished groups."""

    def __init__(self, table: PromptTable) -> None:
        self.table = table
        self.signal, self.uniform, self.sources = SignalMeter(table), UniformMeter(table), SourceMeter(table)
        self.shaping, self.range = ShapingMeter(table), RangeMeter(table)
        self.survival, self.standing = SurvivalMeter(table), StandingMeter(self.uniform)

    def check_range(self, groups: Groups) -> None:
        """Warn of rewards outside of the range; asked before the groups are settled."""
        self.range.observe(groups.rewards, groups.scored, self.table.signal_parts)

    def observe(self, tickets_P: np.ndarray, groups: Groups) -> None:
        """Take in finished groups, with the signal's rewards."""
        self.signal.observe(groups.variance)
        self.uniform.observe(tickets_P, groups.variance, self.table.success_rate(groups.mean))
        self.standing.observe(len(tickets_P))
        self.sources.observe(groups.prompts, groups.mean, groups.variance)

    def drop(self, tickets_P: np.ndarray, prompts_P: np.ndarray) -> None:
        """Take in tickets that were dropped, and their prompts."""
        self.uniform.drop(tickets_P)
        self.survival.settle(prompts_P, None)

    def admit(self, trained_P: np.ndarray, signal_P: np.ndarray) -> None:
        """Take in the variances of admitted groups, of the trained reward and of the signal."""
        if self.table.signal_parts:
            self.shaping.observe(trained_P, signal_P, self.table.signal_parts)

    def metrics(self) -> dict[str, float]:
        signal = self.signal.metrics()
        return {
            **signal,
            **self.uniform.metrics(signal["signal/mean_square_advantage"]),
            **self.sources.metrics(),
            **self.survival.metrics(),
        }

    def state_dict(self) -> dict[str, Any]:
        return {"signal": self.signal.state_dict(), "uniform": self.uniform.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.signal.load_state_dict(state["signal"])
        self.uniform.load_state_dict(state["uniform"])
