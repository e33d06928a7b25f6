"""What a caller hears of every generation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from curro.runs.writer import Completion
from curro.verdicts import Draw, Verdict


@dataclass(frozen=True)
class GroupRecord:
    """The groups of one generation.

    Attributes:
        step: the training step before it.
        draw, verdict: what was drawn, and what the curriculum said of it.
        rewards: float64 (P, G), NaN where a rollout was not scored and beyond the end of smaller groups.
        completions: what was generated, of each group.
    """

    step: int
    draw: Draw
    rewards: np.ndarray
    verdict: Verdict
    completions: Sequence[Sequence[Completion]] = ()

    @property
    def sizes(self) -> np.ndarray:
        """int64 (P,), how many rollouts were generated of each; rewards of smaller groups end in NaN."""
        return self.draw.rollouts

    @property
    def rollouts(self) -> int:
        """How many rollouts these are."""
        return int(self.sizes.sum())
