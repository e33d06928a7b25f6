"""Samples of a local transformers model for many prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from curro.environments.environment import EPISODE_REWARD, Environment, episode_seed
from curro.environments.observation import ObservationTokens
from curro.environments.play import Trajectory, play
from curro.reward.reward import Row

UNTOUCHED: dict[str, Any] = {
    "num_beams": 1,
    "top_p": 1.0,
    "min_p": None,
    "typical_p": 1.0,
    "repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "min_new_tokens": 0,
}
"""For `generate`: the policy's own distribution, whatever the model's generation config says."""


def attempts(
    model: Any,
    tokenizer: Any,
    rows: Sequence[Row],
    *,
    environment: Environment | None,
    n: int,
    max_new_tokens: int,
    temperature: float = 1.0,
    batch: int = 512,
) -> tuple[list[str], list[Row]]:
    """`n` completions of the prompt of every row, or episodes in `environment`, as a `Reward` scores them.

    The episodes of a prompt start alike, and unlike those of training.

    Returns:
        B = rows x n texts, a prompt's one after another, and the row of each, with the episode's reward.
    """
    repeated = [row for row in rows for _ in range(n)]
    options: dict[str, Any] = {"max_new_tokens": max_new_tokens, "temperature": temperature, "batch": batch}
    if environment is None:
        texts = sample(model, tokenizer, [row["prompt"] for row in rows], n=n, **options)
        return [text for group in texts for text in group], repeated
    played = episodes(model, tokenizer, repeated, environment, **options)
    told = tokenizer.batch_decode([trajectory.ids for trajectory in played], skip_special_tokens=True)
    return told, [
        {**row, EPISODE_REWARD: trajectory.reward} for row, trajectory in zip(repeated, played, strict=True)
    ]


def episodes(
    model: Any,
    tokenizer: Any,
    rows: Sequence[Row],
    environment: Environment,
    *,
    max_new_tokens: int,
    temperature: float,
    batch: int,
) -> list[Trajectory]:
    """An episode of each row, `batch` at a time, of `max_new_tokens` with its observations at most."""
    ends = model.generation_config.eos_token_id
    ends = {ends} if isinstance(ends, int) else set(ends or [tokenizer.eos_token_id])

    def generate(contexts: list[list[int]]) -> tuple[list[list[int]], None]:
        output = _generate(
            model,
            tokenizer,
            contexts,
            temperature=temperature,
            max_new_tokens=min(environment.turn_tokens, max_new_tokens),
        ).tolist()
        return [_up_to_end(ids, ends) for ids in output], None

    played: list[Trajectory] = []
    for start in range(0, len(rows), batch):
        part = rows[start : start + batch]
        played += play(
            environment,
            part,
            [_tokens(tokenizer, row["prompt"]) for row in part],
            [episode_seed(row, "held-out") for row in part],
            tokenizer=tokenizer,
            ends=ends,
            observations=ObservationTokens(tokenizer),
            generate=generate,
            max_tokens=max_new_tokens,
        )
    return played


def sample(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Any],
    *,
    n: int,
    max_new_tokens: int,
    temperature: float = 1.0,
    batch: int = 512,
) -> list[list[str]]:
    """`n` completions of every prompt, in the prompts' order, from torch's own generator.

    Prompts of like length go together, `batch` completions at a time, on the model's device.

    Args:
        prompts: texts, or lists of messages for the tokenizer's chat template.
        temperature: of sampling, without top-k and top-p.
    """
    ids = [_tokens(tokenizer, prompt) for prompt in prompts]
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    completions: list[list[str]] = [[] for _ in ids]
    size = max(1, batch // n)
    for start in range(0, len(order), size):
        chunk = order[start : start + size]
        output = _generate(
            model,
            tokenizer,
            [ids[i] for i in chunk],
            num_return_sequences=n,
            temperature=temperature,
            max_new_tokens=max_new_tokens,
        )
        texts = tokenizer.batch_decode(output, skip_special_tokens=True)
        for j, i in enumerate(chunk):
            completions[i] = texts[j * n : (j + 1) * n]
    return completions


def _generate(model: Any, tokenizer: Any, contexts: list[list[int]], **options: Any) -> torch.Tensor:
    """What the model writes after each context, sampled from all of its distribution, padded on the right."""
    inputs = tokenizer.pad({"input_ids": contexts}, padding_side="left", return_tensors="pt").to(model.device)
    with torch.inference_mode():
        output = model.generate(**inputs, do_sample=True, top_k=0, **UNTOUCHED, **options)
    return output[:, inputs["input_ids"].shape[1] :]


def _up_to_end(ids: list[int], ends: set[int]) -> list[int]:
    return ids[: next((i + 1 for i, token in enumerate(ids) if token in ends), len(ids))]


def _tokens(tokenizer: Any, prompt: Any) -> list[int]:
    if isinstance(prompt, str):
        return tokenizer(prompt)["input_ids"]
    return tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=True, return_dict=True)[
        "input_ids"
    ]
