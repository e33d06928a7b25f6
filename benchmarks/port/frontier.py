"""What a batch of frontier costs, at a million prompts and beside a port that chooses at random.

    OMP_NUM_THREADS=1 python -m benchmarks.port.frontier [--prompts 1000000] [--bytes 400] [--batch 64]

A batch selects its prompts and observes their groups of 8 rewards of 0 and 1. Milliseconds of one core,
medians of 60 batches after 20: all of it, and the same with uniform sampling, which is the port by itself.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from curro import Curriculum

DISTINCT = 4096


class Texts(Sequence[dict[str, Any]]):
    """Rows of words, of which so many are distinct."""

    def __init__(self, count: int, length: int) -> None:
        rng, self.count = np.random.default_rng(0), count
        words = ["".join(map(chr, rng.integers(97, 123, size))) for size in rng.integers(2, 9, 2000)]
        texts = [" ".join(rng.choice(words, length // 5))[:length] for _ in range(DISTINCT)]
        self.distinct = [{"prompt": text} for text in texts]

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: Any) -> Any:
        return self.distinct[index % DISTINCT]


def milliseconds(method: str, rows: Texts, batch: int) -> float:
    """Processor milliseconds of a batch, the median."""
    keys = [str(i) for i in range(len(rows))]
    prompts = SimpleNamespace(keys=keys, rows=rows, fingerprint="benchmark")
    curriculum, rng, spent = Curriculum(method, prompts, seed=0), np.random.default_rng(1), []
    for step in range(80):
        start = time.process_time()
        draw = curriculum.select(batch, step=step)
        middle = time.process_time()
        rewards = (rng.random((batch, 8)) < (draw.prompts % 7 / 7)[:, None]) + 0.0
        resumed = time.process_time()
        curriculum.observe(draw.tickets, rewards)
        spent.append(time.process_time() - resumed + middle - start)
    return 1e3 * float(np.median(spent[20:]))


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--prompts", type=int, default=1_000_000)
    asked.add_argument("--bytes", type=int, default=400)
    asked.add_argument("--batch", type=int, default=64)
    args = asked.parse_args()
    rows = Texts(args.prompts, args.bytes)
    for method in ("uniform", "frontier"):
        print(
            f"{method}: {milliseconds(method, rows, args.batch):.2f} ms a batch of {args.batch}", flush=True
        )


if __name__ == "__main__":
    main()
