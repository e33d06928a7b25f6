"""What the port gives out: prompts to roll out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Draw:
    """Prompts to roll out; arrays of shape (P,).

    Attributes:
        prompts: int64, the prompts' numbers in the data set, distinct.
        tickets: int64, to be settled by `observe` or `drop`.
        probabilities: float64, of drawing this prompt when it was drawn; NaN where nothing was random,
            or it is not known.
        weights: float64, importance weights, which `Curriculum.credit` relates to those of the batch.
        reasons: uint8, why each was chosen (`curro.Reason`).
        rollouts: int64, how many rollouts each prompt gets; 0 where the host decides.
        step: the training step that asked.
    """

    prompts: np.ndarray
    tickets: np.ndarray
    probabilities: np.ndarray
    weights: np.ndarray
    reasons: np.ndarray
    rollouts: np.ndarray
    step: int

    def __len__(self) -> int:
        return len(self.prompts)

    def take(self, rows: ArrayLike) -> Draw:
        """The prompts at `rows`."""
        arrays = {one.name: getattr(self, one.name)[rows] for one in fields(self) if one.name != "step"}
        return Draw(**arrays, step=self.step)


def joined(draws: Sequence[Draw]) -> Draw:
    """Draws of one step as one."""
    names = [one.name for one in fields(Draw) if one.name != "step"]
    columns = {name: np.concatenate([getattr(draw, name) for draw in draws]) for name in names}
    return Draw(**columns, step=draws[0].step)
