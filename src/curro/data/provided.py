"""Rows of the collections that come with curro."""

from __future__ import annotations

from curro.data.errors import DataError
from curro.data.raw import RawRow, Rows
from curro.errors import ConfigError
from curro.providers import Provider


def lab_family(source: str) -> str | None:
    """The family that `lab:NAME[/DIFFICULTY]` names; None for another source."""
    return source.removeprefix("lab:").partition("/")[0] if source.startswith("lab:") else None


def read(source: str, provider: Provider, name: str, split: str, limit: int | None) -> Rows:
    """The provider's problems of that name.

    Raises:
        DataError: no such name or split, or fewer problems than `limit`.
    """
    try:
        problems = provider.problems(name, split, limit)
    except ConfigError as error:
        raise DataError(f"{source}: {error}") from error
    for number, row in enumerate(problems):
        yield RawRow(source, f", problem {number}", row)
