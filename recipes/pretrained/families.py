"""Families of short problems for a small pretrained model, each in words of its own.

A family draws a problem and its answer. Worked examples of the same family stand before most problems,
because a model of 135 million parameters understands many families only so. Answers have at most six tokens.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from string import ascii_lowercase as LETTERS
from typing import Any

NOUNS = """
    apple river stone bread chair cloud dance eagle flame grape house horse juice knife lemon money
    night ocean piano queen robot sheep table tiger uncle voice water zebra bird cake door fish gold
    hand iron jazz king lamp moon nest oven park rain ship tree vase wolf yard
"""
WORDS = NOUNS.split()
SHORT, LONG = ([word for word in WORDS if len(word) == length] for length in (4, 5))
PRIMES = [n for n in range(2, 2_000) if all(n % d for d in range(2, math.isqrt(n) + 1))]
Draw = Callable[[random.Random], tuple[str, object]]
"""Draws a problem's text and its answer."""


@dataclass(frozen=True)
class Family:
    """Problems of one kind.

    Attributes:
        name: the column `kind` of a pool's rows.
        words: the text of a problem, with `{}` for what differs; the answer follows it.
        draw: draws what differs, and the answer.
        shots: the number of worked examples before a problem, the same ones before all problems.
        examples: draws the worked examples, by default as `draw` does.
    """

    name: str
    words: str
    draw: Draw
    shots: int = 0
    examples: Draw | None = None

    def problems(self, seed: int) -> Iterator[dict[str, str]]:
        """Different problems, the same ones every time; ends when new ones become rare."""
        examples_rng, rng = random.Random(self.words), random.Random(f"{self.name} {seed}")
        solved = dict((self.examples or self.draw)(examples_rng) for _ in range(self.shots))
        before = "".join(f"{self.words.format(text)} {answer}\n" for text, answer in solved.items())
        seen = set(solved)
        for _ in range(50_000):
            text, answer = self.draw(rng)
            if text not in seen:
                seen.add(text)
                yield {
                    "prompt": before + self.words.format(text),
                    "answer": str(answer),
                    "kind": self.name,
                }


def right(completion: str, row: Mapping[str, Any]) -> float:
    """The reward: 1.0 where the completion begins with the answer, whatever follows; case does not count."""
    begins = re.match(rf"\s*{re.escape(str(row['answer']))}(?!\w|\.\d)", completion, re.IGNORECASE)
    return float(begins is not None)


def numbers(number: tuple[int, int], high: int, answer: Callable[[list[int]], object]) -> Draw:
    """A list of different numbers from 1 to `high`."""

    def draw(rng: random.Random) -> tuple[str, object]:
        values = rng.sample(range(1, high + 1), rng.randint(*number))
        return ", ".join(map(str, values)), answer(values)

    return draw


def words(number: tuple[int, int], answer: Callable[[list[str]], object]) -> Draw:
    """A list of different words."""

    def draw(rng: random.Random) -> tuple[str, object]:
        chosen = rng.sample(WORDS, rng.randint(*number))
        return " ".join(chosen), answer(chosen)

    return draw


def letters(length: tuple[int, int], answer: Callable[[str], object]) -> Draw:
    """A word without a meaning."""

    def draw(rng: random.Random) -> tuple[str, object]:
        text = "".join(rng.choice(LETTERS) for _ in range(rng.randint(*length)))
        return text, answer(text)

    return draw


def pair(
    first: tuple[int, int], second: tuple[int, int], text: str, answer: Callable[[int, int], object]
) -> Draw:
    """Two numbers, each between two bounds."""

    def draw(rng: random.Random) -> tuple[str, object]:
        a, b = rng.randint(*first), rng.randint(*second)
        return text.format(a=a, b=b), answer(a, b)

    return draw


def number(low: int, high: int, answer: Callable[[int], object], text: Callable[[int], str] = str) -> Draw:
    """One number."""

    def draw(rng: random.Random) -> tuple[str, object]:
        value = rng.randint(low, high)
        return text(value), answer(value)

    return draw


def sum_of(terms: tuple[int, int], low: int, high: int) -> Draw:
    """Numbers between two bounds, and their sum."""

    def draw(rng: random.Random) -> tuple[str, object]:
        values = [rng.randint(low, high) for _ in range(rng.randint(*terms))]
        return " + ".join(map(str, values)), sum(values)

    return draw


def any_size(most_terms: int, largest: float, between: str, answer: Callable[[list[int]], object]) -> Draw:
    """Two numbers or more, whose logarithms are uniform up to a bound that is itself uniform."""

    def draw(rng: random.Random) -> tuple[str, object]:
        bound = rng.uniform(math.log(4), math.log(largest))
        values = [round(math.exp(rng.uniform(0.5, bound))) for _ in range(rng.randint(2, most_terms))]
        return between.join(map(str, values)), answer(values)

    return draw


def series(regular: bool) -> Draw:
    """Five numbers that grow by the same step each, the last of them asked for; or by steps at random."""

    def draw(rng: random.Random) -> tuple[str, object]:
        first, step = rng.randint(1, 60), rng.randint(1, 9)
        steps = [step] * 4 if regular else [*rng.sample(range(1, 10), 3), rng.randint(10, 40)]
        values = [first + sum(steps[:place]) for place in range(5)]
        return ", ".join(map(str, values[:-1])) + ",", values[-1]

    return draw


