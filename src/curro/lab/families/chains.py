"""Chains of look-ups: sixteen letters, each a fixed map on the digits, applied one after another."""

from __future__ import annotations

import random
from functools import cache
from typing import ClassVar

from curro.lab.family import Family, Kind, Problem, Recipe, solvable_texts

LETTERS = "abcdefghijklmnop"
_rng = random.Random(7)
MAPS = {letter: [_rng.randrange(10) for _ in range(10)] for letter in LETTERS}
ERROR_RATES = {letter: _rng.uniform(0.05, 0.6) for letter in LETTERS}
LENGTHS = {"hard": (1, 14), "short": (1, 3)}
EASY = 0.55
"""Easy are the chains that so large a share of demonstrations solves: 820, most of 3 letters."""


class Chains(Family):
    """`3afc=`: look 3 up in map a, the result in f, that result in c; write every digit on the way."""

    name = "chains"
    recipe = Recipe(
        learning_rate=3e-4,
        chosen_by="uniform sampling, one seed: 3e-4; others untried",
        max_completion_length=16,
    )
    easy_problems: ClassVar[dict[str, int]] = {"train": 600, "test": 150}

    def draw(self, rng: random.Random, kind: Kind) -> Problem:
        if kind == "easy":
            return self._chain(rng, rng.choice(_easy()))
        size = rng.randint(*LENGTHS[kind])
        return self._chain(rng, "".join(rng.choice(LETTERS) for _ in range(size)))

    def _chain(self, rng: random.Random, letters: str) -> Problem:
        row = {"prompt": f"{rng.randrange(10)}{letters}="}
        return {**row, "answer": self.worked(row)}

    def worked(self, row: Problem, rng: random.Random | None = None) -> str:
        digit, steps = int(row["prompt"][0]), ""
        for letter in row["prompt"][1:-1]:
            digit = MAPS[letter][digit]
            if rng is not None and rng.random() < ERROR_RATES[letter]:
                digit = (digit + 1) % 10
            steps += str(digit)
        return steps

    def score(self, completion: str, row: Problem) -> float:
        return float(completion.strip() == row["answer"])


@cache
def _easy() -> list[str]:
    """The letters of all easy chains."""
    return [chain for chains in solvable_texts(ERROR_RATES, EASY) for chain in chains]


class ChainsJudge(Chains):
    """The problems of `chains`; the warm model also judges how much its rewards would differ."""

    name = "chains_judge"


class ChainsCalibrated(Chains):
    """The problems of `chains`; judgments rate learners of five skills, with 0 to 9 exemplars.

    A judgment without exemplars can only say what is so in the mean over the skills.
    """

    name = "chains_calibrated"


class ChainsShare(Chains):
    """The problems and the warm model of `chains`; the reward is the share of the digits that are right.

    A digit counts in its place. Those after a mistake are seldom right, since each follows from the one
    before, and an answer longer than the chain is measured against its own length.
    """

    name = "chains_share"
    checkpoint = "chains"

    def score(self, completion: str, row: Problem) -> float:
        response, answer = completion.strip(), row["answer"]
        matches = sum(a == b for a, b in zip(response, answer, strict=False))
        return matches / max(len(response), len(answer))
