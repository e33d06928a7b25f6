"""What a method finds on simulated pools of every nature, and what it gives up untried.

    OMP_NUM_THREADS=1 python -m benchmarks.learning.natures [--runs 30] [--nature mixture-16 ...] [METHOD ...]

Results: results/natures.md.

A pool is texts, families and success rates. The texts are real texts, so that a method reads of them what it
reads of a data set; rewards are drawn with the rates. The policy stands still, or with --learning its success
on a family grows with the signal of that family's groups (`World.practise`). A policy that is asked for the
entropies of its first tokens answers with numbers that are related to the rate of the prompt.

Printed for each nature and method: the share of groups with a signal and its lowest value of all runs; how
many runs starve a learnable family, which gets less than half of what uniform sampling gives it in a quarter
of a run; how many give one less than half of what uniform sampling gives it in the whole run; how many give
that little to all; how many give one less than half in the first quarter of a run; how many of the intervals
of `signal/uniform_share` at the end hold the true share; and with --learning the mean success rate of
learnable prompts at the end. At last, for all natures together, signal over uniform sampling's: the geometric
mean, the nature and the run where it is lowest.

Gives up: real texts say less of difficulty, and real policies move otherwise.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from time import process_time
from typing import Any

import numpy as np

from curro import Curriculum, Predictor
from curro.data import PromptSet
from curro.methods.selection.predicted import Predicted

METHODS = ("uniform", "frontier", "oracle")
PROMPTS, BATCH, GROUP, STEPS = 2000, 8, 4, 120
HOPELESS, SOLVED = -7.0, 6.0
RATE, PULL = 0.02, 0.05


@dataclass
class Pool:
    """Prompts of one nature.

    Attributes:
        texts: of the N prompts.
        family_N: the number of each prompt's family.
        learnable: families that can be starved.
        logit_N: of the prompts' success rates before training.
        told: how much the entropies tell of the logits: standard deviations of the logit over that of the
            noise; 0: nothing.
        shift: logits (N,) from the middle of the run on, in place of `logit_N`; None: the same.
    """

    texts: list[str]
    family_N: np.ndarray
    learnable: Sequence[int]
    logit_N: np.ndarray
    told: float = 0.5
    shift: np.ndarray | None = None


def _words(rng: np.random.Generator, count: int) -> list[str]:
    letters = np.array(list("aabcdeeefghiiklmnoooprssttuvwy"))
    return ["".join(rng.choice(letters, rng.integers(2, 9))) for _ in range(count)]


def _family_texts(rng: np.random.Generator, count: int, vocabulary: Sequence[str] | None = None) -> list[str]:
    """Texts of a family: a template in words of its own, numbers or words in its gaps, worked examples.

    With a vocabulary the template is four of its words.
    """
    if vocabulary is None:
        template = _words(rng, rng.integers(10, 30))
    else:
        template = list(rng.choice(vocabulary, 4, replace=False))
    nouns = _words(rng, 20)
    gaps = sorted(rng.choice(len(template), 3, replace=False), reverse=True)
    takes_numbers, examples = rng.random(3) < 0.6, int(rng.integers(4))

    def problem() -> str:
        words = list(template)
        for gap, number in zip(gaps, takes_numbers, strict=True):
            words.insert(gap, str(rng.integers(1, 200)) if number else str(rng.choice(nouns)))
        return " ".join(words).capitalize() + "?"

    shown = "".join(f"{problem()}\n{rng.integers(100)}\n\n" for _ in range(examples))
    return [shown + problem() for _ in range(count)]


def _learnable_logits(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.normal(rng.uniform(-2.2, 0.2), 1.2, count)


def mixture(
    rng: np.random.Generator,
    families: int,
    learnable: float = 0.2,
    solved: float = 0.1,
    kinds: int = 4,
    vocabulary: Sequence[str] | None = None,
) -> Pool:
    """Families with words of their own or a vocabulary, of which the first `kinds` are learnable."""
    easy = 2 if solved else 0
    hopeless = families - kinds - easy
    share = np.repeat(
        [learnable / kinds, solved / max(easy, 1), (1 - learnable - solved) / hopeless],
        [kinds, easy, hopeless],
    )
    size = np.round(PROMPTS * share).astype(int)
    texts, logits = [], []
    for family, count in enumerate(size):
        texts += _family_texts(rng, count, vocabulary)
        if family < kinds:
            logits.append(_learnable_logits(rng, count))
        else:
            logits.append(rng.normal(SOLVED if family < kinds + easy else HOPELESS, 1.0, count))
    return Pool(texts, np.repeat(np.arange(families), size), range(kinds), np.concatenate(logits))


def template(rng: np.random.Generator) -> Pool:
    """One template: sums of which the long ones are hopeless."""
    terms, digits = rng.integers(2, 9, PROMPTS), rng.integers(1, 4, PROMPTS)
    texts = [
        "What is "
        + " + ".join(str(rng.integers(10 ** (d - 1) if d > 1 else 0, 10**d)) for _ in range(t))
        + "?"
        for t, d in zip(terms, digits, strict=True)
    ]
    hard = terms * digits
    logit_N = 1.5 - 0.9 * (hard - 2) + rng.normal(0, 0.7, PROMPTS)
    return Pool(texts, (hard > 6).astype(int), [0], np.maximum(logit_N, HOPELESS))


def same_words(rng: np.random.Generator, told: float = 1.0) -> Pool:
    """Two kinds in the same words: texts tell nothing, the policy knows."""
    words = _words(rng, 30)
    texts = [" ".join(rng.choice(words, 12)) for _ in range(PROMPTS)]
    family_N = (rng.random(PROMPTS) < 0.75).astype(int)
    logit_N = np.where(family_N == 0, rng.normal(-0.7, 1.2, PROMPTS), rng.normal(HOPELESS, 1.0, PROMPTS))
    return Pool(texts, family_N, [0], logit_N, told=told)


def smooth(rng: np.random.Generator) -> Pool:
    """A range of difficulty without a cluster, half of it told by the words."""
    words = _words(rng, 40)
    worth = rng.normal(0, 1.0, 40)
    picked = rng.integers(40, size=(PROMPTS, 8))
    texts = [" ".join(words[word] for word in row) for row in picked]
    logit_N = -3 + 0.7 * worth[picked].sum(axis=1) + rng.normal(0, 2.0, PROMPTS)
    return Pool(texts, np.zeros(PROMPTS, int), [0], logit_N)


def easy(rng: np.random.Generator) -> Pool:
    """Eight families that are all learnable already: no room to save."""
    texts = [text for _ in range(8) for text in _family_texts(rng, PROMPTS // 8)]
    family_N = np.repeat(np.arange(8), PROMPTS // 8)
    return Pool(texts, family_N, range(8), rng.normal(rng.uniform(-1, 1, 8)[family_N], 1.0))


def lies(rng: np.random.Generator) -> Pool:
    """Texts that lie: in some families half of the prompts are solved and half hopeless, in the mean 1/2."""
    pool = mixture(rng, 8, learnable=0.2, solved=0.0, kinds=2)
    liars_N = np.isin(pool.family_N, [2, 3, 4])
    pool.logit_N[liars_N] = rng.choice([HOPELESS, SOLVED], np.count_nonzero(liars_N))
    return pool


def forgets(rng: np.random.Generator) -> Pool:
    """A policy that forgets: at half of the run what was learnable is hopeless and others are learnable."""
    pool = mixture(rng, 16, kinds=4)
    pool.shift = pool.logit_N.copy()
    pool.shift[pool.family_N < 4] = HOPELESS
    for family in range(6, 10):
        rows = pool.family_N == family
        pool.shift[rows] = _learnable_logits(rng, np.count_nonzero(rows))
    return pool


def last(rng: np.random.Generator) -> Pool:
    """The best family last: one family in fifty has a signal, one other a tenth of it."""
    pool = mixture(rng, 12, learnable=0.04, solved=0.3, kinds=2)
    pool.logit_N[pool.family_N == 1] = -3.5
    pool.learnable = [0]
    return pool


NATURES: dict[str, Callable[[np.random.Generator], Pool]] = {
    "template": template,
    "mixture-8": lambda rng: mixture(rng, 8, kinds=2),
    "mixture-16": lambda rng: mixture(rng, 16),
    "mixture-20": lambda rng: mixture(rng, 20),
    "nothing-solved": lambda rng: mixture(rng, 16, learnable=0.16, solved=0.0),
    "same-words": same_words,
    "told-nothing": lambda rng: same_words(rng, told=0.0),
    "smooth": smooth,
    "easy": easy,
    "lies": lies,
    "forgets": forgets,
    "last": last,
    "words-shared": lambda rng: mixture(rng, 16, vocabulary=_words(rng, 20)),
}


class World:
    """A pool and the policy on it.

    Attributes:
        skill_F: what practice has added to the logits of each family's prompts.
    """

    def __init__(self, nature: str, seed: int, learning: bool) -> None:
        self.rng = np.random.default_rng([seed, sorted(NATURES).index(nature)])
        self.pool, self.learning = NATURES[nature](self.rng), learning
        self.skill_F = np.zeros(self.pool.family_N.max() + 1)
        # large families take longer
        self.pace_F = len(self.pool.texts) / np.bincount(self.pool.family_N)
        noise = self.rng.normal(size=(2, len(self.pool.texts)))
        told = self.pool.told / np.hypot(1, self.pool.told)
        kept = np.sqrt(1 - told**2)
        spread_N = (self.pool.logit_N - self.pool.logit_N.mean()) / self.pool.logit_N.std()
        self.entropy_2N = np.maximum(1.5 - 0.5 * (told * spread_N + kept * noise), 0)
        self.prompts = PromptSet(
            [
                {"key": str(i), "prompt": text, "answer": None, "source": f"family {family}"}
                for i, (text, family) in enumerate(
                    zip(self.pool.texts, self.pool.family_N.tolist(), strict=True)
                )
            ]
        )
        self.half = False

    def entropies(self, prompts: Sequence[int]) -> np.ndarray:
        """As `Policy.entropies`."""
        return self.entropy_2N[:, list(prompts)].T.astype(np.float32)

    def logits(self) -> np.ndarray:
        """Success rates of all prompts now."""
        base = self.pool.shift if self.half and self.pool.shift is not None else self.pool.logit_N
        return base + self.skill_F[self.pool.family_N]

    def rates(self) -> np.ndarray:
        """Success rates of all prompts now."""
        return 1 / (1 + np.exp(-self.logits()))

    def practise(self, prompts_B: np.ndarray) -> np.ndarray:
        """Roll out and learn: rewards (B, G).

        A family's skill grows in proportion to its groups' variances, and a little with that of others.
        """
        rewards_BG = (self.rng.random((len(prompts_B), GROUP)) < self.rates()[prompts_B, None]).astype(float)
        if self.learning:
            signal_F = np.bincount(
                self.pool.family_N[prompts_B], rewards_BG.var(axis=1), minlength=len(self.skill_F)
            )
            can_F = np.isin(np.arange(len(self.skill_F)), self.pool.learnable)
            self.skill_F += can_F * RATE * self.pace_F * (signal_F + PULL * signal_F.sum())
        return rewards_BG


class Oracle(Predictor):
    """Knows the world's success rates."""

    def __init__(self, world: World) -> None:
        self.world = world

    def informativeness(self, prompts: np.ndarray, step: int) -> np.ndarray:
        p = self.world.rates()[prompts]
        return p * (1 - p)


