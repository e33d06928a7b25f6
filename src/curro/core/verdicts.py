"""What the port says of finished groups, and the credit that their rollouts get in the loss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from curro.core.bases import Choice, Reason
from curro.core.groups import Rows
from curro.core.policy import AuxiliarySamples


@dataclass(frozen=True)
class Verdict(Rows):
    """What the update needs to know of finished groups.

    Attributes:
        admitted: bool (P,), whether the group is trained on.
        advantages: float64 (P, G); 0 for rollouts that were not scored.
        weights: float64 (P,), importance weights at draw time; `Curriculum.credit` takes them into account.
        informativeness: float64 (P,), the within-group variance mean((r - mean r)^2) of the signal, in
            squared units of the reward; p(1-p) for 0/1 rewards.
        mean: float64 (P,), the group's mean signal, the success rate of 0/1 rewards; NaN without any.
        credited: bool (P, G), whether the policy may be updated by the rollout. Where it is False, because
            the rollout lacks the signal or by `Selection.without_update`, the advantage is 0, and a host that
            computes its own has to set it to 0.
        auxiliary_samples: further sequences to train on, of methods that ask the policy something.
    """

    admitted: np.ndarray
    advantages: np.ndarray
    weights: np.ndarray
    informativeness: np.ndarray
    mean: np.ndarray
    credited: np.ndarray
    auxiliary_samples: AuxiliarySamples | None = None

    @property
    def dropped(self) -> np.ndarray:
        """bool (P,), which groups the curriculum dropped, because no rollout of theirs has the signal."""
        return np.isnan(self.mean)

    def take(self, rows: ArrayLike) -> Verdict:
        """The groups at `rows`, without the auxiliary samples: those belong to no single group."""
        return replace(super().take(rows), auxiliary_samples=None)


@dataclass(frozen=True)
class Credited:
    """What a host kept of verdicts: advantages, float64 (P, G), and importance weights, float64 (P,)."""

    advantages: np.ndarray
    weights: np.ndarray


def multiply_credit(
    verdicts: Verdict | Credited | Sequence[Verdict | Credited],
    batch_weights: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """The advantages of all groups of a batch times the weights that `batch_weights` makes of theirs."""
    parts = list(verdicts) if isinstance(verdicts, Iterable) else [verdicts]
    size = max((part.advantages.shape[1] for part in parts), default=0)
    padded = [np.pad(part.advantages, ((0, 0), (0, size - part.advantages.shape[1]))) for part in parts]
    advantages_PG = np.concatenate([np.empty((0, size)), *padded])
    weights_P = np.concatenate([np.empty(0), *(part.weights for part in parts)])
    return advantages_PG * batch_weights(weights_P)[:, None]


@dataclass(frozen=True, repr=False)
class Draw(Choice):
    """Prompts to roll out: a choice, whose weights `Curriculum.credit` relates to the batch's, with tickets.

    Attributes:
        tickets: int64 (P,), to be settled by `observe` or `drop`.
        rollouts: int64 (P,), how many rollouts each prompt gets; 0 where the host decides.
        step: how many training steps had finished.
    """

    tickets: np.ndarray
    rollouts: np.ndarray
    step: int

    def __len__(self) -> int:
        return len(self.prompts)

    def __repr__(self) -> str:
        counts = Counter(Reason(reason).name.lower() for reason in self.reasons.tolist())
        reasons = ", ".join(f"{count} {name}" for name, count in counts.most_common())
        return f"Draw({len(self)} prompts at step {self.step}{': ' if reasons else ''}{reasons})"
