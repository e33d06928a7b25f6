"""Draws and verdicts as a state that `curro.checkpoint` can write, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from curro.curriculum import Draw, Verdict
from curro.lessons import Lessons

Reply = Draw | Verdict | None


def pack(reply: Reply) -> dict[str, Any]:
    """Nested dicts of arrays and plain values."""
    if reply is None:
        return {}
    if isinstance(reply, Draw):
        return {"draw": dict(vars(reply))}
    lessons = reply.lessons
    packed = {name: value for name, value in vars(reply).items() if name != "lessons"}
    return {"verdict": packed, "lessons": {} if lessons is None else dict(vars(lessons))}


def unpack(packed: Mapping[str, Any]) -> Reply:
    """What `pack` was given."""
    if "draw" in packed:
        return Draw(**packed["draw"])
    if "verdict" not in packed:
        return None
    lessons = packed["lessons"]
    if not lessons:
        return Verdict(**packed["verdict"])
    tokens = {name: tuple(tuple(ids) for ids in lessons[name]) for name in ("prompt_ids", "completion_ids")}
    return Verdict(**packed["verdict"], lessons=Lessons(**lessons | tokens))