@dataclass(frozen=True)
class Run:
    """Results of a simulated run."""

    signal: float
    starved: int
    below_half: int
    late: int
    covered: bool
    learnable: int
    level: float
    milliseconds: float


def run(task: tuple[Any, ...]) -> Run:
    """One run: of a method, a nature, a seed, whether the policy learns, and a shape (steps, prompts)."""
    method, nature, seed, learning, (steps, batch) = task
    world = World(nature, seed, learning)
    oracle = {"name": f"{__name__}:Oracle", "world": world}
    selection = Predicted(predictor=oracle, candidates=8) if method == "oracle" else method
    curriculum = Curriculum(selection, world.prompts, seed=seed)
    if curriculum.selection.policy_use:
        curriculum.attach(world)  # type: ignore[arg-type]
    families = len(world.skill_F)
    groups_F, first_F, signal, seconds = np.zeros(families), np.zeros(families), 0.0, 0.0
    for step in range(steps):
        world.half = 2 * step >= steps
        start = process_time()
        draw = curriculum.select(batch, step=step)
        seconds += process_time() - start
        rewards_BG = world.practise(draw.prompts)
        start = process_time()
        curriculum.observe(draw.tickets, rewards_BG)
        seconds += process_time() - start
        signal += (np.ptp(rewards_BG, axis=1) > 0).mean() / steps
        groups_F += np.bincount(world.pool.family_N[draw.prompts], minlength=families)
        if 4 * (step + 1) == steps:
            first_F = groups_F.copy()
    share_F = np.bincount(world.pool.family_N, minlength=families) / len(world.pool.texts)
    rows = list(world.pool.learnable)
    uniform_F = steps * batch * share_F[rows]
    starved, below_half = (int((groups_F[rows] < share * uniform_F).sum()) for share in (1 / 8, 1 / 2))
    late = int((first_F[rows] < uniform_F / 8).sum())
    rate_N = world.rates()
    level = float(rate_N[np.isin(world.pool.family_N, rows)].mean())
    share = float(np.mean(1 - rate_N**GROUP - (1 - rate_N) ** GROUP))
    low, high = (curriculum.metrics()[f"signal/uniform_share_{end}"] for end in ("low", "high"))
    covered = bool(low < share < high)
    return Run(signal, starved, below_half, late, covered, len(rows), level, 1e3 * seconds / steps)


