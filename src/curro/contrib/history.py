"""Advantages that count more on prompts that are hard for the policy as it has been lately.

Tested by hand and resumed (tests/contrib). Tuned on the lab's pools it ends within the noise of `group`
(benchmarks/results/tuned_credits.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from curro.core.bases import Advantage
from curro.core.checkpoint import check_state
from curro.core.errors import ConfigError
from curro.core.groups import Groups
from curro.core.prompts import PromptTable
from curro.methods.advantage.group import GroupRelative


class HistoryAware(Advantage):
    """Group-relative advantages, reweighted by how hard a prompt is beside the policy's recent success rate.

    Source: HA-DW, "Your Group-Relative Advantage Is Biased" (arXiv 2601.08521), equations 7 to 16 and 24.

    With p the success rate of the group, that of the signal if it is a part of the reward, and A_i its
    group-relative advantage,

        A_i <- A_i scale exp(-sgn(A_i) (p - C))                                              (13) to (16)

    so that on prompts harder than C successes count more and failures less, and on easier ones the other way
    round. C is the anchor before this batch. After batch t of success rate y_t,

        C <- (1 - e) C + e y_t,    e = rate sigma, at most 1                                 (8), (11), (12)

    sigma is the standard deviation of the anchor after each of the last `window` batches          (9), (10).

    The paper's reason: a group is trained on only where its rewards differ, and of those groups the mean is
    above p on hard prompts. It says nothing of four things, decided here. Its values of rate and window are
    not given; these are ours. The recursion needs a first anchor, and would never move from equal ones, so
    that until `window` batches have been seen C is the mean of their success rates (the paper's appendix F
    has that as a rule of its own). In the first batch p - C is 0. A batch is the groups that were drawn at
    one training step; a group that comes after a later one counts with that.

    Args:
        scale: lambda_scale; the paper's best of seven values.
        rate: eta.
        window: m, in batches.
        divide_by_std: as of `group`; the paper divides (24).

    Raises:
        ConfigError: a scale or a rate that is not above 0 and finite, or a window below 2.
    """

    def __init__(
        self, *, scale: float = 1.3, rate: float = 5.0, window: int = 10, divide_by_std: bool = True
    ) -> None:
        if not (0 < scale < np.inf and 0 < rate < np.inf) or window < 2:
            raise ConfigError(
                f"scale and rate are numbers above 0 and window is from 2, not {scale}, {rate} and {window}"
            )
        self.scale, self.rate, self.window, self.divide_by_std = scale, rate, window, divide_by_std
        self.relative = GroupRelative(divide_by_std=divide_by_std)
        self.anchors = np.empty(0)
        self.batches, self.step = 0, -1
        self.success, self.count = 0.0, 0

    def bind(self, table: PromptTable) -> None:
        super().bind(table)
        self.relative.bind(table)

    @property
    def anchor(self) -> float:
        """C; NaN before the end of the first batch."""
        return float(self.anchors[-1]) if len(self.anchors) else np.nan

    def __call__(self, groups: Groups) -> np.ndarray:
        advantages_PG = self.relative(groups)
        signal = self.signal(groups)
        rate_P = np.clip(self.table.success_rate(signal.mean), 0.0, 1.0)
        for step in np.unique(groups.steps).tolist():
            if step > self.step:
                self._end_batch()
                self.step = step
            rows = np.flatnonzero(groups.steps == step)
            # in one sum, so that the order of the groups makes no difference
            counts, rates = signal.count[rows], rate_P[rows]
            self.success += float(np.sort(counts * rates).sum())
            self.count += int(counts.sum())
            if self.batches:
                above_anchor_P1 = (rates - self.anchor)[:, None]
                advantages_PG[rows] *= np.exp(-np.sign(advantages_PG[rows]) * above_anchor_P1)
        return self.scale * advantages_PG

    def _end_batch(self) -> None:
        """Move the anchor by the batch that has ended."""
        if not self.count:
            return
        y = self.success / self.count
        self.batches += 1
        if self.batches <= self.window:
            anchor = y if self.batches == 1 else self.anchor + (y - self.anchor) / self.batches
        else:
            e = min(self.rate * float(self.anchors.std()), 1.0)
            anchor = (1 - e) * self.anchor + e * y
        self.anchors = np.append(self.anchors, anchor)[-self.window :]
        self.success, self.count = 0.0, 0

    def state_dict(self) -> dict[str, Any]:
        return {
            "anchors": self.anchors.copy(), "batches": self.batches, "step": self.step,
            "success": self.success, "count": self.count,
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        anchors, batches = state["anchors"], state["batches"]
        inside = ((anchors >= 0) & (anchors <= 1)).all() and len(anchors) == min(batches, self.window)
        check_state(inside, "advantage/anchors", "are not success rates of the batches")
        check_state(0 <= state["success"] <= state["count"], "advantage/success", "is not of a batch")
        self.anchors, self.batches, self.step = anchors.copy(), batches, state["step"]
        self.success, self.count = state["success"], state["count"]
