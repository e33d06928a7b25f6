"""The best and the worst choice of prompts: by the policy's true pass rates, measured at no cost."""

from __future__ import annotations

import numpy as np

from curro.core.groups import moments
from curro.core.prediction import Predictor
from curro.methods.selection.predicted import Predicted


class Oracle(Predictor):
    """Tries every candidate out with rollouts that are not counted (`Policy.uncounted_rewards`).

    Args:
        samples: uncounted rollouts of each candidate, from 2.
        inverted: predict the negative of the variance, so that the prompts with least signal are chosen.
    """

    needs_policy = True
    has_belief = True

    def __init__(self, *, samples: int = 8, inverted: bool = False) -> None:
        self.samples, self.inverted = samples, inverted

    def informativeness(self, prompts: np.ndarray, step: int) -> np.ndarray:
        seed = int(self.rng.integers(2**31))
        rewards_PG = self.policy.uncounted_rewards(prompts.tolist(), self.samples, seed)
        low, high = self.table.reward_range
        scored_PG = ~np.isnan(rewards_PG)
        mean_P, variance_P = moments(np.where(scored_PG, rewards_PG, 0.0), scored_PG)
        variance_P /= (high - low) ** 2
        self.tried_P, self.rate_P = prompts, self.table.success_rate(mean_P)
        self.count_P = scored_PG.sum(axis=1)
        return -variance_P if self.inverted else variance_P

    def belief(self, prompts: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
        """A beta distribution of each prompt's pass rate, from uncounted rollouts of the latest choice."""
        order = np.argsort(self.tried_P)
        rows = order[np.searchsorted(self.tried_P, prompts, sorter=order)]
        rate_P, count_P = self.rate_P[rows], self.count_P[rows]
        return count_P * rate_P + 0.5, count_P * (1 - rate_P) + 0.5


def oracle(candidates: int = 8, samples: int = 8) -> Predicted:
    """From `candidates` times as many candidates those with the highest true variance."""
    return Predicted(
        predictor={"name": "curro.bench.oracle:Oracle", "samples": samples}, candidates=candidates
    )


def inverted(candidates: int = 8, samples: int = 8) -> Predicted:
    """From `candidates` times as many candidates those with the lowest true variance."""
    return Predicted(
        predictor={"name": "curro.bench.oracle:Oracle", "samples": samples, "inverted": True},
        candidates=candidates,
    )
