"""Rows of the lab's generated tasks."""

from __future__ import annotations

from typing import Any

from curro.data.errors import DataError
from curro.data.raw import RawRow, Rows
from curro.errors import ConfigError

DEFAULT_SIZE = 4000


def lab_family(source: str) -> str | None:
    """The family that `lab:NAME[/DIFFICULTY]` names; None for another source."""
    return source.removeprefix("lab:").partition("/")[0] if source.startswith("lab:") else None


def read(name: str, split: str, limit: int | None) -> Rows:
    """`limit` problems, 4,000 if None, of the lab family `NAME[/DIFFICULTY]`; its splits never overlap.

    Of easy problems there are no more than the family's `easy_problems`.

    Raises:
        DataError: no such family, difficulty or split, or more problems than the family has.
    """
    from curro import lab

    family_name, slash, difficulty = name.partition("/")
    options: dict[str, Any] = {"split": split} | ({"difficulty": difficulty} if slash else {})
    size = limit or DEFAULT_SIZE
    try:
        family = lab.family(family_name)
        if difficulty == "easy":
            size = min(size, family.easy_problems.get(split, size))
        problems = family.problems(size, seed=0, **options)
    except ConfigError as error:
        raise DataError(f"lab:{name}: {error}") from error
    for number, row in enumerate(problems):
        yield RawRow(f"lab:{name}", f", problem {number}", row)
