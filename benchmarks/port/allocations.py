"""How long the allocation of rollouts takes, for batches of 64 to 4,096 prompts.

    python -m benchmarks.port.allocations

Prints the processor time of a call, the median of 50, for success rates about which nothing, something and
much is known, and a budget of 8 rollouts a prompt. The time is the thread's own, whatever else runs.
"""

from __future__ import annotations

import time

import numpy as np

from curro.core import registry

RULES = ("knapsack", "knapsack:least=0")
SIZES = (64, 512, 4096)


def milliseconds(rule: str, size: int, weight: float, rng: np.random.Generator) -> float:
    """Milliseconds of a call, the median of 50."""
    allocation = registry.build("allocation", rule)
    rate_P = rng.beta(0.3, 1.0, size)
    belief = 0.1 + weight * rate_P, 0.3 + weight * (1 - rate_P)
    taken = []
    for _ in range(51):
        before = time.thread_time()
        rollouts_P = allocation.divide(*belief, 8 * size)
        taken.append(time.thread_time() - before)
        assert rollouts_P.sum() == 8 * size
    return 1e3 * float(np.median(taken[1:]))


def main() -> None:
    rng = np.random.default_rng(0)
    print(f"{'rule':20} {'rollouts known':>14}" + "".join(f"{size:>10} prompts" for size in SIZES))
    for rule in RULES:
        for weight in (0.0, 8.0, 1000.0):
            times = (milliseconds(rule, size, weight, rng) for size in SIZES)
            print(f"{rule:20} {weight:14g}" + "".join(f"{taken:15.2f} ms" for taken in times))


if __name__ == "__main__":
    main()
