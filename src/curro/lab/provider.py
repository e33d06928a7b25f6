"""The lab under its names: `lab:FAMILY`, and `lab:FAMILY/DIFFICULTY` for its problems."""

from __future__ import annotations

from typing import Any

from curro import lab
from curro.lab.sampling import EpisodeFamily, VerifyProblems, verify_with

DEFAULT_SIZE = 4000


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

    def environment(self, name: str) -> EpisodeFamily | None:
        family = lab.family(name.partition("/")[0])
        return family if isinstance(family, EpisodeFamily) else None

    def model(self, name: str) -> tuple[Any, Any]:
        return lab.load(name)

    def code(self, name: str) -> list[str]:
        return []
