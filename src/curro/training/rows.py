"""What TRL is told of a data set: no more than it needs, because it reads some columns in its own way."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from datasets import Dataset

from curro.data import PromptSet
from curro.environments.environment import EPISODE_REWARD
from curro.errors import ConfigError
from curro.reward import Reward, trl_reward
from curro.reward.reward import Score
from curro.reward.trl import completion_text, facts

TAKEN = (
    *("prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric"),
    *("environments", "image", "images", EPISODE_REWARD),
)
"""Columns that mean something else where an episode's row goes through TRL."""


def check_columns(prompts: PromptSet, *, environment: bool) -> None:
    """Raises ConfigError where an environment needs rows that TRL would misunderstand."""
    taken = sorted(set(prompts.columns).intersection(TAKEN)) if environment else []
    if taken:
        raise ConfigError(
            f"{prompts.source} has the columns {', '.join(taken)}, which mean something else in TRL: "
            "give them other names"
        )


def training_set(prompts: PromptSet, *, environment: bool) -> Dataset:
    """For TRL: the prompts and their numbers; for the episodes of an environment whole rows."""
    rows = prompts.to_hf()
    return rows if environment else rows.select_columns(["prompt", "prompt_id"])


def row_rewards(
    reward: Reward, prompts: PromptSet, ends: Collection[int], *, environment: bool
) -> list[Callable[..., Sequence[Score]]]:
    """A reward function for TRL for each of the reward's parts, named as the part.

    The functions take `training_set`'s columns and give the verifier the data set's own rows.

    Args:
        ends: the tokens that end a sequence.
    """
    if environment:
        return [trl_reward(reward)]
    named = _Latest(reward, prompts, ends)
    return [_part(named, name) for name in reward.weights]


class _Latest:
    """The scores of all parts for the latest batch: TRL asks for one part after the other."""

    def __init__(self, reward: Reward, prompts: PromptSet, ends: Collection[int]) -> None:
        self.reward, self.prompts, self.ends = reward, prompts, ends
        self.batch: Any = None
        self.scores: dict[str, list[Score]] = {}

    def __call__(self, completions: Sequence[Any], prompt_id: Sequence[int], ids: Any) -> dict[str, Any]:
        if self.batch is not completions:
            rows = facts([dict(self.prompts[i]) for i in prompt_id], ids, self.ends)
            self.scores = self.reward.named([completion_text(text) for text in completions], rows)
            self.batch = completions
        return self.scores


def _part(named: _Latest, name: str) -> Callable[..., Sequence[Score]]:
    def function(
        *, completions: Sequence[Any], prompt_id: Sequence[int], completion_ids: Any = None, **_: Any
    ) -> Sequence[Score]:
        return named(completions, prompt_id, completion_ids)[name]

    function.__name__ = name
    return function
