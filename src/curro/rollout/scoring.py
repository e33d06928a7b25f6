"""Scores groups without holding up the event loop: in it, or in a thread."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from curro.core.errors import EngineError, RewardError
from curro.core.groups import one_reward
from curro.reward.workers.child import describe
from curro.rollout.engines.engine import Rollout
from curro.rollout.group import GroupFailed

Scores = Sequence[float | None] | Mapping[str, Sequence[float | None]]
ScoreFunction = Callable[[int, Sequence[Rollout]], Scores | Awaitable[Scores]]
"""Scores of a prompt's rollouts: a number each, None where a rollout cannot be scored; or several by name."""


class Scorer:
    """Calls a scorer if it holds nothing up.

    Args:
        score: called with a prompt's number and its completions. An `async` function runs in the event
            loop, any other in one thread, one call at a time.
    """

    def __init__(self, score: ScoreFunction) -> None:
        called = score if inspect.isroutine(score) else type(score).__call__
        self._is_async = inspect.iscoroutinefunction(score) or inspect.iscoroutinefunction(called)
        self._score, self._thread = score, ThreadPoolExecutor(1, "curro-scorer")

    async def __call__(self, prompt: int, rollouts: Sequence[Rollout]) -> Any:
        """What the scorer says of a prompt's completions.

        Raises:
            RewardError, EngineError: the scorer raised it.
            GroupFailed: the scorer raised something else.
        """
        try:
            scores: Any
            if self._is_async:
                scores = self._score(prompt, rollouts)
            else:
                loop = asyncio.get_running_loop()
                scores = await loop.run_in_executor(self._thread, _call, self._score, prompt, rollouts)
            return await scores if inspect.isawaitable(scores) else scores
        except (RewardError, EngineError, GroupFailed):
            raise
        except Exception as error:
            raise _raised(error) from error

    def close(self) -> None:
        """End the scorer's own thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _call(score: ScoreFunction, prompt: int, rollouts: Sequence[Rollout]) -> Any:
    """Call a scorer in a thread; what it raises ends no more than its group, be it KeyboardInterrupt."""
    try:
        return score(prompt, rollouts)
    except (RewardError, EngineError):
        raise
    except BaseException as error:
        raise _raised(error) from error


def _raised(error: BaseException) -> GroupFailed:
    return GroupFailed(f"the scorer raised {describe(error)}")


def read_scores(
    scores: Any, good_G: np.ndarray, weights: Mapping[str, float] | None, prompt: str
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """A group's rewards (G,), NaN where a rollout is not scored, and their parts, (G,) each, by name.

    Args:
        scores: what a scorer gave for the rollouts where `good_G` is True. With several named rewards
            the sum is the reward, and a rollout is scored where every part of the sum has a number.
        weights: weights of the named rewards in the sum, by default 1 each. What is not named stays outside.
        prompt: its key, for messages.
    """
    if not isinstance(scores, Mapping):
        if weights is not None:
            raise RewardError(
                f"the scorer gave prompt {prompt!r} rewards without names, and `weights` names "
                f"{', '.join(weights)}: give a dict of lists, or leave `weights` out"
            )
        return _read(scores, good_G, "", prompt), {}
    named = {str(name): _read(part, good_G, f" {name!r}", prompt) for name, part in scores.items()}
    summed = dict.fromkeys(named, 1.0) if weights is None else weights
    for name in summed:
        if name not in named:
            raise RewardError(
                f"the scorer gave prompt {prompt!r} no reward {name!r}, which `weights` names; "
                f"it gave: {', '.join(named) or 'none'}"
            )
    total_G = np.where(good_G, 0.0, np.nan) if summed else np.full(len(good_G), np.nan)
    for name, weight in summed.items():
        total_G = total_G + weight * named[name]
    return total_G, named


def _read(scores: Any, good_G: np.ndarray, name: str, prompt: str) -> np.ndarray:
    """Scores of the rollouts where `good_G` is True as (G,), NaN if there is none."""
    count = int(good_G.sum())
    try:
        received = f"{len(scores)} scores"
    except TypeError:
        received = f"{scores!r:.80}"
    if received != f"{count} scores" or isinstance(scores, str):
        raise RewardError(
            f"the scorer gave {received} as reward{name} of prompt {prompt!r}: "
            f"give a number or None for each of the {count} rollouts"
        )
    part_G = np.full(len(good_G), np.nan)
    for rollout, score in zip(np.flatnonzero(good_G), scores, strict=True):
        description = f"the scorer gave rollout {rollout} of prompt {prompt!r} the reward{name} {score!r:.80}"
        number = one_reward(score, description)
        if number is not None:
            part_G[rollout] = number
    return part_G
