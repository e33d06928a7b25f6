"""A batch, as it is being filled and as a training step is given it."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from curro.lessons import Lessons
from curro.rollout.engine import Rollout
from curro.rollout.group import Counts, Group


@dataclass(frozen=True)
class Batch:
    """P groups of G rollouts to train on, their tickets settled.

    Attributes:
        prompts: int64 (P,), distinct, unless the selection repeats prompts.
        tickets: int64 (P,).
        steps: int64 (P,), the training step that each group was selected for: step - steps is its age.
        rollouts: P tuples of G rollouts.
        rewards: float64 (P, G); 0 where not scored.
        scored: bool (P, G); False for failed rollouts, and those that the scorer gave None.
        named: the parts of the reward, (P, G) each, NaN where a rollout has no such part.
        advantages: float64 (P, G); 0 where not scored.
        weights: float64 (P,), importance weights as the loss of this batch takes them
            (`Curriculum.batch_weights`).
        informativeness: float64 (P,), the within-group variance of the rewards.
        admitted: bool (P,); False for groups that the batch was topped up with.
        lessons: what the method wants the policy trained on besides, of all groups observed since the last
            batch, rejected ones too; J sequences each.
        counts: of the fill that gave this batch.
    """

    prompts: np.ndarray
    tickets: np.ndarray
    steps: np.ndarray
    rollouts: tuple[tuple[Rollout, ...], ...]
    rewards: np.ndarray
    scored: np.ndarray
    named: Mapping[str, np.ndarray]
    advantages: np.ndarray
    weights: np.ndarray
    informativeness: np.ndarray
    admitted: np.ndarray
    lessons: tuple[Lessons, ...]
    counts: Counts

    def __len__(self) -> int:
        return len(self.prompts)

    @classmethod
    def of(
        cls,
        groups: Sequence[Group],
        lessons: tuple[Lessons, ...],
        rollouts_per_prompt: int,
        counts: Counts,
        batch_weights: Callable[[np.ndarray], np.ndarray],
    ) -> Batch:
        """The batch of these groups, in their order; `batch_weights` is the curriculum's."""
        shape = len(groups), rollouts_per_prompt
        unnamed_G = np.full(rollouts_per_prompt, np.nan)
        names = {name: None for group in groups for name in group.named}
        return cls(
            np.array([group.prompt for group in groups], np.int64),
            np.array([group.ticket for group in groups], np.int64),
            np.array([group.step for group in groups], np.int64),
            tuple(tuple(group.rollouts) for group in groups),
            np.array([group.rewards for group in groups], np.float64).reshape(shape),
            np.array([group.scored for group in groups], np.bool_).reshape(shape),
            {name: np.array([group.named.get(name, unnamed_G) for group in groups]) for name in names},
            np.array([group.advantages for group in groups], np.float64).reshape(shape),
            batch_weights(np.array([group.weight for group in groups], np.float64)),
            np.array([group.informativeness for group in groups], np.float64),
            np.array([group.admitted for group in groups], np.bool_),
            lessons,
            counts,
        )


@dataclass
class Filling:
    """A batch that is being filled.

    Attributes:
        n, step, until: its size, its training step, and the time of the event loop to stop.
        top_up: whether rejected groups may come into it.
        tried: the prompts that cannot come into it any more; repeats: tickets of such, drawn again.
        exhausted: the curriculum has no prompt any more.
        failures: groups that have failed in a row.
        rejected: a heap of the best rejected groups, the worst first: (informativeness, -ticket, group).
    """

    n: int
    step: int
    until: float
    top_up: bool
    tried: set[int] = field(default_factory=set)
    repeats: list[int] = field(default_factory=list)
    exhausted: bool = False
    failures: int = 0
    rejected: list[tuple[float, int, Group]] = field(default_factory=list)

    def remember(self, group: Group, at_most: int) -> None:
        """Keep `at_most` of the rejected groups, the most informative; of equal ones the first drawn."""
        heapq.heappush(self.rejected, (group.informativeness, -group.ticket, group))
        while len(self.rejected) > at_most:
            heapq.heappop(self.rejected)

    def best(self, count: int) -> list[Group]:
        """The most informative of the rejected groups, the best first."""
        return [group for *_, group in heapq.nlargest(count, self.rejected)]
