"""Rollouts that a selection needs to bring a simulated policy where uniform sampling ends.

    OMP_NUM_THREADS=1 python -m benchmarks.learning.simulated_policy [--seeds 5] [--steps 800] [METHOD ...]
    OMP_NUM_THREADS=1 python -m benchmarks.learning.simulated_policy --hidden 40     # what texts do not show
    OMP_NUM_THREADS=1 python -m benchmarks.learning.simulated_policy --heart 10      # what is learnt by heart
    OMP_NUM_THREADS=1 python -m benchmarks.learning.simulated_policy --batch 4 --adam 0.1 --prompts 1000

The policy is a table of skills. A prompt is a chain of them, written as letters, and its rollout succeeds
when every skill in it does: its pass rate is a product. The skills follow the policy gradient of the groups'
advantages r - mean(r), and pull each other along a little. With --hidden every prompt also needs one skill of
so many that its text does not show; with --heart one of its own, learnt so many times as fast. With --blocked
so many skills are never right, and with --adam steps have Adam's size: so the policy moves as it does in the
lab's tasks. The level is the mean pass rate of prompts that are held out. Calibration: realised over
predicted variance in the lowest, a middle and the highest tenth of what was predicted of those chosen.

Gives up: texts say less of difficulty than here, and real policies do more than a sum of skills. It shows
what a method does with what it is told, and proves nothing about language models.

Rows have the columns known, the share of 8 rollouts solved before training, and shuffled, another row's.

METHOD: a selection as `Curriculum` takes it, or "oracle": of 8 candidates a place those of highest p(1-p).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from curro import Curriculum, Predictor
from curro.data import PromptSet
from curro.methods.selection.predicted import Predicted

METHODS = ("uniform", "prioritized-replay", "pspo", "sec", "adcl", "posterior", "frontier", "oracle")
HELD_OUT, LETTERS, LONGEST, GROUP = 1000, 16, 14, 8
RATE, PULL, EVERY = 0.25, 0.15, 20
BLOCKED = -7.0
"""The logit of a skill that is never right."""


@dataclass(frozen=True)
class Settings:
    """The command's options."""

    prompts: int
    batch: int
    steps: int
    hidden: int
    heart: float
    blocked: int
    adam: float


