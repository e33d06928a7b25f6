"""pass@k: the chance that one of k samples is right; and the scores of an evaluation made of it."""

from __future__ import annotations

import numpy as np

from curro.errors import ConfigError

ROUNDING = 1e-6
"""Of the reward range: so far below complete success an attempt still counts as right."""


def held_out_scores(rewards_PG: np.ndarray, reward_range: tuple[float, float]) -> dict[str, float]:
    """What run folders have of an evaluation.

    Args:
        rewards_PG: of G samples of each prompt; NaN, which is as wrong as 0, where there is none.
        reward_range: the rewards of complete failure and of complete success.

    Returns:
        `eval/pass@1`, `eval/pass@G`, and `eval/reward`, the mean reward.

    Raises:
        ConfigError: no prompts, or no samples.
    """
    low, high = reward_range
    rewards, samples = np.nan_to_num(rewards_PG), rewards_PG.shape[1]
    correct_P = (rewards >= high - ROUNDING * (high - low)).sum(axis=1)
    accuracy = {f"eval/pass@{k}": pass_at_k(correct_P, samples, k) for k in {1, samples}}
    return accuracy | {"eval/reward": float(rewards.mean())}


def pass_at_k_of_each(correct_P: np.ndarray, samples: int, k: int) -> np.ndarray:
    """The unbiased estimate 1 - C(n-c, k) / C(n, k) of each prompt, float64 (P,).

    Chen et al., "Evaluating Large Language Models Trained on Code" (2021), equation 1.

    Args:
        correct_P: how many of a prompt's samples are right, int (P,).
        samples: n, how many samples each prompt has.
        k: from 1 to n.

    Raises:
        ConfigError: k outside 1..n, or more right samples than samples.
    """
    if not 1 <= k <= samples:
        raise ConfigError(f"pass@{k} needs at least {k} samples a prompt and k >= 1; there are {samples}")
    correct = np.asarray(correct_P)
    if correct.size == 0 or correct.min() < 0 or correct.max() > samples:
        raise ConfigError(f"counts of right samples are between 0 and {samples}, for at least one prompt")
    wrong = samples - correct
    none_right = np.ones(len(correct))
    for i in range(k):
        none_right *= np.maximum(wrong - i, 0) / (samples - i)
    return 1 - none_right


def pass_at_k(correct_P: np.ndarray, samples: int, k: int) -> float:
    """The mean of `pass_at_k_of_each` over prompts; arguments and errors as there."""
    return float(pass_at_k_of_each(correct_P, samples, k).mean())
