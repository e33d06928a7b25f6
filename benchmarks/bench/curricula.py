"""Curricula of the benchmark alone: the oracle, its inverse, and moving targets by the length of a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curro.contrib.target import Target
from curro.core.bases import Predictor
from curro.core.groups import moments
from curro.core.policy import PolicyUse
from curro.core.prompts import PromptTable
from curro.core.text import prompt_text
from curro.methods.selection.predicted import Predicted
from curro.rollout.engines.engine import SamplingSettings
from curro.rollout.sampling import attempts, beside_training


def uncounted_rewards(policy: Any, prompts: Sequence[int], samples: int, seed: int) -> np.ndarray:
    """Rewards (P, samples) of rollouts that are not trained on, NaN for one that was not scored.

    Args:
        policy: of a `CurriculumGRPOTrainer`, as it is now; training's own random numbers are left alone.
        prompts: numbers of rows.
        samples: rollouts of each prompt.
        seed: of the random numbers.
    """
    host = policy.host
    (score,) = host.reward_funcs
    rows = [dict(host.train_dataset[number]) for number in prompts]
    sampling = SamplingSettings(host.max_completion_length, policy.sampling["temperature"])
    with host.main_process.whole_model() as whole:
        model = host.accelerator.unwrap_model(whole)
        with beside_training(model, seed):
            texts, played = attempts(
                model, host._tokenizer, rows, environment=host.environment, n=samples, settings=sampling
            )
    columns = {name: [row[name] for row in played] for name in played[0] if name != "prompt"}
    rewards = score(prompts=[row["prompt"] for row in played], completions=texts, **columns)
    return np.array([np.nan if reward is None else reward for reward in rewards]).reshape(len(rows), -1)


class Oracle(Predictor):
    """Predicts the variance that uncounted rollouts of each candidate had (`uncounted_rewards`).

    Args:
        samples: uncounted rollouts of each candidate, from 2.
        inverted: predict the negative of the variance, so that the prompts with least signal are chosen.
    """

    policy_use = PolicyUse.ASKED

    def __init__(self, *, samples: int = 8, inverted: bool = False) -> None:
        self.samples, self.inverted, self.posterior = samples, inverted, self

    def learn(self) -> None:
        """Nothing: what is believed comes from the uncounted rollouts alone."""

    def informativeness(self, prompts: np.ndarray, step: int) -> np.ndarray:
        seed = int(self.rng.integers(2**31))
        rewards_PG = uncounted_rewards(self.policy, prompts.tolist(), self.samples, seed)
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
        predictor={"name": "benchmarks.bench.curricula:Oracle", "samples": samples}, candidates=candidates
    )


def inverted(candidates: int = 8, samples: int = 8) -> Predicted:
    """From `candidates` times as many candidates those with the lowest true variance."""
    return Predicted(
        predictor={"name": "benchmarks.bench.curricula:Oracle", "samples": samples, "inverted": True},
        candidates=candidates,
    )


class ByLength(Target):
    """`Target` with the length of the prompt's text in characters as its difficulty.

    The lab's families have no column of difficulties, and their longer problems are harder.

    Args:
        options: those of `Target` but the column.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__("prompt", **options)

    def difficulties(self, table: PromptTable) -> np.ndarray:
        return np.array([len(prompt_text(prompt)) for prompt in table.values("prompt")], np.float64)
