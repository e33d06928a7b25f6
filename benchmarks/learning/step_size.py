"""How many prompts a step suit a method, against the share of its groups with signal, in a simulation.

    OMP_NUM_THREADS=1 python -m benchmarks.learning.step_size [--seeds 3] [--rollouts 3200] [METHOD ...]

The rule to be tested (docs/choosing.md): of two methods with the shares of signal s and s', the second wants
P' = P s / s' prompts a step at the same learning rate. The policy is that of simulated_policy.py with 1,000
prompts, two skills that are never right and steps of Adam's size. Every method gets every P and four rates
with the same rollouts; a seed's score is the mean held-out level over the second half of the run.
"""

from __future__ import annotations

import argparse

import numpy as np
from benchmarks.learning.simulated_policy import GROUP, Settings, train

METHODS = ("uniform", "frontier", "oracle")
SIZES, RATES = (1, 2, 4, 8, 16), (0.03, 0.06, 0.12, 0.24)


def main() -> None:
    summary = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    summary.add_argument("methods", nargs="*", default=METHODS, metavar="METHOD")
    summary.add_argument("--seeds", type=int, default=3)
    summary.add_argument("--rollouts", type=int, default=3_200)
    args = summary.parse_args()
    print("| method | " + " | ".join(f"P = {size}" for size in SIZES) + " | best P, rate | signal s | P s |")
    print(f"|---|{'--:|' * (len(SIZES) + 3)}")
    for method in args.methods:
        scores, signals = np.empty((2, len(SIZES), len(RATES)))
        for i, size in enumerate(SIZES):
            for j, rate in enumerate(RATES):
                steps = args.rollouts // (size * GROUP)
                settings = Settings(1000, size, steps, 0, 0.0, 2, rate)
                runs = [train(method, seed, settings) for seed in range(args.seeds)]
                scores[i, j] = np.mean([run.levels[len(run.levels) // 2 :].mean() for run in runs])
                signals[i, j] = np.mean([run.signal for run in runs])
        i, j = np.unravel_index(scores.argmax(), scores.shape)
        cells = " | ".join(f"{row.max():.3f}" for row in scores)
        best = f"{SIZES[i]}, {RATES[j]:g} | {signals[i, j]:.2f} | {SIZES[i] * signals[i, j]:.1f}"
        print(f"| {method} | {cells} | {best} |", flush=True)


if __name__ == "__main__":
    main()