class World:
    """Skills, the prompts made of them, and the policy gradient.

    Attributes:
        counts_MK: how often each of M prompts needs each skill; the first N are trained on, others held out.
        logits_K: of the skills' success rates.
        own_M: of each prompt's own skill, which no other prompt teaches; infinite without one.
    """

    def __init__(self, seed: int, settings: Settings) -> None:
        rng = np.random.default_rng(seed)
        self.settings, hidden, heart = settings, settings.hidden, settings.heart
        count = settings.prompts + HELD_OUT
        chains = [rng.integers(LETTERS, size=rng.integers(1, LONGEST + 1)) for _ in range(count)]
        shown_MK = [np.bincount(chain, minlength=LETTERS) for chain in chains]
        hidden_MK = (
            np.eye(hidden)[rng.integers(hidden, size=len(chains))] if hidden else np.empty((len(chains), 0))
        )
        self.counts_MK = np.concatenate([shown_MK, hidden_MK], axis=1).astype(np.int64)
        skills = self.counts_MK.shape[1]
        self.logits_K = _logit(rng.uniform(0.2, 0.9, skills))
        self.logits_K[: settings.blocked] = BLOCKED
        self.moments_2K = np.zeros((2, skills))
        self.own_M = _logit(rng.uniform(0.3, 0.9, len(chains))) if heart else np.full(len(chains), np.inf)
        self.heart = heart
        pull_KD = np.eye(skills) + PULL * rng.normal(size=(skills, skills)) / np.sqrt(skills)
        self.kernel_KK = pull_KD @ pull_KD.T
        self.rng = rng
        texts = [
            f"{i % 10}{''.join(chr(97 + k) for k in chain)}="
            for i, chain in enumerate(chains[: settings.prompts])
        ]
        tell = np.random.default_rng([seed, 1])
        known_N = tell.binomial(GROUP, self.pass_rates()[: settings.prompts]) / GROUP
        shuffled_N = tell.permutation(known_N)
        self.prompts = PromptSet(
            [
                {"key": str(i), "prompt": text, "answer": None, "known": rate, "shuffled": other}
                for i, (text, rate, other) in enumerate(zip(texts, known_N, shuffled_N, strict=True))
            ]
        )

    def pass_rates(self) -> np.ndarray:
        """Success rates of all M prompts."""
        log_own_M = -np.log1p(np.exp(-self.own_M))
        return np.exp(log_own_M - self.counts_MK @ np.log1p(np.exp(-self.logits_K)))

    def level(self) -> float:
        """The mean pass rate of the prompts that are held out."""
        return float(self.pass_rates()[self.settings.prompts :].mean())

    def practise(
        self,
        prompts_B: np.ndarray,
        credit: Callable[[np.ndarray], np.ndarray] = lambda rewards_BG: (
            rewards_BG - rewards_BG.mean(axis=1, keepdims=True)
        ),
    ) -> np.ndarray:
        """Roll out, learn from it; returns the rewards (B, G).

        Args:
            credit: makes the advantages (B, G) of rewards (B, G).
        """
        rates_K, own_B1 = 1 / (1 + np.exp(-self.logits_K)), 1 / (1 + np.exp(-self.own_M[prompts_B, None]))
        counts_BGK = np.repeat(self.counts_MK[prompts_B][:, None], GROUP, axis=1)
        successes_BGK = self.rng.binomial(counts_BGK, rates_K)
        own_BG = self.rng.random((len(prompts_B), GROUP)) < own_B1
        rewards_BG = ((successes_BGK == counts_BGK).all(axis=2) & own_BG).astype(float)
        advantages_BG = credit(rewards_BG)
        gradient_K = np.einsum("bg,bgk->k", advantages_BG, successes_BGK - counts_BGK * rates_K)
        self.logits_K = self.logits_K + self._step(self.kernel_KK @ gradient_K / rewards_BG.size)
        self.logits_K[: self.settings.blocked] = BLOCKED
        self.own_M[prompts_B] += self.heart * (advantages_BG * (own_BG - own_B1)).mean(axis=1)
        return rewards_BG

    def _step(self, gradient_K: np.ndarray) -> np.ndarray:
        if not self.settings.adam:
            return RATE * gradient_K
        self.moments_2K[0] += 0.1 * (gradient_K - self.moments_2K[0])
        self.moments_2K[1] += 0.01 * (gradient_K**2 - self.moments_2K[1])
        return self.settings.adam * self.moments_2K[0] / (np.sqrt(self.moments_2K[1]) + 1e-4)


def _logit(rates: np.ndarray) -> np.ndarray:
    return np.log(rates / (1 - rates))


class Oracle(Predictor):
    """Knows the world's pass rates."""

    def __init__(self, world: World) -> None:
        self.world = world

    def informativeness(self, prompts: np.ndarray, step: int) -> np.ndarray:
        p = self.world.pass_rates()[prompts]
        return p * (1 - p)


@dataclass(frozen=True)
class Run:
    """Levels every EVERY steps, share of groups with signal, milliseconds a step, prompts, calibration."""

    levels: np.ndarray
    signal: float
    milliseconds: float
    seen: int
    calibration: np.ndarray


