"""The accuracy of a model on prompts it is not trained on."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from curro.data.prompt_set import PromptSet
from curro.environments.environment import Environment
from curro.evaluation.pass_at_k import pass_at_k
from curro.evaluation.sampling import attempts
from curro.reward import Reward


def evaluate(
    model: Any,
    tokenizer: Any,
    prompts: PromptSet,
    reward: Reward,
    *,
    samples: int,
    max_new_tokens: int,
    environment: Environment | None = None,
    temperature: float = 1.0,
    success: float = 1.0,
    seed: int = 0,
) -> dict[str, float]:
    """Sample, score and count.

    Sampling has its own random numbers, so training goes on as if there had been no evaluation.

    Args:
        samples: completions a prompt, at `temperature`; episodes, where there is an `environment`.
        max_new_tokens: of a completion; of an episode, with its observations.
        success: a completion is right from this reward on.

    Returns:
        `eval/pass@1`, `eval/pass@N` for N samples, and `eval/reward`, the mean reward.
    """
    was_training = model.training
    model.eval()
    devices = [model.device] if model.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        completions, rows = attempts(
            model,
            tokenizer,
            prompts,
            environment=environment,
            n=samples,
            max_new_tokens=max_new_tokens,
            temperature=temperature,
        )
    model.train(was_training)
    scores = reward.score(completions, rows)
    reward_PG = np.array([0.0 if score is None else score for score in scores]).reshape(-1, samples)
    correct_P = (reward_PG >= success).sum(axis=1)
    accuracy = {f"eval/pass@{k}": pass_at_k(correct_P, samples, k) for k in {1, samples}}
    return accuracy | {"eval/reward": float(reward_PG.mean())}
