"""The lab under its names: `lab:FAMILY`, and `lab:FAMILY/DIFFICULTY` for its problems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from curro import lab
from curro.lab.families.locks import Locks
from curro.lab.family import Family, Problem
from curro.reward.environments.environment import EPISODE_REWARD

VerifyProblems = Callable[[Sequence[str], Sequence[Problem]], list[float | None]]

DEFAULT_SIZE = 4000


def verify_with(family: Family) -> VerifyProblems:
    """A verifier that gives texts the family's score, and episodes the reward of its environment."""

    def verify(completions: Sequence[str], rows: Sequence[Problem]) -> list[float | None]:
        return [
            row[EPISODE_REWARD] if EPISODE_REWARD in row else family.score(completion, row)
            for completion, row in zip(completions, rows, strict=True)
        ]

    return verify


class Lab:
    """A `curro.core.loading.Provider` of the lab's problems, scores, environments and models.

    Raises:
        ConfigError: from every method, for a family, difficulty or split that there is not.
    """

    def problems(self, name: str, split: str, limit: int | None) -> list[dict[str, Any]]:
        """`limit` problems, 4,000 if None, of FAMILY[/DIFFICULTY]; its splits never overlap.

        Easy problems number at most the family's `easy_problems`.
        """
        family_name, slash, difficulty = name.partition("/")
        options: dict[str, Any] = {"split": split} | ({"difficulty": difficulty} if slash else {})
        size = limit or DEFAULT_SIZE
        family = lab.family(family_name)
        if difficulty == "easy":
            size = min(size, family.easy_problems.get(split, size))
        return family.problems(size, seed=0, **options)

    def verify(self, name: str) -> VerifyProblems:
        return verify_with(lab.family(name.partition("/")[0]))

    def environment(self, name: str) -> Locks | None:
        family = lab.family(name.partition("/")[0])
        return family if isinstance(family, Locks) else None

    def model(self, name: str) -> tuple[Any, Any]:
        return lab.load(name)

    def code(self, name: str) -> list[str]:
        return []
