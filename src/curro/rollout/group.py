"""One prompt and its rollouts, the batch that they come into, and what a filler counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from curro.core.groups import Feedback
from curro.core.policy import AuxiliarySamples
from curro.core.verdicts import Verdict, multiply_credit
from curro.rollout.engines.engine import Rollout
from curro.rollout.fill import FillCounts


class GroupFailed(Exception):
    """Says why a group has no rewards: its engine or its scorer failed."""


class GroupUnscored(GroupFailed):
    """Says that no rollout of a group has a reward, or the part of the reward that is the signal."""


@dataclass(eq=False)
class Group:
    """One prompt and its G rollouts.

    Attributes:
        prompt, ticket, step: as `Curriculum.select` gave them.
        size: G of this group; it grows where the allocation gives the group further rollouts.
        is_probe: whether the allocation has yet to look at its first rewards.
        further: rollouts that the allocation gave it when it looked, and that were not asked for yet.
        requested: how many rollouts the engine was asked for, retries included.
        rollouts: the G rollouts once they are generated, failed ones included.
        rewards: float64 (G,), NaN for failed and unscored rollouts.
        named: the parts of the reward, float64 (G,) each, NaN where a rollout has no such part.
        error: what ended the group before it had rewards.
        verdict: the curriculum's on this group; None until it is observed.
    """

    prompt: int
    ticket: int
    step: int
    size: int
    is_probe: bool = False
    further: int = 0
    requested: int = 0
    rollouts: list[Rollout] = field(default_factory=list)
    rewards: np.ndarray = field(default_factory=lambda: np.empty(0))
    named: dict[str, np.ndarray] = field(default_factory=dict)
    error: Exception | None = None
    verdict: Verdict | None = None

    @property
    def admitted(self) -> bool:
        """Whether the curriculum has admitted it."""
        return self.verdict is not None and bool(self.verdict.admitted[0])

    def extend(
        self, rollouts: Sequence[Rollout], rewards: np.ndarray, named: Mapping[str, np.ndarray]
    ) -> None:
        """Add further rollouts with their rewards, (G,) each; a part that either side lacks is NaN there."""
        before, added = len(self.rollouts), len(rollouts)
        self.named = {
            name: np.concatenate(
                [self.named.get(name, np.full(before, np.nan)), named.get(name, np.full(added, np.nan))]
            )
            for name in {**self.named, **named}
        }
        self.rollouts = [*self.rollouts, *rollouts]
        self.rewards = np.concatenate([self.rewards, rewards])
        self.size = len(self.rollouts)


@dataclass
class Counts(FillCounts):
    """What a filler has done: the counts of every fill and of requests to the engine.

    Attributes:
        rollouts: rollouts that the engine was asked for.
        failed_rollouts: rollouts that came back without a completion, or not at all.
        wasted_rollouts: rollouts that were asked for and of which the curriculum learned nothing, because
            they failed or their group was dropped.
    """

    rollouts: int = 0
    failed_rollouts: int = 0
    wasted_rollouts: int = 0


def feedback_on(groups: Sequence[Group]) -> Feedback:
    """The rewards of groups as the port takes them."""
    return Feedback.of_groups(
        [group.ticket for group in groups],
        [group.rewards for group in groups],
        [group.named for group in groups],
    )


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
        counts: Counts,
        credit: Callable[[Sequence[Verdict]], np.ndarray],
    ) -> Batch:
        """The batch of these groups, in their order; `credit` is the curriculum's."""
        verdicts = [group.verdict for group in groups if group.verdict is not None]
        feedback = feedback_on(groups)
        return cls(
            np.array([group.prompt for group in groups], np.int64),
            np.array([group.ticket for group in groups], np.int64),
            np.array([group.step for group in groups], np.int64),
            tuple(tuple(group.rollouts) for group in groups),
            feedback.rewards,
            feedback.named,
            multiply_credit(verdicts, np.ones_like),
            credit(verdicts),
            np.array([verdict.informativeness[0] for verdict in verdicts], np.float64),
            np.array([group.admitted for group in groups], np.bool_),
            auxiliary_samples,
            counts,
        )
