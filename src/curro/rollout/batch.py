"""A filled batch, as a training step is given it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from curro.core.policy import AuxiliarySamples
from curro.core.verdicts import Verdict
from curro.rollout.engines.engine import Rollout
from curro.rollout.group import Counts, Group


@dataclass(frozen=True)
class Batch:
    """P groups of up to G rollouts to train on. Their tickets are settled.

    Attributes:
        prompts: int64 (P,), distinct.
        tickets: int64 (P,).
        steps: int64 (P,), the training step that each group was selected for: step - steps is its age.
        rollouts: P tuples of rollouts, as many as each group has.
        rewards: float64 (P, G); NaN for failed rollouts, for unscored ones, and beyond the
            end of a group that is smaller than the largest.
        named: the parts of the reward, (P, G) each, NaN where a rollout has no such part.
        advantages: float64 (P, G); 0 where the reward is NaN.
        credit: float64 (P, G), what multiplies log-probabilities in the loss (`Curriculum.credit`).
        informativeness: float64 (P,), the within-group variance of the rewards.
        admitted: bool (P,); False for groups that the batch was topped up with.
        auxiliary_samples: on what the method trains the policy besides the rollouts, of all groups that were
            observed since the last batch, rejected ones too; J sequences each.
        counts: what the fill of this batch counted.
    """

    prompts: np.ndarray
    tickets: np.ndarray
    steps: np.ndarray
    rollouts: tuple[tuple[Rollout, ...], ...]
    rewards: np.ndarray
    named: Mapping[str, np.ndarray]
    advantages: np.ndarray
    credit: np.ndarray
    informativeness: np.ndarray
    admitted: np.ndarray
    auxiliary_samples: tuple[AuxiliarySamples, ...]
    counts: Counts

    def __len__(self) -> int:
        return len(self.prompts)

    @classmethod
    def of(
        cls,
        groups: Sequence[Group],
        auxiliary_samples: tuple[AuxiliarySamples, ...],
        rollouts_per_prompt: int,
        counts: Counts,
        credit: Callable[[Sequence[Verdict]], np.ndarray],
    ) -> Batch:
        """The batch of these groups, in their order; `credit` is the curriculum's."""
        verdicts = [group.verdict for group in groups if group.verdict is not None]
        size = max((group.size for group in groups), default=rollouts_per_prompt)
        names = {name: None for group in groups for name in group.named}
        return cls(
            np.array([group.prompt for group in groups], np.int64),
            np.array([group.ticket for group in groups], np.int64),
            np.array([group.step for group in groups], np.int64),
            tuple(tuple(group.rollouts) for group in groups),
            _padded([group.rewards for group in groups], size, np.nan),
            {name: _padded([group.named.get(name) for group in groups], size, np.nan) for name in names},
            _padded([verdict.advantages[0] for verdict in verdicts], size, 0.0),
            _padded(list(credit(verdicts)), size, 0.0),
            np.array([group.informativeness for group in groups], np.float64),
            np.array([group.admitted for group in groups], np.bool_),
            auxiliary_samples,
            counts,
        )


def _padded(rows: Sequence[np.ndarray | None], size: int, blank: float) -> np.ndarray:
    """The rows as one array, float64 (P, size), with `blank` where a row is missing or shorter."""
    padded_PG = np.full((len(rows), size), blank)
    for row, values in zip(padded_PG, rows, strict=True):
        if values is not None:
            row[: len(values)] = values[:size]
    return padded_PG
