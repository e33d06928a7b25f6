"""Rolls out a slot of the batch: one prompt after another, until the gate admits a group."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tinker_cookbook.completers import TokenCompleter
from tinker_cookbook.rl.rollout_limits import TerminationRewardPolicy
from tinker_cookbook.rl.rollout_strategy import FailFast, RolloutResult, RolloutStrategy
from tinker_cookbook.rl.rollouts import do_group_rollout
from tinker_cookbook.rl.types import EnvGroupBuilder, Trajectory, TrajectoryGroup

from curro.contrib.tinker.dataset import AssignedPrompt, CreditedTrajectories, CurriculumGroup
from curro.core.verdicts import Verdict


@dataclass(frozen=True)
class FilledGroups(RolloutStrategy):
    """The rollout strategy of a curriculum's groups, for `train.Config(rollout_error_tolerance=...)`.

    Groups that no curriculum drew are left to `inner`.

    Attributes:
        inner: rolls out the environments of each prompt, and decides what happens to errors there.
        termination: the termination policy that belongs in `train.Config` otherwise. The curriculum has to
            see the rewards that are trained on, so `train.Config` gets a policy that changes nothing,
            `TerminationRewardPolicy(zero_reward_on_limit=False)`.
    """

    inner: RolloutStrategy = field(default_factory=FailFast)
    termination: TerminationRewardPolicy | None = None

    @property
    def catches_group_errors(self) -> bool:
        return self.inner.catches_group_errors

    async def execute(self, env_group_builder: EnvGroupBuilder, policy: TokenCompleter) -> RolloutResult:
        """The trajectories of the group that ends the slot.

        Raises:
            FillError: no group was admitted, and `when_short` is "error".
            RewardError: no group of the run has ever had a reward.
            Exception: what a rollout raised, unless `inner` catches it and another prompt can be had.
        """
        if not isinstance(env_group_builder, CurriculumGroup):
            return await self.inner.execute(env_group_builder, policy)
        slot = env_group_builder
        assigned = slot.begin()
        slots = slot.slots
        try:
            group, verdict = await self._until_admitted(slot, assigned, policy)
        finally:
            slot.assigned = None
            slots.end()
        slot.final_rewards = [
            (reward, metrics | slots.metrics)
            for reward, metrics in zip(group.final_rewards_G, group.metrics_G, strict=True)
        ]
        trajectories = CreditedTrajectories(
            group.trajectories_G, verdict, group.get_total_rewards(), slots.curriculum.credit
        )
        return RolloutResult(trajectories, [], group.rollout_errors)

    async def _until_admitted(
        self, slot: CurriculumGroup, assigned: AssignedPrompt | None, policy: TokenCompleter
    ) -> tuple[TrajectoryGroup, Verdict]:
        slots, best, failed = slot.slots, None, None
        while assigned is not None:
            try:
                group, verdict = await self._group(slot, assigned, policy)
            except Exception as error:
                if error in slots.data.errors or not self.catches_group_errors:
                    raise
                failed = error
            else:
                if verdict.admitted[0]:
                    return group, verdict
                if best is None or verdict.informativeness[0] > best[1].informativeness[0]:
                    best = group, verdict
            assigned = slots.replace(assigned)
        if best is None:
            assert failed is not None
            raise failed
        return best[0], slots.short(best[1])

    async def _group(
        self, slot: CurriculumGroup, assigned: AssignedPrompt, policy: TokenCompleter
    ) -> tuple[TrajectoryGroup, Verdict]:
        """The finished group of a prompt, observed; its ticket is settled however this ends."""
        slots = slot.slots
        try:
            group = await do_group_rollout(
                slot.builder(assigned), policy, strategy=self.inner, termination=self.termination
            )
            rewards_G, named = np.array(group.get_total_rewards()), _named(group)
            verdict = slots.observe(assigned, rewards_G, named)
        except Exception:
            slots.lose(assigned, "failed")
            raise
        except BaseException:
            slots.lose(assigned, "cancelled")
            raise
        return group, verdict


def _named(group: TrajectoryGroup) -> dict[str, np.ndarray]:
    """The numbers that the environments report of each trajectory, (G,) each, NaN where one has none."""
    numbers_G = [
        _numbers(trajectory) | metrics
        for trajectory, metrics in zip(group.trajectories_G, group.metrics_G, strict=True)
    ]
    names = {name: None for numbers in numbers_G for name in numbers}
    return {name: np.array([numbers.get(name, np.nan) for numbers in numbers_G], float) for name in names}


def _numbers(trajectory: Trajectory) -> dict[str, Any]:
    """The metrics of a trajectory's turns; of one that several turns have, the last."""
    return {name: number for turn in trajectory.transitions for name, number in turn.metrics.items()}