def main() -> None:
    summary = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    summary.add_argument("methods", nargs="*", default=METHODS, metavar="METHOD")
    summary.add_argument("--nature", action="append", choices=NATURES)
    summary.add_argument("--runs", type=int, default=30)
    summary.add_argument("--steps", type=int, default=STEPS)
    summary.add_argument("--batch", type=int, default=BATCH)
    summary.add_argument("--learning", action="store_true")
    summary.add_argument("--workers", type=int, default=1)
    args = summary.parse_args()
    found: dict[str, list[list[Run]]] = {method: [] for method in args.methods}
    with get_context("forkserver").Pool(args.workers) as workers:
        for nature in args.nature or NATURES:
            print(f"\n## {nature}, {args.runs} runs of {args.steps} steps of {args.batch} x {GROUP}\n")
            print(f"| method | {' | '.join(COLUMNS)} |\n|---|{'--:|' * len(COLUMNS)}")
            for method in args.methods:
                tasks = [
                    (method, nature, seed, args.learning, (args.steps, args.batch))
                    for seed in range(args.runs)
                ]
                found[method].append(workers.map(run, tasks, chunksize=1))
                print(f"| {method} | {' | '.join(cells(found[method][-1]))} |", flush=True)
    if "uniform" in found:
        print(all_natures(found))


