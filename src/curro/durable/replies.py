"""What a call to the port gave, as a state that can be written down, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import curro.core.errors
from curro.core.policy import AuxiliarySamples
from curro.core.verdicts import Draw, Verdict

CallReply = Draw | Verdict | tuple[Verdict, Draw | None] | None


class OtherError(RuntimeError):
    """An error that was none of curro's: what kind of error it was, and its words."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.described = {"kind": kind, "words": message}


def pack(reply: CallReply | Exception) -> dict[str, Any]:
    """Nested dicts of arrays and plain values."""
    if reply is None:
        return {}
    if isinstance(reply, OtherError):
        return {"error": reply.described}
    if isinstance(reply, Exception):
        return {"error": {"kind": type(reply).__name__, "words": str(reply)}}
    if isinstance(reply, Draw):
        return {"draw": dict(vars(reply))}
    if isinstance(reply, tuple):
        verdict, draw = reply
        return pack(verdict) | {"draw": {} if draw is None else dict(vars(draw))}
    auxiliary_samples = reply.auxiliary_samples
    packed = {name: value for name, value in vars(reply).items() if name != "auxiliary_samples"}
    return {
        "verdict": packed,
        "auxiliary_samples": {} if auxiliary_samples is None else dict(vars(auxiliary_samples)),
    }


def is_error(frame: bytes) -> bool:
    """Whether these are the bytes of an error that `pack` described."""
    return frame[4:].startswith(b'{"values":{"error":')


def unpack(packed: Mapping[str, Any]) -> CallReply:
    """What `pack` was given; an error is raised, one of curro's own as what it was."""
    if "error" in packed:
        raise error_of(packed["error"])
    draw = Draw(**packed["draw"]) if packed.get("draw") else None
    if "verdict" not in packed:
        return draw
    return (_verdict(packed), draw) if "draw" in packed else _verdict(packed)


def _verdict(packed: Mapping[str, Any]) -> Verdict:
    auxiliary_samples, values = packed["auxiliary_samples"], dict(packed["verdict"])
    # replies packed by version 0.2 have neither
    values.setdefault("mean", np.full(len(values["prompts"]), np.nan))
    values.setdefault("credited", values["advantages"] != 0)
    if not auxiliary_samples:
        return Verdict(**values)
    tokens = {
        name: tuple(tuple(ids) for ids in auxiliary_samples[name])
        for name in ("prompt_ids", "completion_ids")
    }
    return Verdict(**values, auxiliary_samples=AuxiliarySamples(**auxiliary_samples | tokens))


def error_of(described: Mapping[str, str]) -> Exception:
    """The error that `pack` described: one of curro's own, or an `OtherError`."""
    kind = getattr(curro.core.errors, described["kind"], None)
    if isinstance(kind, type) and issubclass(kind, curro.core.errors.CurroError):
        return kind(described["words"])
    return OtherError(described["kind"], described["words"])
