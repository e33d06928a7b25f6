"""Bandits over sources: upper confidence bounds of the advantage, and learning progress.

Tested with the port alone: values by hand, resumed (tests/contrib). On the lab's hard pools `ucb` ends at
0.307 and `progress` at 0.320, uniform sampling at 0.316 (two seeds).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from curro.core.bases import Outcome
from curro.core.checkpoint import check_state
from curro.core.errors import require
from curro.core.prompts import PromptTable
from curro.methods.selection.sec import SelfEvolvingCurriculum


class UpperConfidence(SelfEvolvingCurriculum):
    """Draws sources by their mean absolute advantage and a bonus for seldom drawn ones.

    Source: DUMP (arXiv 2504.09710).

    A source is drawn from softmax of (mean |A| over its last `window` groups + sqrt(2 ln(n + 1) / (n_c + 1)))
    over the temperature, where n_c of n groups were its own; then a free prompt of it, uniformly.

    Args:
        column, categories: as of `sec`.
        window: groups that are remembered of a source.
        temperature: the softmax's.

    Raises:
        ConfigError: as of `sec`; a window out of 1 to 1,000,000 groups.
    """

    prefix = "ucb"
    remembered = (*SelfEvolvingCurriculum.remembered, "latest_CW", "count_C")

    def __init__(
        self,
        *,
        column: str | None = None,
        categories: int = 10,
        window: int = 300,
        temperature: float = 0.1,
    ) -> None:
        super().__init__(column=column, categories=categories, temperature=temperature)
        require(1 <= window <= 1_000_000, "window", "a number of groups from 1 to 1,000,000", window)
        self.window = window

    def bind(self, table: PromptTable, rng: np.random.Generator) -> None:
        super().bind(table, rng)
        self.latest_CW = np.zeros((len(self.names), self.window))
        self.count_C = np.zeros(len(self.names), np.int64)

    def _learn(self) -> None:
        _, category, size = self.unlearned.take()
        for c, size_of_group in zip(category.astype(np.int64), size, strict=True):
            self.latest_CW[c, self.count_C[c] % self.window] = size_of_group
            self.count_C[c] += 1
        mean_C = self.latest_CW.sum(axis=1) / np.clip(self.count_C, 1, self.window)
        self.value_C = mean_C + np.sqrt(2 * np.log(self.count_C.sum() + 1) / (self.count_C + 1))

    def load_state_dict(self, state: Any) -> None:
        super().load_state_dict(state)
        latest_CW, count_C = self.latest_CW, self.count_C
        is_finite = latest_CW.shape == (len(self.names), self.window) and np.isfinite(latest_CW).all()
        check_state(is_finite, "ucb/latest")
        check_state(count_C.shape == (len(self.names),) and (count_C >= 0).all(), "ucb/count")


class LearningProgress(SelfEvolvingCurriculum):
    """Draws sources whose success rate changes fastest, up or down, and any source now and then.

    Source: "Multi-task curriculum learning in a complex, visual, hard-exploration domain" (arXiv 2106.14876).

    Every source has a fast and a slow moving average of its success rate; after a step with outcomes
    fast moves towards their mean, and slow towards fast. Progress is |f(fast) - f(slow)| with
    f(p) = p (1 - focus) / (p + focus (1 - 2 p)), which stretches low rates. Sources with progress are drawn
    in proportion to the sigmoid of their standardized progress.

    Args:
        column, categories: as of `sec`.
        rate: weight of a new outcome in both moving averages.
        focus: on low success rates, in (0, 1).
        explore: the share of draws in which every source is equally likely.

    Raises:
        ConfigError: as of `sec`; focus outside (0, 1), or explore outside [0, 1].
    """

    prefix = "progress"
    remembered = (*SelfEvolvingCurriculum.remembered, "average_2C", "seen_C")

    def __init__(
        self,
        *,
        column: str | None = None,
        categories: int = 10,
        rate: float = 0.1,
        focus: float = 0.1,
        explore: float = 0.25,
    ) -> None:
        super().__init__(column=column, categories=categories, rate=rate)
        require(0 < focus < 1, "focus", "in (0, 1)", focus)
        require(0 <= explore <= 1, "explore", "in [0, 1]", explore)
        self.focus, self.explore = focus, explore

    def bind(self, table: PromptTable, rng: np.random.Generator) -> None:
        super().bind(table, rng)
        self.average_2C = np.zeros((2, len(self.names)))
        self.seen_C = np.zeros(len(self.names), np.bool_)

    def observe(self, outcome: Outcome) -> None:
        rate_P = self.table.success_rate(outcome.mean)
        self.unlearned.add(outcome.prompts, self.category_N[outcome.prompts], rate_P)

    def _learn(self) -> None:
        mean_C = self._means()
        now_C = ~np.isnan(mean_C)
        self.average_2C[:, now_C & ~self.seen_C] = mean_C[now_C & ~self.seen_C]
        fast_C, slow_C = self.average_2C
        fast_C[now_C] += self.rate * (mean_C - fast_C)[now_C]
        slow_C[now_C] += self.rate * (fast_C - slow_C)[now_C]
        self.seen_C |= now_C
        stretched_2C = self.average_2C * (1 - self.focus)
        stretched_2C /= self.average_2C + self.focus * (1 - 2 * self.average_2C)
        self.value_C = np.abs(stretched_2C[0] - stretched_2C[1])

    def _weights(self) -> np.ndarray:
        moving_C = self.value_C > 1e-12
        weight_C = np.zeros(len(self.value_C))
        if moving_C.any():
            scale = self.value_C.std() or 1.0
            weight_C = moving_C / (1 + np.exp(-(self.value_C - self.value_C.mean()) / scale))
            weight_C /= weight_C.sum()
        explore = self.explore if moving_C.any() else 1.0
        return np.maximum((1 - explore) * weight_C + explore / len(weight_C), 1e-300)

    def load_state_dict(self, state: Any) -> None:
        super().load_state_dict(state)
        is_finite = self.average_2C.shape == (2, len(self.names)) and np.isfinite(self.average_2C).all()
        check_state(is_finite and self.seen_C.shape == (len(self.names),), "progress")