COLUMNS = ("signal", "lowest", "starve one", "half of one", "of all", "late", "covered", "level", "ms")


def cells(runs: Sequence[Run]) -> list[str]:
    """The columns of one method on one nature."""
    signal = np.array([one.signal for one in runs])
    counts = (
        sum(one.starved > 0 for one in runs),
        sum(one.below_half > 0 for one in runs),
        sum(one.below_half == one.learnable for one in runs),
        sum(one.late > 0 for one in runs),
        sum(one.covered for one in runs),
    )
    level, milliseconds = (
        np.mean([getattr(one, name) for one in runs]) for name in ("level", "milliseconds")
    )
    numbers = (f"{signal.mean():.3f}", f"{signal.min():.3f}", *map(str, counts))
    return [*numbers, f"{level:.3f}", f"{milliseconds:.2f}"]


def all_natures(found: dict[str, list[list[Run]]]) -> str:
    """A table of each method's signal over uniform sampling's on the same nature, and of starved families."""
    uniform_N = [np.mean([one.signal for one in runs]) for runs in found["uniform"]]
    names = ("mean", "lowest nature", "lowest run", "starve one", "half of one", "late")
    lines = [
        f"\n## All natures, {sum(map(len, found['uniform']))} runs: signal over uniform sampling's mean\n",
        f"| method | {' | '.join(names)} |\n|---|{'--:|' * len(names)}",
    ]
    for method, natures in found.items():
        ratios = [
            np.array([one.signal for one in runs]) / uniform
            for runs, uniform in zip(natures, uniform_N, strict=True)
        ]
        means_N = np.array([ratio.mean() for ratio in ratios])
        every = [one for runs in natures for one in runs]
        counts = (sum(getattr(one, name) > 0 for one in every) for name in ("starved", "below_half", "late"))
        lowest = min(ratio.min() for ratio in ratios)
        numbers = (np.exp(np.log(means_N).mean()), means_N.min(), lowest)
        cells = [*(f"{number:.2f}" for number in numbers), *map(str, counts)]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
