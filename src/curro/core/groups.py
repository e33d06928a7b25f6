"""Finished groups of rollouts: their rewards, checked, and what follows from rewards alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from curro.core.checkpoint import Stateful, check_prompt_numbers, check_state
from curro.core.errors import RewardError
from curro.core.prompts import PromptTable
from curro.core.registry import OUTCOMES

_LARGEST = 1e15
"""Rewards up to here, in reward ranges, keep squares finite in float32 and steps of 1 in float64."""


def largest_reward(reward_range: tuple[float, float]) -> float:
    """The size from which on a reward, or a part of one, is refused."""
    low, high = reward_range
    return _LARGEST * min(1.0, high - low)


def number_of(value: Any) -> float | None:
    """What is a number, also of NumPy or PyTorch; None for anything else."""
    value = value.item() if getattr(value, "ndim", None) == 0 else value
    try:
        return float(value) if isinstance(value, int | float) else None
    except OverflowError:
        return math.inf


def outcome_parts(names: Iterable[str]) -> tuple[str, ...]:
    """The parts of a reward that verify the answer, where it has others too; else none."""
    parts = list(names)
    outcomes = verifying_parts(parts)
    return outcomes if len(outcomes) < len(parts) else ()


def verifying_parts(names: Iterable[str]) -> tuple[str, ...]:
    """The parts that verify the answer.

    A part is known by what stands before the first colon of its name, so that `code:timeout=5` is `code`.
    """
    return tuple(name for name in names if name.partition(":")[0] in OUTCOMES)


def sum_of_parts(parts_RPG: Sequence[np.ndarray]) -> np.ndarray:
    """The sum (P, G) of R parts of a reward, of which a rollout needs one; NaN if it has none."""
    parts = np.stack(parts_RPG)
    return np.where(np.isnan(parts).all(axis=0), np.nan, np.nansum(parts, axis=0))


@dataclass(frozen=True)
class Rows:
    """A record whose arrays have a row a prompt; what else it holds belongs to no single prompt."""

    def take(self, rows: Any) -> Self:
        """The prompts at `rows`, numbers or bools; a number alone is one row."""
        if not isinstance(rows, slice):
            rows = np.atleast_1d(rows) if np.size(rows) else np.empty(0, np.int64)

        def taken(value: Any) -> Any:
            if isinstance(value, Mapping):
                return {name: taken(part) for name, part in value.items()}
            return value[rows] if isinstance(value, np.ndarray) else value

        return type(self)(**{column.name: taken(getattr(self, column.name)) for column in fields(self)})

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """The rows of all parts, one part after the other; what is no array is the first part's."""
        columns = {column.name: [getattr(part, column.name) for part in parts] for column in fields(cls)}
        return cls(
            **{
                name: np.concatenate(values) if isinstance(values[0], np.ndarray) else values[0]
                for name, values in columns.items()
            }
        )


