import random

from curro.lab import family
from curro.lab.families.chains import ERROR_RATES, LETTERS, MAPS

CHAINS = family("chains")


def test_a_chain_worked_by_hand() -> None:
    first = MAPS["a"][3]
    second = MAPS["f"][first]
    assert CHAINS.worked({"prompt": "3af="}) == f"{first}{second}"
    assert CHAINS.score(f" {first}{second} ", {"answer": f"{first}{second}"}) == 1.0


def test_every_letter_fails_at_its_own_rate() -> None:
    rng = random.Random(0)
    for letter in LETTERS:
        row = {"prompt": f"3{letter}="}
        wrong = sum(CHAINS.worked(row, rng) != CHAINS.worked(row) for _ in range(2000)) / 2000
        assert abs(wrong - ERROR_RATES[letter]) < 0.05
