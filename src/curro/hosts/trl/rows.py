"""What TRL is told of a data set: no more than it needs, because it reads some columns in its own way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from datasets import Dataset

from curro.data import PromptSet
from curro.environments.environment import EPISODE_REWARD
from curro.errors import ConfigError
from curro.reward import Reward, trl_reward
from curro.reward.reward import Score
from curro.reward.trl import completion_text

TAKEN = (
    *("prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric"),
    *("environments", "image", "images", EPISODE_REWARD),
)
"""Columns that mean something else where an episode's row goes through TRL."""


def check_columns(prompts: PromptSet, *, environment: bool) -> None:
    """Raises ConfigError where an environment needs rows that TRL would misunderstand."""
    taken = sorted({name for row in prompts for name in row}.intersection(TAKEN)) if environment else []
    if taken:
        raise ConfigError(
            f"{prompts.source} has the columns {', '.join(taken)}, which mean something else in TRL: "
            "give them other names"
        )


def training_set(prompts: PromptSet, *, environment: bool) -> Dataset:
    """For TRL: the prompts and their numbers; for the episodes of an environment whole rows."""
    rows = prompts.to_hf()
    return rows if environment else rows.select_columns(["prompt", "prompt_id"])


def row_reward(reward: Reward, prompts: PromptSet, *, environment: bool) -> Callable[..., Sequence[Score]]:
    """A reward function for TRL on `training_set`, named as the reward; it gets the data set's own rows."""
    if environment:
        return trl_reward(reward)

    def function(*, completions: Sequence[Any], prompt_id: Sequence[int], **_: Any) -> Sequence[Score]:
        rows = [dict(prompts[i]) for i in prompt_id]
        return reward.score([completion_text(text) for text in completions], rows)

    function.__name__ = reward.name
    return function
