"""The best and the worst choice of prompts: by the policy's true pass rates, measured at no cost."""

from __future__ import annotations

import numpy as np

from curro.prediction.base import Predictor
from curro.selection.predicted import Predicted


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
        variance_P = rewards_PG.var(axis=1) / (high - low) ** 2
        self.tried_P, self.rate_P = prompts, self.table.success_rate(rewards_PG.mean(axis=1))
        return -variance_P if self.inverted else variance_P

    def belief(self, prompts: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
        """A beta distribution of each prompt's pass rate, from uncounted rollouts of the latest choice."""
        order = np.argsort(self.tried_P)
        rate_P = self.rate_P[order[np.searchsorted(self.tried_P, prompts, sorter=order)]]
        return self.samples * rate_P + 0.5, self.samples * (1 - rate_P) + 0.5


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
