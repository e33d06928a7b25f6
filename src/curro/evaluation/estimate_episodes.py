"""Episodes of every prompt in an environment: `estimate` for tasks of several turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from curro.data.prompt_set import PromptSet
from curro.environments.environment import Environment
from curro.evaluation.estimate import moments
from curro.evaluation.sampling import episodes
from curro.rollout.engines.sampling_settings import SamplingSettings


def estimate_episodes(
    model: Any,
    tokenizer: Any,
    prompts: PromptSet,
    environment: Environment,
    settings: SamplingSettings,
    *,
    k: int,
    todo: Sequence[int],
    batch: int,
    seed: int,
    on_group: Callable[[dict[str, Any]], None],
) -> None:
    """Play k episodes of each prompt with a model in this process; the environment scores them.

    Args:
        settings: `max_new_tokens` are an episode's, with its observations.
        todo: the numbers of the prompts to do, in this order.
        batch: episodes that are played at once; those of a prompt are never parted.
        seed: of torch's generator, which is set anew for every batch from its first prompt.
        on_group: hears of every prompt as it is done, with the columns of
            `curro.evaluation.estimate_folder`. Episodes that reached `max_new_tokens` count as truncated.

    Raises:
        EnvironmentFailure: the environment failed.
    """
    size = max(1, batch // k)
    model.eval()
    for start in range(0, len(todo), size):
        chunk = todo[start : start + size]
        torch.manual_seed(seed + 1_000_003 * chunk[0])
        rows = [prompts[i] for i in chunk for _ in range(k)]
        played = episodes(model, tokenizer, rows, environment, settings=settings, batch=len(rows))
        for j, i in enumerate(chunk):
            group = played[j * k : (j + 1) * k]
            truncated = sum(len(one.ids) >= settings.max_new_tokens for one in group)
            found = moments([one.reward for one in group], truncated)
            on_group({"prompt": i, "key": prompts.keys[i]} | found)