def train(method: str, seed: int, settings: Settings) -> Run:
    world = World(seed, settings)
    oracle = {"name": f"{__name__}:Oracle", "world": world}
    selection = Predicted(predictor=oracle, candidates=8) if method == "oracle" else method
    curriculum = Curriculum(selection, world.prompts, seed=seed)
    levels, signal, seconds, pairs = [world.level()], 0.0, 0.0, list[np.ndarray]()
    for step in range(settings.steps):
        start = time.process_time()
        draw = curriculum.select(settings.batch, step=step)
        seconds += time.process_time() - start
        rewards = world.practise(draw.prompts)
        if "predicted_variance" in curriculum.table.columns:
            unbiased = rewards.var(axis=1, ddof=1)
            pairs.append(np.stack([curriculum.table["predicted_variance"][draw.prompts], unbiased]))
        start = time.process_time()
        curriculum.observe(draw.tickets, rewards)
        seconds += time.process_time() - start
        signal += (np.ptp(rewards, axis=1) > 0).mean()
        if (step + 1) % EVERY == 0:
            levels.append(world.level())
    seen = int((curriculum.table["visits"] > 0).sum())
    return Run(
        np.array(levels), signal / settings.steps, 1e3 * seconds / settings.steps, seen, _ratios(pairs)
    )


def _ratios(pairs: list[np.ndarray]) -> np.ndarray:
    """Realised over predicted in each tenth of the predictions."""
    if not pairs:
        return np.full(10, np.nan)
    predicted, realised = np.concatenate(pairs, axis=1)
    tenths = np.array_split(np.argsort(predicted, kind="stable"), 10)
    return np.array([realised[i].sum() / max(predicted[i].sum(), 1e-9) for i in tenths])


def main() -> None:
    summary = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    summary.add_argument("methods", nargs="*", default=METHODS, metavar="METHOD")
    summary.add_argument("--seeds", type=int, default=5)
    summary.add_argument("--steps", type=int, default=800)
    summary.add_argument("--prompts", type=int, default=4000)
    summary.add_argument("--batch", type=int, default=32)
    summary.add_argument("--hidden", type=int, default=0)
    summary.add_argument("--heart", type=float, default=0.0)
    summary.add_argument("--blocked", type=int, default=0)
    summary.add_argument("--adam", type=float, default=0.0)
    args = vars(summary.parse_args())
    methods, seeds = args.pop("methods"), args.pop("seeds")
    settings = Settings(**args)
    goals = np.array([train("uniform", seed, settings).levels[-1] for seed in range(seeds)])
    steps = f"{settings.steps} steps of {settings.batch} x {GROUP}"
    print(f"{seeds} seeds, {steps}; uniform ends at {goals.mean():.3f}")
    print("| method | level at 1/4 | 1/2 | the end | rollouts to uniform's end, as a share | ", end="")
    print("groups with a signal | calibration | prompts seen | ms a step |")
    print(f"|---|{'--:|' * 8}")
    for method in methods:
        runs = [train(method, seed, settings) for seed in range(seeds)]
        levels = np.array([run.levels for run in runs])
        reached = _share(levels, goals, settings.steps)
        quarter = (levels.shape[1] - 1) // 4
        at = " | ".join(f"{levels[:, i].mean():.3f}" for i in (quarter, 2 * quarter, -1))
        signal, milliseconds, seen = (
            np.mean([getattr(run, name) for run in runs]) for name in ("signal", "milliseconds", "seen")
        )
        ratios = np.mean([run.calibration for run in runs], axis=0)
        means = " ".join(f"{ratios[i]:.2f}" for i in (0, 5, 9))
        print(
            f"| {method} | {at} | {reached} | {signal:.3f} | {means} | {seen:.0f} | {milliseconds:.2f} |",
            flush=True,
        )


def _share(levels_ST: np.ndarray, goals_S: np.ndarray, steps: int) -> str:
    """When each seed's goal is reached: mean and range, as shares of all steps; or how many do not."""
    reached_ST = levels_ST >= goals_S[:, None]
    missing = int((~reached_ST.any(axis=1)).sum())
    if missing:
        return f"{missing} of {len(goals_S)} do not reach it"
    share_S = reached_ST.argmax(axis=1) * EVERY / steps
    return f"{share_S.mean():.2f} ({share_S.min():.2f} to {share_S.max():.2f})"


if __name__ == "__main__":
    main()
