"""Combination locks: turn the dial, see the next letter, turn again; the environment keeps the dial."""

from __future__ import annotations

import random
import re
from functools import cache
from itertools import islice, pairwise
from typing import ClassVar

from curro.core.errors import ConfigError
from curro.lab.family import Family, Kind, Problem, Recipe, solvable_texts

LETTERS = "abcdefghijklmnopqrst"
UNKNOWN = "dkr"
"""Letters that every demonstration gets wrong."""

_rng = random.Random(17)
MAPS = {letter: [_rng.randrange(10) for _ in range(10)] for letter in LETTERS}
_learnable = _rng.sample([letter for letter in LETTERS if letter not in UNKNOWN], 17)
ERROR_RATES = {
    **dict.fromkeys(UNKNOWN, 1.0),
    **{letter: _rng.uniform(0.0, 0.1) for letter in _learnable[:8]},
    **{letter: _rng.uniform(0.3, 0.8) for letter in _learnable[8:]},
}
SHORTEST, LONGEST = 2, 6
EASY = 0.55
"""Easy are the locks that so large a share of demonstrations opens."""

_TURN = re.compile(r"\s*turn ([0-9])\s*")


class Lock:
    """A lock in an episode: where its dial stands, and whether every turn so far was the right one.

    A turn takes the dial from digit d to MAPS[letter][d], where `letter` is the one it shows. A wrong turn
    is not told: the dial stands where it was turned to, and the letter it then shows is another. The lock
    is open after as many turns as it has letters, if all were right. Any other text ends the episode.
    """

    def __init__(self, dial: int, letter: str, panels: list[str]) -> None:
        self.dial, self.letter, self.panels = dial, letter, panels
        self.turned, self.right = 0, True

    def step(self, action: str) -> str | None:
        turn = _TURN.fullmatch(action)
        if turn is None:
            self.right = False
            return None
        to = int(turn[1])
        self.right &= to == MAPS[self.letter][self.dial]
        self.dial = to
        self.turned += 1
        if self.turned > len(self.panels):
            return None
        self.letter = self.panels[self.turned - 1][to]
        return self.letter

    def reward(self) -> float:
        return float(self.right and self.turned > len(self.panels))


class Locks(Family):
    """`acf from 3:f`: the dial stands at 3 and shows f; the right turns show a, c and f in some order.

    Which letter a dial shows after a turn, its panel, is hidden. So the second turn cannot be known before
    the first is made.
    """

    name = "locks"
    turns = LONGEST
    turn_tokens = 4
    recipe = Recipe(
        learning_rate=1e-3,
        chosen_by="uniform sampling, 12,800 rollouts: from .16, 1e-3 to .67 and .68 (two seeds), "
        "3e-4 to .51 and .47, 1e-4 to .25 (one)",
        max_completion_length=33,
        prompts_per_step=16,
        train_prompts=1000,
    )
    easy_problems: ClassVar[dict[str, int]] = {"train": 1000, "test": 250}

    def draw(self, rng: random.Random, kind: Kind) -> Problem:
        if kind == "easy":
            return self._lock(rng, rng.choice(rng.choice(_easy())))
        size = rng.randint(SHORTEST, 3 if kind == "short" else LONGEST)
        return self._lock(rng, "".join(rng.choice(LETTERS) for _ in range(size)))

    def _lock(self, rng: random.Random, path: str) -> Problem:
        dial = rng.randrange(10)
        prompt = f"{''.join(sorted(path))} from {dial}:{path[0]}"
        panels = []
        for letter, after in pairwise(path):
            dial = MAPS[letter][dial]
            panel = [rng.choice(LETTERS) for _ in range(10)]
            panel[dial] = after
            panels.append("".join(panel))
        return {"prompt": prompt, "answer": str(MAPS[path[-1]][dial]), "metadata": {"panels": panels}}

    def start(self, row: Problem, seed: int) -> Lock:
        """The problem's environment in its first state."""
        dial, letter = row["prompt"].split(":")
        return Lock(int(dial[-1]), letter, row["metadata"]["panels"])

    def dialogue(self, row: Problem, rng: random.Random | None = None) -> list[str]:
        """Turns and the letters between them; with `rng`, every letter is mistaken at its own rate."""
        lock = self.start(row, 0)
        turns = []
        letter: str | None = lock.letter
        while letter is not None:
            to = MAPS[letter][lock.dial]
            if rng is not None and rng.random() < ERROR_RATES[letter]:
                to = (to + 1) % 10
            turns.append(f" turn {to}")
            letter = lock.step(turns[-1])
            turns += letter or ""
        return turns

    def worked(self, row: Problem, rng: random.Random | None = None) -> str:
        return "".join(self.dialogue(row, rng))

    def score(self, completion: str, row: Problem) -> float:
        """Raises ConfigError: text has no score, since what is written in one turn was never executed."""
        raise ConfigError(
            f"{self.name} is played turn by turn and scored by its environment: "
            "train and evaluate it with `curro train`"
        )


@cache
def _easy() -> list[list[str]]:
    """The letters, in order, of all easy locks, by their number: 2 to 5."""
    error_rates = {letter: ERROR_RATES[letter] for letter in LETTERS}
    return list(islice(solvable_texts(error_rates, EASY), SHORTEST - 1, 5))
