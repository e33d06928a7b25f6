"""What a family of tasks is: problems, a score, worked answers with mistakes, and what training needs."""

from __future__ import annotations

import hashlib
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from curro.core.errors import ConfigError

Split = Literal["train", "test"]
Difficulty = Literal["hard", "easy", "solvable"]
Kind = Literal["hard", "easy", "solvable", "short"]
"""Kind of problem to draw: a difficulty, or `short`, from which half of all demonstrations come."""
Problem = dict[str, Any]


def split_of(prompt: str) -> Split:
    """Whether problems with this prompt are trained on, or held out, as one in five is."""
    return "test" if int(digest_of(prompt)[-8:], 16) % 5 == 0 else "train"


def digest_of(prompt: str) -> str:
    """32 hex digits that stand for a prompt."""
    return hashlib.blake2b(prompt.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Recipe:
    """The settings with which GRPO improves a family's warm model steadily on one core.

    `learning_rate` was chosen by uniform sampling alone; `chosen_by` says how.
    Lengths are in tokens; `max_completion_length` holds the longest right answer and `<eos>`.
    """

    learning_rate: float
    chosen_by: str
    max_completion_length: int
    prompts_per_step: int = 32
    rollouts_per_prompt: int = 8
    warmup_steps: int = 30
    adam_betas: tuple[float, float] = (0.9, 0.99)
    max_grad_norm: float = 1.0
    temperature: float = 1.0
    train_prompts: int = 4000
    held_out_prompts: int = 500
    held_out_samples: int = 4


class Family(ABC):
    """A family of tasks. A problem needs several skills in a row; the warm model has each one unreliably.

    Attributes:
        name: of the family.
        checkpoint: the family whose warm model it trains; "" for its own.
        recipe: what training needs.
        difficulties: of its problems. Some families also have the hard
            problems that practice can make solvable, to evaluate on.
        easy_problems: how many there are at least, by split. Few problems are easy to a model that has each
            skill unreliably: problems of one to three steps that need its best skills.
    """

    name: str
    checkpoint: str = ""
    recipe: Recipe
    difficulties: ClassVar[tuple[str, ...]] = ("hard", "easy")
    easy_problems: ClassVar[dict[str, int]]

    @abstractmethod
    def draw(self, rng: random.Random, kind: Kind) -> Problem:
        """One problem, of either split: `prompt`, `answer` and, where the scorer needs it, `metadata`."""

    @abstractmethod
    def worked(self, row: Problem, rng: random.Random | None = None) -> str:
        """The worked answer; with `rng`, one in which every skill fails at its own rate."""

    @abstractmethod
    def score(self, completion: str, row: Problem) -> float:
        """1.0 if the completion solves the problem, else less, of most families 0.0; no text raises."""

    def problems(
        self, n: int, *, seed: int, difficulty: Difficulty = "hard", split: Split = "train"
    ) -> list[Problem]:
        """`n` problems with different prompts; the same arguments give the same list.

        The splits never overlap, whatever the seeds: a hash of the prompt decides its split.

        Returns:
            rows with `prompt`, `answer`, `key` (unique text) and, for some families, `metadata`.

        Raises:
            ConfigError: an unknown difficulty or split, or more problems than the family has.
        """
        for field, value, allowed in (
            ("difficulty", difficulty, self.difficulties),
            ("split", split, ("train", "test")),
        ):
            if value not in allowed:
                raise ConfigError(f"{field} {value!r} is not one of {', '.join(allowed)}")
        rng = random.Random(f"{self.name}/{difficulty}/{split}/{seed}")
        rows: dict[str, Problem] = {}
        for _ in range(50 * n + 1000):
            if len(rows) == n:
                break
            row = self.draw(rng, difficulty)
            if split_of(row["prompt"]) == split:
                rows.setdefault(row["prompt"], {**row, "key": f"{self.name}-{digest_of(row['prompt'])[:16]}"})
        if len(rows) < n:
            raise ConfigError(f"{self.name} ({difficulty}, {split}) has not as many as {n} problems")
        return list(rows.values())


def solvable_texts(error_rates: Mapping[str, float], share: float) -> Iterator[list[str]]:
    """The texts that so large a share of demonstrations solves, of 1 letter, of 2, and so on.

    Args:
        error_rates: how often a demonstration gets each letter wrong.
    """
    texts = [("", 1.0)]
    while texts:
        texts = [
            (text + letter, rate * (1 - error_rate))
            for text, rate in texts
            for letter, error_rate in error_rates.items()
            if rate * (1 - error_rate) >= share
        ]
        yield [text for text, _ in texts]
