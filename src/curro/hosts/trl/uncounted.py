"""Rollouts that are scored and not trained on, by the model that TRL trains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curro.environments.environment import Environment
from curro.evaluation.sampling import attempts, beside_training
from curro.rollout.engines.sampling_settings import SamplingSettings


def uncounted_rewards(
    model: Any,
    tokenizer: Any,
    rows: Sequence[dict[str, Any]],
    score: Callable[..., Sequence[float | None]],
    *,
    environment: Environment | None,
    samples: int,
    max_new_tokens: int,
    temperature: float,
    seed: int,
) -> np.ndarray:
    """Rewards (P, samples) by a reward function of TRL's kind, as `Policy.uncounted_rewards`."""
    with beside_training(model, seed):
        texts, played = attempts(
            model,
            tokenizer,
            list(rows),
            environment=environment,
            n=samples,
            settings=SamplingSettings(max_new_tokens, temperature),
        )
    columns = {name: [row[name] for row in played] for name in played[0] if name != "prompt"}
    rewards = score(prompts=[row["prompt"] for row in played], completions=texts, **columns)
    return np.array([0.0 if reward is None else reward for reward in rewards]).reshape(len(rows), -1)