@dataclass(frozen=True)
class Groups(Rows):
    """P groups of G rollouts.

    Attributes:
        prompts: int64 (P,), distinct.
        steps: int64 (P,), the training step at which each was selected.
        rewards: float64 (P, G), what is trained on; 0 where a rollout was not scored.
        scored: bool (P, G), which rollouts have a reward.
        mean: float64 (P,), mean reward of the scored rollouts, the success rate of 0/1 rewards; 0
            if none was scored.
        variance: float64 (P,), mean((r - mean)^2) of them, p(1-p) of 0/1 rewards: the informativeness.
        named: the parts that the reward was made of, by name; float64 (P, G), NaN where a rollout has
            no such part.
    """

    prompts: np.ndarray
    steps: np.ndarray
    rewards: np.ndarray
    scored: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    named: Mapping[str, np.ndarray] = field(default_factory=dict)

    @cached_property
    def count(self) -> np.ndarray:
        """int64 (P,), how many rollouts of each group were scored."""
        size = self.scored.shape[1]
        return np.full(len(self.scored), size) if self.scored.all() else self.scored.sum(axis=1)

    def centred(self) -> np.ndarray:
        """float64 (P, G), rewards less the mean of their group; 0 where a rollout was not scored."""
        return np.where(self.scored, self.rewards - self.mean[:, None], 0.0)

    def realised(self, table: PromptTable, *, is_rate: bool) -> np.ndarray:
        """What predictions of these groups are compared with (P,): success rates, else informativeness."""
        return table.success_rate(self.mean) if is_rate else table.informativeness(self.variance)

    def part(self, name: str) -> np.ndarray:
        """The named reward of every rollout, float64 (P, G), NaN where a rollout has none.

        Raises:
            RewardError: the groups carry no reward of that name.
        """
        if name not in self.named:
            has = ", ".join(sorted(self.named)) or "none"
            raise RewardError(f"the groups carry no reward named {name!r}; they carry: {has}")
        return self.named[name]

    def by_parts(self, names: Sequence[str]) -> tuple[Groups, Groups]:
        """These groups as they are trained on, and with the signal, the sum of these parts, as reward.

        A rollout has the signal if it is scored and has one of the parts; else it is not scored in either.

        Raises:
            RewardError: the groups carry no part of a name.
        """
        signal_PG = sum_of_parts([self.part(name) for name in names])
        scored_PG = self.scored & ~np.isnan(signal_PG)
        trained, signal = (
            groups_of(self.prompts, self.steps, rewards_PG, scored_PG, self.named)
            for rewards_PG in (self.rewards, signal_PG)
        )
        return trained, signal


def groups_of(
    prompts: np.ndarray,
    steps: np.ndarray,
    rewards_PG: np.ndarray,
    scored_PG: np.ndarray,
    named: Mapping[str, np.ndarray],
) -> Groups:
    """The groups with these rewards, of which the scored ones count."""
    rewards_PG = np.where(scored_PG, rewards_PG, 0.0)
    return Groups(prompts, steps, rewards_PG, scored_PG, *moments(rewards_PG, scored_PG), named)


