"""The accuracy of a model on prompts it is not trained on."""

from __future__ import annotations

from typing import Any

from curro.data.prompt_set import PromptSet
from curro.environments.environment import Environment
from curro.evaluation.pass_at_k import held_out_scores
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
    reward_range: tuple[float, float] = (0.0, 1.0),
    seed: int = 0,
) -> dict[str, float]:
    """Sample, score and count.

    Sampling has its own random numbers, so training goes on as if there had been no evaluation.

    Args:
        samples, settings, environment: as `sampled_rewards` takes them.
        reward_range: as `held_out_scores` takes it, which makes what is returned.
    """
    with beside_training(model, seed):
        rewards_PG = sampled_rewards(
            model, tokenizer, prompts, reward, environment=environment, samples=samples, settings=settings
        )
    return held_out_scores(rewards_PG, reward_range)
