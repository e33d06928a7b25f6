"""Rollouts of every prompt, scored: what `curro estimate` does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from curro.core.errors import EngineError, PromptError
from curro.data.prompt_set import PromptSet
from curro.reward import Reward
from curro.reward.adapters import rollout_row
from curro.reward.completion import CUT
from curro.reward.environments.environment import Environment
from curro.reward.reward import SUCCESS
from curro.rollout.engines.engine import Engine, Prompt, Rollout, SamplingSettings
from curro.rollout.engines.plain_generation import readable_ids
from curro.rollout.sampling import attempts, beside_training

PATIENCE = 20
"""After so many prompts in a row without any rollout the engine is given up."""


async def estimate(
    engine: Engine,
    prompts: PromptSet,
    reward: Reward,
    *,
    k: int,
    todo: Iterable[int],
    in_flight: int,
    on_group: Callable[[dict[str, Any]], None],
) -> list[str]:
    """Generate k rollouts of each prompt and score them.

    Args:
        todo: the numbers of the prompts to do, begun in this order.
        in_flight: how many prompts are under way at once.
        on_group: called with the row of every prompt as it is finished, in the columns of
            `curro.runs.estimate_folder`; prompts without any rollout are left out.

    Returns:
        for each prompt that was left out because all its rollouts failed, why the first one did.

    Raises:
        EngineError: the engine is dead, or failed for 20 prompts one after the other.
        RewardError: a score that is not a number.
    """
    remaining, scoring = iter(todo), asyncio.Lock()
    reasons: list[str] = []
    in_a_row = 0

    async def work() -> None:
        nonlocal in_a_row
        for i in remaining:  # which all workers share
            try:
                rollouts = await engine.generate(prompts[i]["prompt"], k)
            except PromptError as error:
                rollouts = [Rollout("", error=str(error))]
            completed = [rollout for rollout in rollouts if rollout.error is None]
            if not completed:
                in_a_row += 1
                reasons.append(str(rollouts[0].error))
                if in_a_row >= PATIENCE:
                    raise EngineError(
                        f"the last {in_a_row} prompts got no rollout at all; the last one for: "
                        f"{rollouts[0].error}"
                    )
                continue
            in_a_row = 0
            async with scoring:  # a function of the user's own need not be safe in two threads
                texts = [rollout.text for rollout in completed]
                rows = [rollout_row(prompts[i], rollout) for rollout in completed]
                scores = await asyncio.to_thread(reward.score, texts, rows)
            is_cut = [rollout.finish == "length" for rollout in completed]
            on_group({"prompt": i, "key": prompts.keys[i]} | moments(scores, sum(is_cut)))

    workers = [asyncio.ensure_future(work()) for _ in range(in_flight)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return reasons


def moments(scores: Sequence[float | None], truncated: int) -> dict[str, Any]:
    """The columns of an estimate that follow from the scores of a prompt's rollouts; None: not scored."""
    scored = np.array([score for score in scores if score is not None], np.float64)
    return {
        "rollouts": len(scores),
        "scored": len(scored),
        "correct": int((scored >= SUCCESS).sum()),
        "truncated": truncated,
        "mean": float(scored.mean()) if len(scored) else None,
        "variance": float(scored.var()) if len(scored) else None,
    }


def estimate_here(
    model: Any,
    tokenizer: Any,
    prompts: PromptSet,
    reward: Reward,
    *,
    environment: Environment | None,
    settings: SamplingSettings,
    k: int,
    todo: Sequence[int],
    batch: int,
    seed: int,
    on_group: Callable[[dict[str, Any]], None],
) -> list[str]:
    """Sample k completions or episodes of each prompt with a model in this process, and score them.

    Args:
        environment: plays the prompts; None: they are answered in one turn.
        settings: `max_new_tokens` are an episode's, with its observations.
        todo: the numbers of the prompts to do, in this order.
        batch: how many rollouts are generated at once; a prompt's are always generated together.
        seed: seeds the random numbers, which begin anew with every batch, from its first prompt's number.
        on_group: as of `estimate`.

    Returns:
        as of `estimate`: for each prompt that the model cannot read or has no room for, why.

    Raises:
        EngineError: the model failed.
        RewardError: a score that is not a number.
    """
    reasons = {i: _why_unanswerable(model, tokenizer, prompts[i]["prompt"], settings) for i in todo}
    possible = [i for i in todo if not reasons[i]]
    size = max(1, batch // k)
    for start in range(0, len(possible), size):
        chunk = possible[start : start + size]
        rows = [prompts[i] for i in chunk]
        options: dict[str, Any] = {"environment": environment, "n": k, "settings": settings}
        try:
            with beside_training(model, seed + 1_000_003 * chunk[0]):
                texts, played = attempts(model, tokenizer, rows, **options, batch=k * len(rows))
        except RuntimeError as error:
            raise EngineError(f"generating {k * len(rows)} rollouts at once failed: {error}") from error
        scores = reward.score(texts, played)
        for j, i in enumerate(chunk):
            group = slice(j * k, (j + 1) * k)
            cut = sum(row[CUT] for row in played[group])
            on_group({"prompt": i, "key": prompts.keys[i]} | moments(scores[group], cut))
    return [reason for reason in reasons.values() if reason]


def _why_unanswerable(model: Any, tokenizer: Any, prompt: Prompt, settings: SamplingSettings) -> str:
    """Why the model cannot answer a prompt; empty if it can."""
    try:
        length = len(readable_ids(model, tokenizer, prompt))
    except PromptError as error:
        return str(error)
    positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if positions and length + settings.max_new_tokens > positions:
        return (
            f"the prompt {prompt!r:.80} has {length} tokens, which with {settings.max_new_tokens} of a "
            f"completion are more than the model's {positions} positions: shorten one of the two"
        )
    return ""
