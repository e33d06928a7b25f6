"""Rollouts of every prompt of a data set, scored: what `curro estimate` and `curro evaluate` do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from curro.core.errors import ConfigError, EngineError, PromptError
from curro.data.prompt_set import PromptSet
from curro.reward import Reward
from curro.reward.adapters import rollout_row
from curro.reward.completion import CUT
from curro.reward.environments import Environment
from curro.reward.reward import SUCCESS
from curro.rollout.engines.engine import Engine, Prompt, Rollout, SamplingSettings
from curro.rollout.engines.models import local_model, server_engine
from curro.training.plan import check_text

PATIENCE = 20
"""After so many prompts in a row without any rollout the engine is given up."""

IN_FLIGHT = 256
"""How many prompts a server is asked at once."""

OnGroup = Callable[[dict[str, Any]], None]
"""Called with a finished prompt's row, in the columns of `curro.runs.estimate_folder`."""

Work = Callable[[Sequence[int], OnGroup], list[str]]
"""Samples and scores the prompts of these numbers, in their order.

Returns:
    for each prompt that got no rollout, and so has no row, the reason.

Raises:
    EngineError: the model failed, the server is dead, or 20 prompts in a row got no rollout.
    RewardError: a score that is not a number.
"""


@dataclass(frozen=True)
class SamplingJob:
    """Some rollouts of every prompt of a data set, by one model, scored.

    Attributes:
        environment: plays the prompts, for tasks of several turns; only with a model here.
        model: its name; with a server, its name there.
        k: rollouts of each prompt.
        batch: completions that go through a model here at once.
        seed: seeds a model here anew for every batch, from its first prompt's number.
    """

    prompts: PromptSet
    reward: Reward
    environment: Environment | None
    model: str
    server: str | None
    sampling: SamplingSettings
    k: int
    batch: int
    seed: int
    threads: int

    @property
    def settings(self) -> dict[str, Any]:
        """What an estimate's folder says of it, beside the names of the data, the model and the reward."""
        return {
            "prompts": len(self.prompts),
            "fingerprint": self.prompts.fingerprint,
            "k": self.k,
            "temperature": self.sampling.temperature,
            "top_p": self.sampling.top_p,
            "seed": None if self.server else self.seed,
        }

    def load(self) -> Work:
        """Load the model, or find its server's client.

        Raises:
            ConfigError: there is no such model, a server is asked for episodes, or prompts have images.
        """
        if self.server is None:
            check_text(self.prompts, "a model here reads text alone: ask a --server, or take text data")
            return partial(estimate_here, self, *local_model(self.model, threads=self.threads))
        check_text(
            self.prompts,
            "a server gets the messages alone: put images there, as parts with an image_url",
            are_messages_text=False,
        )
        if self.environment is not None:
            raise ConfigError(
                "a server answers in one turn, and these prompts have several: name a model here"
            )
        engine = server_engine(self.server, self.model, self.sampling)
        return lambda todo, on_group: asyncio.run(estimate_with(self, engine, todo, on_group))

    def row(self, number: int, scores: Sequence[float | None], truncated: int) -> dict[str, Any]:
        """A prompt's row, which follows from the scores of its rollouts; None: not scored."""
        scored = np.array([score for score in scores if score is not None], np.float64)
        return {
            "prompt": number,
            "key": self.prompts.keys[number],
            "rollouts": len(scores),
            "scored": len(scored),
            "correct": int((scored >= SUCCESS).sum()),
            "truncated": truncated,
            "mean": float(scored.mean()) if len(scored) else None,
            "variance": float(scored.var()) if len(scored) else None,
        }


async def estimate_with(
    job: SamplingJob, engine: Engine, todo: Sequence[int], on_group: OnGroup
) -> list[str]:
    """Do a job's `Work` with an engine, `IN_FLIGHT` prompts at once, and close the engine."""
    remaining, scoring = iter(todo), asyncio.Lock()
    reasons: list[str] = []
    in_a_row = 0

    async def work() -> None:
        nonlocal in_a_row
        for i in remaining:  # which all workers share
            try:
                rollouts = await engine.generate(job.prompts[i]["prompt"], job.k)
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
                rows = [rollout_row(job.prompts[i], rollout) for rollout in completed]
                scores = await asyncio.to_thread(job.reward.score, texts, rows)
            on_group(job.row(i, scores, sum(rollout.finish == "length" for rollout in completed)))

    workers = [asyncio.ensure_future(work()) for _ in range(IN_FLIGHT)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        await engine.close()
    return reasons


def estimate_here(
    job: SamplingJob, model: Any, tokenizer: Any, todo: Sequence[int], on_group: OnGroup
) -> list[str]:
    """Do a job's `Work` with a model in this process; a prompt's rollouts are generated together."""
    from curro.rollout.sampling import attempts, beside_training  # torch takes seconds to import

    reasons = {i: _why_unanswerable(model, tokenizer, job.prompts[i]["prompt"], job.sampling) for i in todo}
    possible = [i for i in todo if not reasons[i]]
    size = max(1, job.batch // job.k)
    for start in range(0, len(possible), size):
        chunk = possible[start : start + size]
        rows = [job.prompts[i] for i in chunk]
        options: dict[str, Any] = {"environment": job.environment, "n": job.k, "settings": job.sampling}
        try:
            with beside_training(model, job.seed + 1_000_003 * chunk[0]):
                texts, played = attempts(model, tokenizer, rows, **options, batch=job.k * len(rows))
        except RuntimeError as error:
            raise EngineError(f"generating {job.k * len(rows)} rollouts at once failed: {error}") from error
        scores = job.reward.score(texts, played)
        for j, i in enumerate(chunk):
            group = slice(j * job.k, (j + 1) * job.k)
            on_group(job.row(i, scores[group], sum(row[CUT] for row in played[group])))
    return [reason for reason in reasons.values() if reason]


def _why_unanswerable(model: Any, tokenizer: Any, prompt: Prompt, settings: SamplingSettings) -> str:
    """Why the model cannot answer a prompt; empty if it can."""
    from curro.rollout.engines.plain_generation import readable_ids

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
