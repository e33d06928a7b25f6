"""The calls that change a curriculum, by the names under which they are written down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from curro.curriculum import Curriculum
from curro.draws import Draw
from curro.errors import ExhaustedError
from curro.verdicts import Verdict


def _observe_and_select(curriculum: Curriculum, given: dict[str, Any]) -> tuple[Verdict, Draw | None]:
    chosen = {name: given.pop(name) for name in ("n", "step", "rollouts") if name in given}
    verdict = curriculum.observe(**given)
    try:
        return verdict, curriculum.select(**chosen)
    except ExhaustedError:
        return verdict, None


CALLS: dict[str, Callable[[Curriculum, dict[str, Any]], Any]] = {
    "select": lambda curriculum, given: curriculum.select(**given),
    "observe": lambda curriculum, given: curriculum.observe(**given),
    "observe_and_select": _observe_and_select,
    "drop": lambda curriculum, given: curriculum.drop(**given),
}
"""The calls that change a curriculum, by name; each takes the arguments of the method of that name.

`observe_and_select` takes those of both, and gives no draw where fewer prompts are free than were asked for.
"""
