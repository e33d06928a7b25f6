"""A reward as a filler calls it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from curro.reward.completion import CUT, TOKENS
from curro.reward.reward import Reward, Row, Score


class Completion(Protocol):
    """What is read of a `curro.rollout.engines.Rollout`."""

    @property
    def text(self) -> str: ...
    @property
    def token_ids(self) -> tuple[int, ...] | None: ...
    @property
    def finish(self) -> str: ...


def group_scorer(
    reward: Reward, prompts: Sequence[Row]
) -> Callable[[int, Sequence[Any]], Awaitable[dict[str, list[Score]]]]:
    """The `score` of a `Filler`, whose event loop goes on while completions are scored.

    It gives the reward's parts by name: give the filler `weights=reward.weights` too.

    Args:
        prompts: the data set; a prompt is its number there.
    """

    async def score(prompt: int, rollouts: Sequence[Completion]) -> dict[str, list[Score]]:
        rows = [rollout_row(prompts[prompt], rollout) for rollout in rollouts]
        return await reward.named_async([rollout.text for rollout in rollouts], rows)

    return score


def rollout_row(row: Row, rollout: Completion) -> Row:
    """The row with what an engine tells of a completion besides its text."""
    facts = {} if rollout.token_ids is None else {TOKENS: len(rollout.token_ids)}
    return {**row, **facts, CUT: rollout.finish == "length"}
