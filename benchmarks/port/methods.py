"""What `curriculum.select` and `observe` cost at a million prompts, beside indexes and two peers' loops.

    python -m benchmarks.port.methods               # the table in results/port.md: half a minute
    python -m benchmarks.port.methods --quick       # fewer prompts, writes nothing

One process, one thread; the candidates take turns, medians. A batch selects C prompts and observes C groups
of 8 rewards; that of an index selects C ids and gives them C new priorities. PSPO draws distinct prompts and
weighs them, and its index does as much. Thompson sampling cannot do without its draws, which NumPy makes
here from the same posteriors: what one takes depends on the distribution. Frontier cannot do without looking
at eight prompts a place and finding the best. The peers' loops are written from their descriptions and draw
one prompt at a time: prime-rl weighs every task in Python for `random.choices`, Syllabus hands
`numpy.random.choice` a list of all tasks and their probabilities. A few of their draws are timed and counted
C times; their updates are not counted.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Annotated

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import typer
from benchmarks.common import write_page

from curro import Curriculum
from curro.methods.index import MaxPriority, Proportional

BATCHES = (64, 512, 4096)
Batch = Callable[[int], None]
Clock = Callable[[], float]
PAIRS = {
    "port: prioritized replay, published": "index: highest priority",
    "port: PSPO": "index: proportional, free ids and weights",
    "port: prioritized replay": "draws: proportional and Beta, four proposals a place",
    "port: posterior": "draws: Beta, eight candidates a place",
    "port: frontier": "the best of eight random prompts a place",
}
"""The port with a method, and what the method cannot do without."""
OTHERS = {"uniform": "uniform", "least visited": "least-visited", "SEC": "sec:categories=8", "ADCL": "adcl"}
"""Further methods, which have no index or predict first: by name, as a curriculum takes them."""


def port(spec: str, prompts: int, rng: np.random.Generator, clock: Clock, **options: str) -> Batch:
    """A curriculum that has seen every prompt once, of which four in five have no signal."""
    curriculum, steps = Curriculum(spec, prompts, **options), iter(range(10**9))
    easy = rng.integers(1, 8, prompts) / 8
    rate = np.where(rng.random(prompts) < 0.8, 0.0, easy)

    def roll_out(prompts: np.ndarray) -> np.ndarray:
        return (rng.random((len(prompts), 8)) < rate[prompts, None]).astype(np.float64)

    while (curriculum.table["visits"] == 0).any() and next(steps) < 60:
        draw = curriculum.select(prompts // 10, step=0)
        curriculum.observe(draw.tickets, roll_out(draw.prompts))
    spent = defaultdict(float)

    def batch(count: int) -> None:
        step = next(steps)
        began = clock()
        draw = curriculum.select(count, step=step)
        spent["seconds"] += clock() - began
        rewards = roll_out(draw.prompts)
        began = clock()
        curriculum.observe(draw.tickets, rewards)
        spent["seconds"] += clock() - began

    batch.spent, batch.curriculum = spent, curriculum  # type: ignore[attr-defined]
    return batch


def heap(prompts: int, rng: np.random.Generator) -> Batch:
    index = MaxPriority.from_array(rng.random(prompts), seed=0)

    def batch(count: int) -> None:
        index.push(index.pop(count), rng.random(count))

    return batch


def tree(proposals: int, prompts: int, rng: np.random.Generator) -> Batch:
    index = Proportional(rng.random(prompts))

    def batch(count: int) -> None:
        ids, _ = index.sample(rng.random(proposals * count))
        index.update(ids[:count], rng.random(count))

    return batch


def beta(
    candidates: int, ported: Batch, prompts: int, rng: np.random.Generator, index: Batch | None = None
) -> Batch:
    """A draw from the port's posterior of each candidate, for Thompson sampling, after the index's batch."""
    everything = np.arange(prompts)
    successes, failures = ported.curriculum.selection.posterior.belief(everything, step=10)  # type: ignore[attr-defined]

    def batch(count: int) -> None:
        if index is not None:
            index(count)
        ids = rng.integers(prompts, size=candidates * count)
        rng.beta(successes[ids], failures[ids])

    return batch


def best(candidates: int, prompts: int, rng: np.random.Generator) -> Batch:
    """Looks up what is known of each candidate, four numbers side by side, and sorts out the highest."""
    known = rng.random((prompts, 4), np.float32)

    def batch(count: int) -> None:
        value = known[rng.integers(prompts, size=candidates * count)].sum(axis=1)
        np.sort(np.partition(value, value.size - count)[value.size - count :])

    return batch


def free(prompts: int, rng: np.random.Generator) -> Batch:
    """Without replacement within the batch, with importance weights: probabilities^-0.4 over the largest."""
    index, taken = Proportional(rng.random(prompts)), np.zeros(prompts, np.bool_)

    def batch(count: int) -> None:
        ids, probabilities = index.sample_free(*rng.random((2, count)), taken, np.empty(0, np.int64))
        weights = probabilities**-0.4
        weights /= weights.max()
        index.update(ids, rng.random(count))

    return batch


def prime_rl(prompts: int, rng: np.random.Generator) -> Batch:
    """Weights by pool: .2 for hard and easy, 1 for normal and unseen, of every task at every draw."""
    tasks, weight = list(range(prompts)), {"hard": 0.2, "normal": 1.0, "easy": 0.2}
    pool = dict(zip(tasks, rng.choice(list(weight), prompts).tolist(), strict=True))

    def batch(count: int) -> None:
        random.choices(tasks, weights=[weight[pool[task]] for task in tasks])

    return batch


def syllabus(prompts: int, rng: np.random.Generator) -> Batch:
    probabilities = rng.dirichlet(np.ones(prompts))

    def batch(count: int) -> None:
        rng.choice(list(range(prompts)), p=probabilities)

    return batch


def measure(prompts: int, turns: int, clock: Clock) -> dict[str, dict[int, float]]:
    """Microseconds by candidate and batch."""
    rng = np.random.default_rng(0)
    replay, posterior = (port(spec, prompts, rng, clock) for spec in ("prioritized-replay", "posterior"))
    candidates: dict[str, Batch] = {
        "index: highest priority": heap(prompts, rng),
        "port: prioritized replay, published": port(
            "prioritized-replay:variant=published,retest_every=0,exploration=0", prompts, rng, clock
        ),
        "index: proportional": tree(1, prompts, rng),
        "index: proportional, free ids and weights": free(prompts, rng),
        "port: PSPO": port("pspo", prompts, rng, clock),
        "port: PSPO, smoothed advantages": port("pspo", prompts, rng, clock, advantage="smoothed"),
        "draws: proportional and Beta, four proposals a place": beta(
            4, replay, prompts, rng, tree(2, prompts, rng)
        ),
        "port: prioritized replay": replay,
        "draws: Beta, eight candidates a place": beta(8, posterior, prompts, rng),
        "port: posterior": posterior,
        "the best of eight random prompts a place": best(8, prompts, rng),
        "port: frontier": port("frontier", prompts, rng, clock),
        **{f"port: {name}": port(spec, prompts, rng, clock) for name, spec in OTHERS.items()},
        "prime-rl's loop": prime_rl(prompts, rng),
        "Syllabus' loop": syllabus(prompts, rng),
    }
    costs_of: dict[str, dict[int, float]] = {name: {} for name in candidates}
    for count in BATCHES:
        taken: dict[str, list[float]] = defaultdict(list)
        for _ in range(turns):
            for name, batch in candidates.items():
                single = name.endswith("loop")
                for _ in range(1 if single else 5):
                    spent = getattr(batch, "spent", None)
                    before = spent["seconds"] if spent else 0.0
                    began = clock()
                    batch(count)
                    seconds = spent["seconds"] - before if spent else clock() - began
                    taken[name].append(seconds * 1e6 * (count if single else 1))
        for name in candidates:
            costs_of[name][count] = statistics.median(taken[name])
    return costs_of


def report(costs_of: dict[str, dict[int, float]], prompts: int) -> str:
    lines = [
        f"| microseconds, {prompts:,} prompts | " + " | ".join(f"C = {count}" for count in BATCHES) + " |",
        "|---|" + "--:|" * len(BATCHES),
    ]
    for name, costs in costs_of.items():
        lines.append(f"| {name} | " + " | ".join(f"{costs[count]:,.0f}" for count in BATCHES) + " |")
    for name, index in PAIRS.items():
        times = (f"{costs_of[name][count] / costs_of[index][count]:.1f}x" for count in BATCHES)
        lines.append(f"| {name.removeprefix('port: ')}: port over it | " + " | ".join(times) + " |")
    return "\n".join(lines) + "\n"


def main(
    quick: Annotated[bool, typer.Option(help="few prompts, nothing written")] = False,
    prompts: Annotated[int, typer.Option(help="how many")] = 10**6,
    turns: Annotated[int, typer.Option(help="how often each candidate has its turn")] = 9,
    busy: Annotated[bool, typer.Option(help="count processor time: for a machine with other work")] = False,
) -> None:
    if quick:
        prompts, turns = 10**4, 3
    clock = time.thread_time if busy else time.perf_counter
    table = report(measure(prompts, turns, clock), prompts)
    typer.echo(table)
    if not quick:
        write_page("port", "What the port costs", "taskset -c 1 python -m benchmarks.port.methods", table)


if __name__ == "__main__":
    typer.run(main)