def twice(regular: bool) -> Draw:
    """Letters of which one stands twice, which is asked for; or all different, and another asked for."""

    def draw(rng: random.Random) -> tuple[str, object]:
        chosen = rng.sample(LETTERS, rng.randint(4, 6))
        shown = (
            [*chosen[:-1], chosen[0]]
            if regular
            else chosen[:-1] + rng.sample(sorted(set(LETTERS) - set(chosen)), 1)
        )
        rng.shuffle(shown)
        return " ".join(shown), chosen[0] if regular else chosen[-1]

    return draw


def shortest(rng: random.Random) -> tuple[str, object]:
    short = rng.choice(SHORT)
    chosen = [short, *rng.sample(LONG, 2)]
    return " ".join(rng.sample(chosen, 3)), short


def lookup(asked: int) -> Draw:
    """Numbers with names, of which one is asked for, or the sum of two."""

    def draw(rng: random.Random) -> tuple[str, object]:
        values = dict(zip(rng.sample(WORDS, 4), rng.sample(range(10, 99), 4), strict=True))
        names = rng.sample(sorted(values), asked)
        text = " ".join(f"{name}={value}" for name, value in values.items())
        return f"{text}; {'+'.join(names)} is", sum(values[name] for name in names)

    return draw


def divisor(rng: random.Random) -> tuple[str, object]:
    a, b = (rng.randint(4, 25) * factor for factor in rng.sample(range(3, 15), 2))
    return f"{a} and {b}", math.gcd(a, b)


def roman(value: int) -> str:
    text = ""
    for worth, sign in ((50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")):
        text, value = text + sign * (value // worth), value % worth
    return text


def shifted(text: str) -> str:
    return "".join(LETTERS[(LETTERS.index(letter) + 3) % 26] for letter in text)


_ALL = (
    # learnable: right in 5% to 75% of the answers before training
    Family("two_numbers", "Add the numbers. {} =", sum_of((2, 2), 1, 24), 1),
    Family("last_number", "list {} ends in", numbers((3, 5), 99, lambda v: v[-1]), 1),
    Family("first_by_alphabet", "Alphabetically first: {} ->", words((2, 3), min), 2),
    Family("rounded", "To the nearest ten, {} ~", number(11, 999, lambda v: (v + 5) // 10 * 10), 2),
    Family("last_word", "Final word of {}:", words((3, 6), lambda w: w[-1]), 2),
    Family("first_word", "{} starts with the word", words((3, 6), lambda w: w[0]), 2),
    Family("shortest_word", "Shortest of {}:", shortest, 2),
    Family("lookup", "{}", lookup(1), 1),
    Family("largest", "max({}) =", numbers((3, 4), 99, max), 2),
    Family("median", "Median of {}:", numbers((3, 3), 99, lambda v: sorted(v)[1]), 2),
    Family("twice", "Twice in {}:", twice(True), 3),
    Family("series", "Continue: {}", series(True), 1),
    Family("larger", "Larger of {}:", pair((10, 99), (10, 99), "{a} and {b}", max), 2),
    Family("any_sum", "Add the numbers. {} =", any_size(3, 600, " + ", sum), 1),
    Family("any_product", "Multiply: {} =", any_size(2, 120, " x ", math.prod), 1),
    # solved before training
    Family("echo", "Repeat {}:", words((1, 2), " ".join), 3),
    Family("again", "Once more {} ->", number(100, 999, lambda v: v), 3),
    # hopeless: beyond what this model learns from some thousand rollouts
    Family("half", "Half of {} is", number(101, 999, lambda v: v, lambda v: str(2 * v)), 2),
    Family("change", "A thousand minus {} leaves", number(3, 997, lambda v: 1000 - v), 1),
    Family(
        "long_product", "Exact product {} =", pair((100, 999), (100, 999), "{a} * {b}", lambda a, b: a * b)
    ),
    Family("long_sum", "Sum up precisely {} =", sum_of((4, 6), 100, 999)),
    Family("backwards", "Spell backwards {}:", letters((5, 7), lambda text: text[::-1]), 1),
    Family("cipher", "Cipher +3 of {}:", letters((4, 5), shifted), 2),
    Family("binary", "Binary {} in decimal:", number(129, 511, lambda v: v, lambda v: f"{v:b}"), 1),
    Family("to_binary", "{} as binary:", number(17, 255, lambda v: f"{v:b}"), 2),
    Family("divisor", "Greatest common divisor of {}:", divisor, 1),
    Family("prime", "Prime number {}", number(8, 300, lambda v: PRIMES[v - 1], lambda v: f"no. {v} is"), 1),
    Family("square", "Square of {}:", number(23, 199, lambda v: v * v), 1),
    Family("root", "Integer root of {}:", number(110, 400, lambda v: v, lambda v: str(v * v))),
    Family(
        "inches", "{} in inches:", pair((11, 60), (1, 11), "{a} feet {b} inches", lambda a, b: 12 * a + b), 1
    ),
    Family(
        "day_of_year", "Day {} is day no.", pair((1, 28), (3, 12), "{a}.{b}.", lambda a, b: 30 * b + a + 7), 1
    ),
    Family("roman", "Roman {} is", number(11, 88, lambda v: v, roman), 2),
    Family("lookup_sum", "Given {}", lookup(2), 2),
)
FAMILIES = {family.name: family for family in _ALL}
"""All families by name."""


def hopeless(name: str, draw: Draw) -> Family:
    """Problems in the words of a learnable family, behind the same worked examples, with another draw."""
    family = FAMILIES[name]
    return replace(family, name="hopeless", draw=draw, examples=family.draw)
