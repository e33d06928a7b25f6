"""The accuracy of a model on prompts it is not trained on."""

from __future__ import annotations

from typing import Any

import numpy as np

from curro.data.prompt_set import PromptSet
from curro.environments.environment import Environment
from curro.evaluation.pass_at_k import pass_at_k
from curro.evaluation.pass_rates import sampled_rewards
from curro.evaluation.sampling import beside_training
from curro.reward import Reward
from curro.rollout.engines.sampling_settings import SamplingSettings


def evaluate(
    model: Any,
    tokenizer: Any,
    prompts: PromptSet,
    reward: Reward,
    *,
    samples: int,
    settings: SamplingSettings,
    environment: Environment | None = None,
    success: float = 1.0,
    seed: int = 0,
) -> dict[str, float]:
    """Sample, score and count.

    Sampling has its own random numbers, so training goes on as if there had been no evaluation.

    Args:
        samples, settings, environment: as `sampled_rewards` takes them.
        success: a completion is right from this reward on.

    Returns:
        `eval/pass@1`, `eval/pass@N` for N samples, and `eval/reward`, the mean reward.
    """
    with beside_training(model, seed):
        rewards_PG = sampled_rewards(
            model, tokenizer, prompts, reward, environment=environment, samples=samples, settings=settings
        )
    rewards_PG = np.nan_to_num(rewards_PG)
    correct_P = (rewards_PG >= success).sum(axis=1)
    accuracy = {f"eval/pass@{k}": pass_at_k(correct_P, samples, k) for k in {1, samples}}
    return accuracy | {"eval/reward": float(rewards_PG.mean())}
