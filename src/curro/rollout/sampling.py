"""Samples of a local transformers model for many prompts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from curro.core.groups import sum_of_parts
from curro.data.prompt_set import PromptSet
from curro.data.raw import Row
from curro.reward.completion import CUT, with_facts
from curro.reward.environments.environment import EPISODE_REWARD, Environment, ObservationTokens, episode_seed
from curro.reward.environments.play import Trajectory, play
from curro.reward.reward import Reward
from curro.rollout.engines.engine import SamplingSettings
from curro.rollout.engines.plain_generation import (
    end_ids,
    evaluating,
    generation_config,
    padded,
    prompt_ids,
    shared_prefixes,
    up_to_end,
)
from curro.rollout.evaluation_results import held_out_scores


@contextmanager
def beside_training(model: Any, seed: int) -> Iterator[None]:
    """Evaluation mode and separate random numbers: training goes on as if nothing had been sampled."""
    devices = [model.device] if model.device.type == "cuda" else []
    with evaluating(model), torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield


def attempts(
    model: Any,
    tokenizer: Any,
    rows: Sequence[Row],
    *,
    environment: Environment | None,
    n: int,
    settings: SamplingSettings,
    batch: int = 512,
) -> tuple[list[str], list[Row]]:
    """`n` completions of the prompt of every row, or episodes in `environment`, as a `Reward` scores them.

    The episodes of a prompt start alike, and unlike training's.

    Returns:
        B = rows x n texts, a prompt's one after another, and the row of each, with the completion's length
        and whether it was cut (the columns of `curro.reward.completion`); of an episode with its reward, and
        whether it reached `max_new_tokens`.
    """
    repeated = [row for row in rows for _ in range(n)]
    options: dict[str, Any] = {"settings": settings, "batch": batch}
    if environment is None:
        ids = sample(model, tokenizer, [row["prompt"] for row in rows], n=n, **options)
        ends = set(end_ids(model, tokenizer))
        completions = [completion_ids for group in ids for completion_ids in group]
        repeated = [
            with_facts(row, completion_ids, ends)
            for row, completion_ids in zip(repeated, completions, strict=True)
        ]
        return tokenizer.batch_decode(completions, skip_special_tokens=True), repeated
    played = episodes(model, tokenizer, repeated, environment, **options)
    texts = tokenizer.batch_decode([trajectory.ids for trajectory in played], skip_special_tokens=True)
    return texts, [
        {**row, EPISODE_REWARD: trajectory.reward, CUT: len(trajectory.ids) >= settings.max_new_tokens}
        for row, trajectory in zip(repeated, played, strict=True)
    ]


def episodes(
    model: Any,
    tokenizer: Any,
    rows: Sequence[Row],
    environment: Environment,
    *,
    settings: SamplingSettings,
    batch: int,
) -> list[Trajectory]:
    """An episode of each row, `batch` at a time, of `max_new_tokens` with its observations at most."""
    ends = set(end_ids(model, tokenizer))
    turn = replace(settings, max_new_tokens=min(environment.turn_tokens, settings.max_new_tokens))

    def generate(contexts: list[list[int]]) -> tuple[list[list[int]], None]:
        output = _generate(model, tokenizer, contexts, turn).tolist()
        return [up_to_end(ids, ends) for ids in output], None

    played: list[Trajectory] = []
    for start in range(0, len(rows), batch):
        part = rows[start : start + batch]
        played += play(
            environment,
            part,
            [prompt_ids(tokenizer, row["prompt"]) for row in part],
            [episode_seed(row, "held-out") for row in part],
            tokenizer=tokenizer,
            ends=ends,
            observations=ObservationTokens(tokenizer),
            generate=generate,
            max_tokens=settings.max_new_tokens,
        )
    return played


def sample(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Any],
    *,
    n: int,
    settings: SamplingSettings,
    batch: int = 512,
) -> list[list[list[int]]]:
    """The tokens of `n` completions of every prompt, in the prompts' order, from torch's own generator.

    Each goes up to the token that ends it. Prompts of like length go together, `batch` completions at a
    time, on the model's device.

    Args:
        prompts: texts, or lists of messages for the tokenizer's chat template.
    """
    ids, ends = [prompt_ids(tokenizer, prompt) for prompt in prompts], set(end_ids(model, tokenizer))
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    completions: list[list[list[int]]] = [[] for _ in ids]
    size = max(1, batch // n)
    for start in range(0, len(order), size):
        chunk = order[start : start + size]
        output = _generate(model, tokenizer, [ids[i] for i in chunk], settings, n).tolist()
        for j, i in enumerate(chunk):
            completions[i] = [
                up_to_end(completion_ids, ends) for completion_ids in output[j * n : (j + 1) * n]
            ]
    return completions


def _generate(
    model: Any, tokenizer: Any, contexts: list[list[int]], settings: SamplingSettings, n: int = 1
) -> torch.Tensor:
    """What the model writes, n times after each context: tokens (contexts x n, T), padded on the right."""
    options = {"do_sample": True, "temperature": settings.temperature, "top_p": settings.top_p}
    options |= {"top_k": 0, "min_p": 0.0, "num_return_sequences": n}  # None would become the model's own
    config = generation_config(
        model, tokenizer, settings.max_new_tokens, **{} if settings.is_greedy else options
    )
    inputs = padded(contexts, config.pad_token_id, model.device)
    with torch.inference_mode(), shared_prefixes(model, config):
        output = model.generate(**inputs, generation_config=config)[:, inputs["input_ids"].shape[1] :]
    return output.repeat_interleave(n, dim=0) if settings.is_greedy else output


def evaluate(
    model: Any,
    tokenizer: Any,
    prompts: PromptSet,
    reward: Reward,
    *,
    samples: int,
    settings: SamplingSettings,
    environment: Environment | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    signal: Sequence[str] = (),
    seed: int = 0,
) -> dict[str, float]:
    """Sample, score and count.

    Sampling has its own random numbers, so training goes on as if there had been no evaluation.

    Args:
        samples: completions a prompt; episodes, if there is an `environment`.
        settings: limits of a completion; an episode's observations count towards its length.
        reward_range: as `held_out_scores` takes it, which makes what is returned.
        signal: the parts of the reward whose sum says which samples are right; empty for the whole reward.
    """
    with beside_training(model, seed):
        completions, repeated = attempts(
            model, tokenizer, prompts, environment=environment, n=samples, settings=settings
        )
        scores = reward.named(completions, repeated)
    named = {
        name: np.array(values, np.float64).reshape(len(prompts), samples) for name, values in scores.items()
    }
    rewards_PG = sum(weight * named[name] for name, weight in reward.weights.items())
    signal_PG = sum_of_parts([named[name] for name in signal]) if signal else None
    return held_out_scores(np.asarray(rewards_PG), reward_range, signal_PG)
