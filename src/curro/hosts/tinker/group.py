"""A place in a batch, as Tinker's loop sees it: a builder of environments whose prompt curro chooses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tinker_cookbook.rl.types import Env, EnvGroupBuilder, Metrics, Trajectory

from curro.errors import ConfigError
from curro.hosts.tinker.places import Given, Places

Build = Callable[[int, int], EnvGroupBuilder]
"""The environments of a prompt, given its number and how many rollouts it gets."""


class CurriculumGroup(EnvGroupBuilder):
    """One place; `FilledGroups` rolls it out.

    Attributes:
        given: the prompt in flight; None once its group has ended.
        places: of the batch.
        final_rewards: what the group that ended the place had as rewards and metrics, one a trajectory.
    """

    def __init__(self, build: Build, given: Given, places: Places, again: Callable[[], Places]) -> None:
        self.build, self.places, self._again = build, places, again
        self.given: Given | None = given
        self.final_rewards: list[tuple[float, Metrics]] = []
        self._builder = build(given.prompt, given.rollouts)

    def begin(self) -> Given:
        """The prompt to roll out first: the one of the batch, or a new one where the place has ended before.

        Tinker's asynchronous loop puts a place back whose group has become too old.
        """
        if self.given is None:
            self.places = self._again()
            self.given = self.places.draw(1, self.places.group_size)[0]
        return self.given

    def builder(self, given: Given, rollouts: int | None = None) -> EnvGroupBuilder:
        """The builder of this prompt's environments."""
        self._builder = self.build(given.prompt, given.rollouts if rollouts is None else rollouts)
        return self._builder

    async def make_envs(self) -> Sequence[Env]:
        raise self.places.fatal(
            ConfigError(
                "the loop rolls the curriculum's groups out by itself: pass rollout_error_tolerance="
                "curro.hosts.tinker.FilledGroups() to tinker_cookbook.rl.train.Config"
            )
        )

    async def compute_group_rewards(
        self, trajectory_group: list[Trajectory], env_group: Sequence[Env]
    ) -> list[tuple[float, Metrics]]:
        return self.final_rewards

    def logging_tags(self) -> list[str]:
        return self._builder.logging_tags()

    def __reduce__(self) -> Any:
        raise ConfigError(
            "a curriculum's groups cannot be rolled out in other processes, because it learns in this one: "
            "leave rollout_executor out"
        )
