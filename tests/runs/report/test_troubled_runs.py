"""Runs whose trouble is known, by a real curriculum and a simulated policy: what the log and the page say."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from curro import Curriculum
from curro.data import PromptSet
from curro.runs.folder import RunFolder
from curro.runs.reader import read_history
from curro.runs.report.advice import advise, verdict
from curro.runs.writer import Completion, RunWriter

PROMPTS, STEPS, BATCH, GROUP = 4_000, 60, 16, 8
KINDS = 4
"""Prompts are of four kinds in turn, each with its own words."""


@dataclass(frozen=True)
class World:
    """What the policy does and how it is judged.

    Attributes:
        rates: success rates (N,) of all prompts at a step.
        reward: the reward of a completion that is right, and of one that is wrong.
        cut: the share of failing completions that the length limit cuts.
        texts: whether kinds differ in words and sources.
        same: whether all rollouts of a group are the same.
    """

    rates: Callable[[np.random.Generator, int], np.ndarray]
    reward: tuple[float, float] = (1.0, 0.0)
    cut: float = 0.0
    texts: bool = True
    same: bool = False


def kinds(*rates, spread=0.3):
    """The four kinds have these mean success rates, whose prompts differ by a factor of 1 -+ spread."""
    return lambda rng, step: np.tile(rates, PROMPTS // KINDS) * rng.uniform(1 - spread, 1 + spread, PROMPTS)


def run(path, world):
    """Train so long; what the run folder holds of it."""
    rng = np.random.default_rng(0)
    names = ["sum", "word", "colour", "date"] if world.texts else ["task"] * KINDS
    rows = [
        {"key": str(i), "prompt": f"{names[i % KINDS]} {rng.integers(10**6)}", "answer": None,
         "source": names[i % KINDS]}
        for i in range(PROMPTS)
    ]  # fmt: skip
    curriculum = Curriculum("frontier", PromptSet(rows), seed=0)
    curriculum.expect(STEPS)
    folder = RunFolder.create(path, {"curriculum": curriculum.config})
    writer = RunWriter(folder, curriculum.table)
    for step in range(STEPS):
        rates_N = world.rates(np.random.default_rng(1), step)
        draw = curriculum.select(BATCH, step=step)
        writer.drawn(draw)
        chance_PG = rng.random((BATCH, 1 if world.same else GROUP)).repeat(GROUP if world.same else 1, axis=1)
        right_PG = chance_PG < rates_N[draw.prompts, None]
        rewards_PG = np.where(right_PG, *world.reward)
        cut_PG = ~right_PG & (rng.random((BATCH, GROUP)) < world.cut)
        verdict_P = curriculum.observe(draw.tickets, rewards_PG)
        completions = [[Completion("text", 9, bool(cut)) for cut in cut_G] for cut_G in cut_PG]
        writer.groups(step + 1, draw.tickets, draw.prompts, rewards_PG, verdict_P, completions=completions)
        writer.step(step + 1, curriculum.metrics())
    return read_history(folder)


@dataclass(frozen=True)
class Said:
    """What has to be said of a run.

    Attributes:
        rules: the rules that advise, all of them, the first one first.
        first: the beginning of the first advice, or where there is none, a part of the verdict.
        advice: a part of what it says to do.
        word: of the verdict.
        logged: a part of the log's only sentence; None for no sentence.
    """

    rules: tuple[str, ...]
    first: str
    advice: str
    word: str
    logged: str | None


SOLVED = World(lambda rng, step: rng.uniform(0.998, 1.0, PROMPTS))
HOPELESS = World(lambda rng, step: rng.uniform(0.0, 0.002, PROMPTS))
EASY = World(lambda rng, step: rng.uniform(0.3, 0.7, PROMPTS))
ALIKE = World(kinds(0.06, 0.06, 0.06, 0.06, spread=0), texts=False)
BROKEN = World(kinds(0.5, 0.5, 0.5, 0.5), reward=(0.0, 0.0))
CUT = World(kinds(0.02, 0.02, 0.02, 0.02), cut=0.9)
DEAD_SOURCE = World(kinds(0.5, 0.3, 0.2, 0.0))
COLLAPSE = World(lambda rng, step: kinds(0.5, 0.5, 0.3, 0.1)(rng, step) * (step < STEPS / 2))
OUTSIDE = World(kinds(0.5, 0.3, 0.1, 0.1), reward=(1.0, -1.0))
CONSTANT = World(kinds(0.5, 0.3, 0.1, 0.1), reward=(0.5, 0.5))
DUPLICATES = World(kinds(0.5, 0.5, 0.5, 0.5), same=True)

FLAT = "of the last 256 groups have no gradient:"
TROUBLES: dict[str, tuple[World, Said]] = {
    "all prompts are solved": (
        SOLVED,
        Said(
            ("most-flat",),
            f"99% {FLAT} 0% are all wrong, 99% all right.",
            "The data is too easy now",
            "level",
            "of random prompts are solved in all rollouts: add harder ones.",
        ),
    ),
    "all prompts are hopeless": (
        HOPELESS,
        Said(
            ("most-flat",),
            f"100% {FLAT} 100% are all wrong, 0% all right.",
            "add easier prompts",
            "level",
            "100% of random prompts fail in all rollouts.",
        ),
    ),
    "most groups have a signal anyway": (
        EASY,
        Said(
            (),
            "Most groups have a signal anyway, so there is little to save: uniform sampling does as well.",
            "",
            "level",
            "Most groups have a signal anyway",
        ),
    ),
    "texts tell nothing": (
        ALIKE,
        Said(
            (),
            "What the method reads does not tell which prompts have a signal",
            "",
            "level",
            "What the method reads does not tell which prompts have a signal",
        ),
    ),
    "the reward is always 0": (
        BROKEN,
        Said(
            ("one-reward",),
            "All rollouts of 960 groups had the reward 0.",
            "if answers are right, the reward does not recognise them",
            "level",
            "100% of random prompts fail in all rollouts. Read some rollouts",
        ),
    ),
    "completions are cut": (
        CUT,
        Said(
            ("cut-completions",),
            "89% of the recent completions were cut at the length limit.",
            "Raise --max-completion-length",
            "level",
            "no more than uniform sampling",
        ),
    ),
    "a source never has a reward": (
        DEAD_SOURCE,
        Said(
            ("rewardless-source",),
            "The source 'date' has had no reward in",
            "their format is one that the reward does not read",
            "works",
            None,
        ),
    ),
    "the policy collapses": (
        COLLAPSE,
        Said(
            ("collapsed",),
            "The policy has collapsed: random prompts succeed in 0% of their rollouts, and did in",
            "lower the learning rate",
            "level",
            "Most groups have a signal anyway",
        ),
    ),
    "rewards are outside of the range": (
        OUTSIDE,
        Said(
            ("outside-range",),
            "Mean rewards of groups are from -1 to 1, the reward range is 0 to 1",
            "Set --reward-range",
            "works",
            None,
        ),
    ),
    "the reward has one value": (
        CONSTANT,
        Said(
            ("one-reward",),
            "All rollouts of 960 groups had the reward 0.5.",
            "may not depend on the completion",
            "level",
            "All rollouts had the same reward: it may not depend on the completion.",
        ),
    ),
    "rollouts of a prompt are alike": (
        DUPLICATES,
        Said(
            ("most-flat",),
            f"100% {FLAT}",
            "sample with a higher temperature",
            "level",
            "sample with a higher temperature if rollouts of a prompt are alike",
        ),
    ),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_the_trouble_is_named_and_nothing_wrong_is_advised(tmp_path, caplog, trouble):
    world, said = TROUBLES[trouble]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        history = run(tmp_path / "run", world)
    found, standing = advise(history), verdict(history)
    assert tuple(one.name for one in found) == said.rules
    assert said.first in (found[0].problem if found else standing.sentence)
    assert said.advice in (found[0].advice if found else "")
    assert standing.word == said.word
    logged = [record.getMessage() for record in caplog.records]
    assert len(logged) == (said.logged is not None)
    assert (said.logged or "") in "".join(logged)
    assert ["reward range is 0 to 1" in str(one.message) for one in warned] == [True] * (world is OUTSIDE)
    # the page gives no cause of its own where a rule knows a better one
    is_known = bool({"one-reward", "cut-completions", "collapsed"} & set(said.rules))
    assert ("no more than uniform sampling" in standing.sentence) == (said.word == "level" and not is_known)
