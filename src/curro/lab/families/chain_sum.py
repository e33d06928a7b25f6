"""reasoning-gym's chain_sum: sums and differences of one-digit numbers, total by total."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate
from typing import Any, ClassVar

from curro.lab.family import Family, Kind, Problem, Recipe

EASY = 0.72
"""Easy are the sums that so large a share of demonstrations solves: 796 of up to 4 terms."""

SETTINGS: dict[Kind, dict[str, int]] = {
    "hard": {"min_terms": 2, "max_terms": 16, "min_digits": 1, "max_digits": 1},
    "short": {"min_terms": 2, "max_terms": 3, "min_digits": 1, "max_digits": 1},
}
"""Settings of reasoning-gym's data set, by the kind of problem."""


class ChainSum(Family):
    """`7 + 8 - 2 =`: the total after each term, in two digits: ` 15 13`. Adding 8 is a skill of its own.

    The problems and the scores are reasoning-gym's; the worked totals and their mistakes are ours. In a
    demonstration each skill fails at its own rate, always too high by as much: two mistakes never cancel, and
    an answer is right only if every total is. Problems whose total leaves 0 to 99 on the way are left out:
    each term is two tokens of the prompt and each total two of the answer, so that a small model finds the
    term that is next.
    """

    name = "chain_sum"
    recipe = Recipe(
        learning_rate=3e-4,
        chosen_by="uniform sampling, 9,600 rollouts, one seed each: 3e-4 from .10 to .20, 1e-4 to .17",
        max_completion_length=31,
        prompts_per_step=16,
        train_prompts=1000,
    )
    easy_problems: ClassVar[dict[str, int]] = {"train": 600, "test": 150}

    def draw(self, rng: random.Random, kind: Kind) -> Problem:
        while True:
            row = self._entry(rng, SETTINGS["short" if kind == "easy" else kind])
            if kind == "easy":
                row = self._with(row, rng.choice(easy()))
            if has_two_digits(row["metadata"]["expression"]):
                return row

    def _entry(self, rng: random.Random, settings: dict[str, int]) -> Problem:
        # the data set seeds its problem i with seed + i, so its size is no bound
        entry = _data_set(tuple(sorted(settings.items())))[rng.randrange(2**48)]
        metadata = {name: entry["metadata"][name] for name in ("source_dataset", "expression")}
        return {"prompt": entry["question"], "answer": entry["answer"], "metadata": metadata}

    def _with(self, row: Problem, expression: str) -> Problem:
        """The problem with other terms: reasoning-gym has no setting that keeps to some skills."""
        prompt = row["prompt"].replace(row["metadata"]["expression"], expression)
        metadata = row["metadata"] | {"expression": expression}
        return {"prompt": prompt, "answer": str(totals_of(expression)[-1]), "metadata": metadata}

    def worked(self, row: Problem, rng: random.Random | None = None) -> str:
        def slip(term: str) -> int:
            rate, by = mistakes()[term]
            return by if rng is not None and rng.random() < rate else 0

        return "".join(f" {total:02}" for total in totals_of(row["metadata"]["expression"], slip)[1:])

    def score(self, completion: str, row: Problem) -> float:
        tokens = completion.split()
        if not tokens:
            return 0.0
        total = tokens[-1].lstrip("0") or "0"
        return float(_data_set(()).score_answer(total, {"answer": row["answer"]}) == 1.0)


def totals_of(expression: str, slip: Callable[[str], int] = lambda term: 0) -> list[int]:
    """The start and the total after each term, each of which is too high by its slip."""
    start, *words = expression.split()
    terms = [sign + digit for sign, digit in zip(words[::2], words[1::2], strict=True)]
    return list(accumulate((int(term) + slip(term) for term in terms), initial=int(start)))


def has_two_digits(expression: str) -> bool:
    """Whether every total after a term is from 0 to 99."""
    return all(0 <= total <= 99 for total in totals_of(expression)[1:])


@cache
def easy() -> Sequence[str]:
    """The expressions of all easy problems."""
    success_rates = {skill: 1 - rate for skill, (rate, _) in mistakes().items()}
    sums, longest = [], [(str(first), first, 1.0) for first in range(10)]
    for _ in range(3):
        longest = [
            (f"{sum_} {term[0]} {term[1]}", total + int(term), share * success_rates[term])
            for sum_, total, share in longest
            for term in success_rates
            if share * success_rates[term] >= EASY and total + int(term) >= 0
        ]
        sums += [sum_ for sum_, _, _ in longest]
    return sums


@cache
def mistakes() -> dict[str, tuple[float, int]]:
    """For each term, how often a demonstration gets it wrong, and how much too high it is then (1 to 5).

    One in ten always goes wrong, the others 5% to 60% of the time. So half of the problems are out of the
    warm model's reach: no sample of theirs ever earns a reward, as in real data.
    """
    skills, rng = [sign + str(digit) for sign in "+-" for digit in range(10)], random.Random(12)
    unknown = set(rng.sample(skills, len(skills) // 10))
    return {s: (1.0 if s in unknown else rng.uniform(0.05, 0.6), rng.randint(1, 5)) for s in skills}


@cache
def _data_set(settings: tuple[tuple[str, int], ...]) -> Any:
    import reasoning_gym  # takes seconds to import

    return reasoning_gym.create_dataset("chain_sum", seed=0, **dict(settings))
