"""How many groups with a signal the texts of prompts can find, for a policy that stands still.

    python -m benchmarks.learning.predictability [--task locks/hard] [--model RUN/model]

The pass rate of each prompt is measured with 16 rollouts, of the task's warm model or of a trained one. Nine
tenths of the prompts teach the regression of `frontier` all that their texts can tell, and the last tenth is
predicted. The share of groups of 8 rollouts with a signal is printed for random prompts, for the best of
eight by prediction, and for the best of eight by measured pass rate.
"""

from __future__ import annotations

import argparse
from math import comb

import numpy as np
from benchmarks.bench.tasks import TASKS, Task

from curro.data import PromptSet, load_prompts
from curro.methods.prediction.features import TEXT_WIDTH, text_features
from curro.methods.prediction.logistic_regression import LogisticRegression

SAMPLES, SIZE = 16, 8
CANDIDATES, CHOICES = 8, 4000
PARTS, FITS = 10, 60


def measured(task: Task, prompts: PromptSet, model: str | None) -> np.ndarray:
    """The mean of 16 rollouts of each prompt (N,)."""
    import torch
    from benchmarks.common import sampled_rewards

    from curro.rollout.engines.engine import SamplingSettings
    from curro.rollout.engines.models import load_model
    from curro.training.plan import plan

    torch.manual_seed(0)
    prepared = plan(task.settings())
    settings = SamplingSettings(prepared.settings.max_completion_length or 1, prepared.settings.temperature)
    rewards_NG = sampled_rewards(
        (load_model(model)[0] if model else prepared.model).eval(),
        prepared.tokenizer,
        [prompts[i] for i in range(len(prompts))],
        prepared.reward,
        environment=prepared.environment,
        samples=SAMPLES,
        settings=settings,
    )
    return np.nan_to_num(rewards_NG).mean(axis=1)


def predicted(texts: list[str], rate_N: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Each prompt's success rate (N,), from what the other parts teach."""
    features_ND, part_N = text_features(texts), rng.integers(PARTS, size=len(texts))
    found_N = np.empty(len(texts))
    for part in range(PARTS):
        others = part_N != part
        regression = LogisticRegression(np.zeros(TEXT_WIDTH))
        for _ in range(FITS):
            regression.fit(features_ND[others], rate_N[others], np.full(others.sum(), float(SAMPLES)))
        found_N[~others] = regression.predict(features_ND[~others])
    return found_N


def best_of_eight(score_N: np.ndarray, signal_N: np.ndarray, rng: np.random.Generator) -> float:
    """The mean signal of those with the highest score among random candidates; ties at random."""
    score_N = score_N + 1e-9 * rng.random(len(score_N))
    drawn = [rng.choice(len(score_N), CANDIDATES, replace=False) for _ in range(CHOICES)]
    return float(np.mean([signal_N[some[score_N[some].argmax()]] for some in drawn]))


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--task", default="locks/hard")
    asked.add_argument("--model", default=None)
    args = asked.parse_args()
    task = TASKS[args.task]
    prompts = load_prompts(task.data, limit=task.prompts)
    rate_N, rng = measured(task, prompts, args.model), np.random.default_rng(0)
    right_N = np.round(rate_N * SAMPLES).astype(int).tolist()
    # of 8 of the 16 rollouts, drawn without replacement
    signal_N = np.array(
        [1 - (comb(k, SIZE) + comb(SAMPLES - k, SIZE)) / comb(SAMPLES, SIZE) for k in right_N]
    )
    told_N = predicted([prompts[i]["prompt"] for i in range(len(prompts))], rate_N, rng)
    by_text = best_of_eight(told_N * (1 - told_N), signal_N, rng)
    by_rate = best_of_eight(rate_N * (1 - rate_N), signal_N, rng)
    alike = np.corrcoef(told_N, rate_N)[0, 1]
    print(f"{args.task}, {args.model or 'warm model'}: mean pass rate {rate_N.mean():.2f}")
    print(f"groups with a signal: random {signal_N.mean():.2f}, best of {CANDIDATES} by text {by_text:.2f},")
    print(f"by measured pass rate {by_rate:.2f}; correlation of predicted and measured rates {alike:.2f}")


if __name__ == "__main__":
    main()
