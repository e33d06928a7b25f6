"""The rewards of several attempts at every prompt by a model in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curro.environments.environment import Environment
from curro.evaluation.sampling import attempts
from curro.reward.reward import Reward, Row
from curro.rollout.engines.sampling_settings import SamplingSettings


def sampled_rewards(
    model: Any,
    tokenizer: Any,
    rows: Sequence[Row],
    reward: Reward,
    *,
    samples: int,
    settings: SamplingSettings,
    environment: Environment | None = None,
) -> np.ndarray:
    """Sample with torch's own generator and score.

    Args:
        rows: of P prompts.
        samples: G, completions a prompt; episodes, where there is an `environment`.
        settings: of a completion; an episode's observations count towards its length.

    Returns:
        rewards_PG, float64; NaN where the reward did not score.
    """
    completions, repeated = attempts(
        model, tokenizer, rows, environment=environment, n=samples, settings=settings
    )
    scores = reward.score(completions, repeated)
    return np.array([np.nan if score is None else score for score in scores]).reshape(len(rows), samples)
