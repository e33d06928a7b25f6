"""The ceiling and the floor of every choice of prompts: the policy's true pass rates, asked for no cost."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch

from curro.evaluation.sampling import attempts
from curro.prediction.base import Predictor
from curro.selection.predicted import Predicted


class Oracle(Predictor):
    """Tries every candidate out with rollouts that nobody counts, with the model that TRL trains.

    Args:
        samples: uncounted rollouts of each candidate, from 2.
        inverted: predict the negative of the variance, so that the prompts with least signal are chosen.
    """

    needs_policy = True

    def __init__(self, *, samples: int = 8, inverted: bool = False) -> None:
        self.samples, self.inverted = samples, inverted

    def informativeness(self, prompts: np.ndarray, step: int) -> np.ndarray:
        rewards_PG = self._try_out(prompts)
        low, high = self.table.reward_range
        variance_P = rewards_PG.var(axis=1) / (high - low) ** 2
        return -variance_P if self.inverted else variance_P

    def _try_out(self, prompts: np.ndarray) -> np.ndarray:
        """Rewards (P, samples) of the policy as it is; training's own random numbers are left alone."""
        trainer = cast(Any, self.policy).trainer
        model = trainer.accelerator.unwrap_model(trainer.model)
        rows = [trainer.train_dataset[prompt] for prompt in prompts.tolist()]
        training = model.training
        model.eval()
        devices = [model.device] if model.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(int(self.rng.integers(2**31)))
            texts, played = attempts(
                model,
                trainer.processing_class,
                rows,
                environment=trainer.environment,
                n=self.samples,
                max_new_tokens=trainer.max_completion_length,
                temperature=trainer.temperature,
            )
        model.train(training)
        (score,) = trainer.reward_funcs
        columns = {name: [row[name] for row in played] for name in played[0] if name != "prompt"}
        rewards = score(prompts=[row["prompt"] for row in played], completions=texts, **columns)
        return np.array([0.0 if reward is None else reward for reward in rewards]).reshape(len(rows), -1)


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