def moments(rewards_PG: np.ndarray, scored_PG: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and population variance (P,) of the scored rollouts of each group; 0 if there are none.

    Counted from the lowest reward, so that a group of equal rewards has a variance of exactly 0.
    """
    count_P = scored_PG.sum(axis=1)
    lowest_P = np.where(scored_PG, rewards_PG, np.inf).min(axis=1, initial=np.inf)
    lowest_P = np.where(count_P > 0, lowest_P, 0.0)
    above_PG = np.where(scored_PG, rewards_PG - lowest_P[:, None], 0.0)
    mean_P = lowest_P + _row_sums(above_PG) / np.maximum(count_P, 1)
    gap_PG = np.where(scored_PG, rewards_PG - mean_P[:, None], 0.0)
    return mean_P, _row_sums(gap_PG * gap_PG) / np.maximum(count_P, 1)


def by_rollouts(
    weight_P: np.ndarray, count_P: np.ndarray, before_P: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The weight of groups of n rollouts in a moving average, and the average size, float64 (P,) each.

    After groups of n' rollouts on the same average it is a n / (a n + (1 - a) n'), and a if sizes are equal,
    so that the average is as if from the rollouts put together.
    """
    size_P = weight_P * count_P + (1 - weight_P) * before_P
    is_same_P = count_P == before_P
    return np.where(is_same_P, weight_P, weight_P * count_P / size_P), np.where(is_same_P, count_P, size_P)


def _row_sums(values_PG: np.ndarray) -> np.ndarray:
    """Sums of the rows, added from left to right, so that zeros at their ends change no digit."""
    return values_PG.cumsum(axis=1)[:, -1:].sum(axis=1)


@dataclass(frozen=True)
class Feedback:
    """The rewards of P groups as a host reports them: the arguments of `Curriculum.observe`, as arrays."""

    tickets: np.ndarray
    rewards: np.ndarray
    named: Mapping[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def read(
        cls, tickets: ArrayLike, rewards: ArrayLike, named: Mapping[str, ArrayLike] | None = None
    ) -> Self:
        """Copies of what a host passes, because hosts reuse their arrays.

        Raises:
            RewardError: rewards that are not numbers, or groups of several lengths; a part of another shape.
        """
        rewards_PG, parts = _numbers(rewards, "rewards are"), {}
        if named is not None and not isinstance(named, Mapping):
            raise RewardError(f"`named` is the parts of the rewards by their names, not {named!r:.80}")
        for name, part in (named or {}).items():
            parts[name] = _numbers(part, f"the named reward {name!r} is not")
            if parts[name].shape != rewards_PG.shape:
                raise RewardError(
                    f"the named reward {name!r} has shape {parts[name].shape}, "
                    f"rewards have {rewards_PG.shape}"
                )
        return cls(np.array(tickets, ndmin=1), rewards_PG, parts)

    @classmethod
    def of_group(cls, ticket: int, rewards: np.ndarray, named: Mapping[str, np.ndarray]) -> Self:
        """The feedback on one group: its rewards (G,), and their parts, (G,) each."""
        return cls.of_groups([ticket], [rewards], [named])

    @classmethod
    def of_groups(
        cls, tickets: Sequence[int], rewards: Sequence[np.ndarray], named: Sequence[Mapping[str, np.ndarray]]
    ) -> Self:
        """The feedback on groups that may differ in size and in parts: NaN where a group has none."""
        size = max((len(rewards_G) for rewards_G in rewards), default=0)

        def padded(groups: Iterable[np.ndarray | None]) -> np.ndarray:
            values_PG = np.full((len(tickets), size), np.nan)
            for row, values_G in enumerate(groups):
                if values_G is not None:
                    values_PG[row, : len(values_G)] = values_G
            return values_PG

        names = dict.fromkeys(name for parts in named for name in parts)
        parts_PG = {name: padded(parts.get(name) for parts in named) for name in names}
        return cls.read(tickets, padded(rewards), parts_PG)

    @property
    def means(self) -> np.ndarray:
        """float64 (P,), the mean reward of each group's scored rollouts; NaN if none was scored."""
        scored_PG = ~np.isnan(self.rewards)
        count_P = scored_PG.sum(axis=1)
        means_P = np.full(len(count_P), np.nan)
        return np.divide(np.nansum(self.rewards, axis=1), count_P, out=means_P, where=count_P > 0)

    @property
    def variances(self) -> np.ndarray:
        """float64 (P,), the variance of each group's scored rollouts; 0 if none was scored."""
        scored_PG = ~np.isnan(self.rewards)
        return moments(np.where(scored_PG, self.rewards, 0.0), scored_PG)[1]

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of `Curriculum.observe`."""
        return {"tickets": self.tickets, "rewards": self.rewards, "named": dict(self.named)}


class MissingRewards:
    """Ends a run that never has a reward: counts the groups that are dropped before one is observed."""

    def __init__(self) -> None:
        self._groups, self._has_rewards = 0, False
        self._parts: dict[str, bool] = {}  # by name, whether a rollout had it

    def count(self, feedback: Feedback, batch: int) -> None:
        """Count P groups without the signal, of a run in which no group has had it.

        Raises:
            RewardError: as many as a `batch` has were counted; it is 0 before the first has begun.
        """
        self._groups += len(feedback.tickets)
        self._has_rewards |= not np.isnan(feedback.rewards).all()
        for name, part in feedback.named.items():
            self._parts[name] = self._parts.get(name, False) or not np.isnan(part).all()
        if not batch or self._groups < batch:
            return
        missing = "the part of the reward that is the signal" if self._has_rewards else "a reward"
        parts = ", ".join(name for name, is_there in self._parts.items() if not is_there)
        raise RewardError(
            f"none of the first {self._groups} groups has {missing}{f' ({parts})' if parts else ''}, so that "
            "nothing can be learned: check that the reward function returns numbers, and what it reads of "
            "the completions and the data's columns"
        )


def _numbers(rewards: ArrayLike, problem: str) -> np.ndarray:
    try:
        # NumPy reads no tensor on a GPU, in bfloat16 or with a gradient, nor a mask, and their `tolist` does
        if type(rewards) is not np.ndarray and hasattr(rewards, "tolist"):
            rewards = rewards.tolist()
        return np.array(rewards, np.float64, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise RewardError(f"{problem} a number a rollout, groups of one length: {error}") from error


def read_groups(table: PromptTable, prompts: np.ndarray, steps: np.ndarray, feedback: Feedback) -> Groups:
    """The groups of these prompts, drawn at these steps, with the rewards that a host reports of them."""
    shape = feedback.rewards.shape
    if len(shape) != 2 or shape[0] != len(prompts) or not shape[1]:
        raise RewardError(
            f"rewards have shape {shape}; {len(prompts)} tickets need ({len(prompts)}, G), "
            "a row a ticket and a column a rollout"
        )
    scored_PG = ~np.isnan(feedback.rewards)
    rewards_PG = np.where(scored_PG, feedback.rewards, 0.0)
    limit = largest_reward(table.reward_range)
    parts = {name: np.where(scored_PG, part_PG, np.nan) for name, part_PG in feedback.named.items()}
    for name, values_PG in {"reward": rewards_PG, **parts}.items():
        for row, rollout in np.argwhere(np.abs(values_PG) > limit)[:1].tolist():
            raise RewardError(
                f"rollout {rollout} of prompt {table.key(int(prompts[row]))!r} has the {name} "
                f"{values_PG[row, rollout]}: rewards are finite and at most {limit:g} in size; pass NaN for "
                "a rollout that could not be scored"
            )
    return groups_of(prompts, steps, rewards_PG, scored_PG, parts)


def one_reward(score: Any, subject: str) -> float | None:
    """What a scorer gave one rollout, None if it is not scored; `subject` begins the error's sentence."""
    if score is None:
        return None
    try:
        number = math.nan if isinstance(score, str | bytes) else float(score)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        several = ", of one rollout" if isinstance(score, list | tuple) else ""
        raise RewardError(
            f"{subject}: a reward is a finite number{several}, or None for a rollout that is not scored"
        )
    return number


class UnlearnedGroups(Stateful):
    """What is kept of K groups until it is learnt: R numbers of each, the first of which is the prompt.

    Groups come in any order, a few or many at a time, as their rollouts happen to end. What is learnt of
    several together, as an average or a fit, would depend on that order, and a repeated run would draw other
    prompts. So methods keep groups as they come in, and learn all of them before the next choice, in order.

    Attributes:
        groups: float64 (R, K), in the order in which they came in.

    Args:
        rows: R.
        prompts: the number of prompts N.
    """

    def __init__(self, rows: int, prompts: float) -> None:
        self.groups, self._prompts = np.empty((rows, 0)), prompts

    def __len__(self) -> int:
        return self.groups.shape[1]

    def add(self, *rows_P: np.ndarray) -> None:
        """Keep P groups: R arrays (P,)."""
        self.groups = np.concatenate([self.groups, np.array(rows_P, np.float64)], axis=1)

    def in_order(self) -> np.ndarray:
        """The groups, float64 (R, K), in ascending order of the first row, which is the prompt.

        Where a prompt stands more than once, the rows after it decide, in their order.
        """
        prompt_K = self.groups[0]
        order_K = prompt_K.argsort()
        # a sort by all rows takes several times as long, and it is rare that a batch has a prompt twice
        if (np.diff(prompt_K[order_K]) == 0).any():
            order_K = np.lexsort(self.groups[::-1])
        return self.groups.take(order_K, axis=1)

    def take(self) -> np.ndarray:
        """The groups `in_order`, to be learnt now; none are left."""
        groups_RK, self.groups = self.in_order(), self.groups[:, :0]
        return groups_RK

    def state_dict(self) -> np.ndarray:
        return self.groups.copy()

    def load_state_dict(self, state: np.ndarray) -> None:
        """Restore saved `groups`.

        Raises:
            CheckpointError: they have other rows, or a number that no group has.
        """
        are_groups = state.ndim == 2 and len(state) == len(self.groups) and np.isfinite(state).all()
        check_state(are_groups, "unlearned")
        check_prompt_numbers(state[0], self._prompts, "unlearned")
        self.groups = state.copy()
