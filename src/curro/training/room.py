"""The room of a pool: what supervised training on some of its answers reaches on the others.

Reinforcement learning cannot be told from chance on a pool that this model does not learn even from the
answers themselves. The cost is stated and the same for every pool: so many answers, in batches of 16.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

from curro.core.errors import ConfigError
from curro.data.prompt_set import PromptSet
from curro.reward import Reward
from curro.rollout.engines.engine import SamplingSettings
from curro.rollout.engines.models import load_model
from curro.rollout.sampling import beside_training, sampled_rewards
from curro.training.sft import SFTSettings, train_in_memory

HELD_OUT, HELD_OUT_DIVISOR, SAMPLES = 100, 4, 4
"""Hold out at most 100 prompts and at most a quarter of the pool; sample each four times."""
LITTLE = 0.1
"""A room below this is hardly more than the noise of a comparison of some runs."""


@dataclass(frozen=True)
class Room:
    """What supervised training changed on held-out prompts.

    Attributes:
        before, after: float64 (P,), the share of each held-out prompt's samples that are right, in one order.
        prompts: how many were trained on.
        answers: how many answers were read, repeated ones counted.
        seconds: of a core that the training took.
    """

    before: np.ndarray
    after: np.ndarray
    prompts: int
    answers: int
    seconds: float

    @property
    def gain(self) -> float:
        """The room: how much higher the mean rate is after training."""
        return float(self.after.mean() - self.before.mean())

    def interval(self) -> tuple[float, float] | None:
        """Student's 95% interval of the room, over prompts like these: each is compared with itself.

        Where all gains are equal, up to 3 prompts in P may have another one that was not met (the rule of
        three). None with a single held-out prompt, of which nothing is known but its own gain.
        """
        gains_P = self.after - self.before
        prompts = len(gains_P)
        if prompts < 2:
            return None
        error = gains_P.std(ddof=1) / np.sqrt(prompts)
        half = student.ppf(0.975, prompts - 1) * error if error > 0 else min(3 / prompts, 1)
        return self.gain - half, self.gain + half

    def describe(self) -> list[str]:
        """Sentences for the terminal."""
        interval = self.interval()
        within = f"({interval[0]:+.3f} to {interval[1]:+.3f})" if interval else "(no interval: one prompt)"
        sentence = (
            f"room {self.gain:+.3f} {within}: pass@1 {self.before.mean():.3f} before and "
            f"{self.after.mean():.3f} after {self.answers:,} answers of {self.prompts} prompts, on "
            f"{len(self.after)} others with {SAMPLES} samples each; {self.seconds:.0f} s of a core"
        )
        if self.gain >= LITTLE:
            return [sentence]
        return [
            sentence,
            "This pool has little room for this model: methods that train on it can hardly be told apart.",
        ]

    def as_dict(self) -> dict[str, Any]:
        """Numbers for a file."""
        return {
            "before": float(self.before.mean()),
            "after": float(self.after.mean()),
            "interval": self.interval(),
            "held_out": len(self.after),
            "prompts": self.prompts,
            "answers": self.answers,
            "seconds": self.seconds,
        }


def check_answers(prompts: PromptSet) -> None:
    """Raises ConfigError where supervised training lacks answers or prompts."""
    if len(prompts) < HELD_OUT_DIVISOR:
        raise ConfigError(f"--room holds out a part of the prompts, and there are only {len(prompts)}")
    missing = next((i for i, row in enumerate(prompts) if not row["answer"]), None)
    if missing is not None:
        raise ConfigError(f"--room trains on the answers, and row {missing} has none: name --answer-column")


def split_evenly(rates_P: np.ndarray, number: int, seed: int) -> np.ndarray:
    """The prompts to hold out, bool (P,): as easy on average as those that are left.

    The prompts are ordered by rate, equal ones at random, and cut into `number` runs of nearly equal length;
    one of each run, at random, is held out. Rates of a pool are spread so widely that some tens of prompts
    drawn without regard to them may differ from the pool by half of its mean rate.

    Args:
        rates_P: a pass rate of each prompt; NaN, which counts as 0, where none is known.
        number: how many prompts to hold out, from 1 to P.
    """
    rng = np.random.default_rng(seed)
    order = np.lexsort([rng.random(len(rates_P)), np.nan_to_num(rates_P)])
    is_held_out = np.zeros(len(rates_P), np.bool_)
    is_held_out[[rng.choice(run) for run in np.array_split(order, number)]] = True
    return is_held_out


def measure_room(
    settings: SFTSettings,
    prompts: PromptSet,
    reward: Reward,
    sampling: SamplingSettings,
    *,
    rates_P: np.ndarray,
    answers: int,
    on_step: Callable[[int, int, float], None] = lambda step, steps, loss: None,
) -> Room:
    """Train the model on most of the prompts' answers, and measure it on the others before and after.

    Args:
        settings: of the training; its epochs follow from `answers`.
        prompts: with answers; which are held out follows from the rates and the seed.
        sampling: of the held-out samples.
        rates_P: the model's pass rate of each prompt, as far as it is known: see `split_evenly`. The rates
            before training are sampled anew.
        answers: how many are trained on; a small pool is read several times.
        on_step: hears the step, the number of steps and the loss.
    """
    check_answers(prompts)
    number = min(HELD_OUT, len(prompts) // HELD_OUT_DIVISOR)
    is_held_out = split_evenly(rates_P, number, settings.seed)
    held_out = prompts.subset(np.flatnonzero(is_held_out).tolist())
    training = prompts.subset(np.flatnonzero(~is_held_out).tolist())
    settings = replace(settings, epochs=answers / len(training))
    model, tokenizer = load_model(settings.model)

    def rates() -> np.ndarray:
        with beside_training(model, settings.seed):
            rewards_PG = sampled_rewards(
                model, tokenizer, list(held_out), reward, samples=SAMPLES, settings=sampling
            )
        return (np.nan_to_num(rewards_PG) >= 1 - 1e-6).mean(axis=1)

    before, begun = rates(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        train_in_memory(model, tokenizer, _after_a_space(training), settings, Path(folder), on_step=on_step)
    seconds = time.process_time() - begun
    return Room(before, rates(), len(training), answers, seconds)


def _after_a_space(prompts: PromptSet) -> PromptSet:
    """Answers as words of their own, where a text does not end in a space."""
    return prompts.with_column(
        "answer",
        [
            f" {row['answer']}"
            if isinstance(row["prompt"], str) and not row["prompt"][-1:].isspace()
            else row["answer"]
            for row in prompts
        ],
    )
