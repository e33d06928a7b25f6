"""reasoning-gym's spell_backward: words spelt backward, letter by letter."""

from __future__ import annotations

import copy
import math
import random
import string
from functools import cache
from typing import Any, ClassVar

from curro.lab.family import Family, Kind, Problem, Recipe

UNKNOWN = "eo"
"""Letters that every demonstration gets wrong: words with them are out of the warm model's reach."""

_rng = random.Random(5)
_letters = _rng.sample([c for c in string.ascii_lowercase if c not in UNKNOWN], 24)
ERROR_RATES = {
    **dict.fromkeys(UNKNOWN, 1.0),
    **{letter: _rng.uniform(0.0, 0.1) for letter in _letters[:12]},
    **{letter: _rng.uniform(0.4, 0.9) for letter in _letters[12:]},
}
SLIPS = {
    letter: _rng.choice([c for c in string.ascii_lowercase if c != letter])
    for letter in string.ascii_lowercase
}
LENGTHS = {"hard": (3, 8), "short": (3, 4)}
EASY = 0.5
"""Easy are the words that so large a share of demonstrations spells: 1,240, of safe letters alone."""


class SpellBackward(Family):
    """`sun -> nus`: every letter is a skill; a letter that is missed becomes the same other one each time.

    Half of the letters are nearly safe, half are missed four to nine times in ten, and two are never
    right, so that three words in four cannot be solved at all, whatever is practised: as in the data of
    the prioritized-replay paper, where most problems are never solved.
    """

    name = "spell_backward"
    recipe = Recipe(
        learning_rate=3e-4,
        chosen_by="uniform sampling, 4 prompts a step, 12,800 rollouts: 1e-4 to .16, 3e-4 to .22; two seeds",
        max_completion_length=11,
        prompts_per_step=4,
        train_prompts=1000,
    )
    difficulties: ClassVar[tuple[str, ...]] = ("hard", "easy", "solvable")
    easy_problems: ClassVar[dict[str, int]] = {"train": 950, "test": 200}

    def draw(self, rng: random.Random, kind: Kind) -> Problem:
        lengths = LENGTHS["short" if kind == "short" else "hard"]
        data_set = _easy() if kind == "easy" else _data_set(*lengths)
        entry = data_set[rng.randrange(2**40)]
        while kind in ("short", "solvable") and set(UNKNOWN) & set(entry["answer"]):
            entry = data_set[rng.randrange(2**40)]
        return {
            "prompt": entry["question"] + "\n",
            "answer": entry["answer"],
            "metadata": {"source_dataset": "spell_backward"},
        }

    def worked(self, row: Problem, rng: random.Random | None = None) -> str:
        if rng is None:
            return row["answer"]
        return "".join(
            SLIPS[letter] if rng.random() < ERROR_RATES.get(letter, 0.0) else letter
            for letter in row["answer"]
        )

    def score(self, completion: str, row: Problem) -> float:
        scored = _data_set(*LENGTHS["hard"]).score_answer(completion.strip(), {"answer": row["answer"]})
        return float(scored == 1.0)


@cache
def _easy() -> Any:
    data_set = copy.copy(_data_set(*LENGTHS["hard"]))
    success_rates = {letter: 1 - rate for letter, rate in ERROR_RATES.items()}
    data_set.words = [
        word
        for word in data_set.words
        if math.prod(success_rates.get(letter, 1.0) for letter in word) >= EASY
    ]
    return data_set


@cache
def _data_set(shortest: int, longest: int) -> Any:
    import reasoning_gym  # takes seconds to import

    return reasoning_gym.create_dataset(
        "spell_backward", seed=0, size=1, min_word_len=shortest, max_word_len=longest
    )
