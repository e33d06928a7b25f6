"""The latest reply to every client, so that a call that is repeated gets it once more."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from curro.errors import ConfigError

KEPT = 10_000
"""Clients whose latest reply is kept; beyond that, the one that has been silent longest is forgotten."""


class _Latest(NamedTuple):
    number: int
    asked: int
    reply: bytes


class LatestReplies:
    """By client, the number of its latest call, a checksum of what it asked, and the reply."""

    def __init__(self) -> None:
        self._of: dict[str, _Latest] = {}

    def repeated(self, client: str, number: int, asked: bytes) -> bytes | None:
        """The reply, if this is the client's latest call once more; None for a new call.

        Raises:
            ConfigError: a number before the latest, or the latest with another question.
        """
        latest = self._of.get(client)
        if latest is None or number > latest.number:
            return None
        if number < latest.number or zlib.crc32(asked) != latest.asked:
            raise ConfigError(
                f"call {number} of the client {client!r:.80} was another one, and its latest is "
                f"{latest.number}: count the calls of a client up, and give each thread a client of its own"
            )
        return latest.reply

    def has(self, client: str, number: int) -> bool:
        """Whether the client's latest call has this number, or a later one."""
        return client in self._of and number <= self._of[client].number

    def keep(self, client: str, number: int, asked: bytes, reply: bytes) -> None:
        """Note the reply to the client's call."""
        self._of.pop(client, None)
        self._of[client] = _Latest(number, zlib.crc32(asked), reply)
        if len(self._of) > KEPT:
            del self._of[next(iter(self._of))]

    def state_dict(self) -> dict[str, Any]:
        """The replies one after the other, and of each its client, number, checksum and length."""
        rows = [[client, one.number, one.asked, len(one.reply)] for client, one in self._of.items()]
        together = b"".join(one.reply for one in self._of.values())
        return {"rows": rows, "replies": np.frombuffer(together, np.uint8)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore `state_dict`."""
        together, start = state["replies"].tobytes(), 0
        self._of = {}
        for client, number, asked, length in state["rows"]:
            self._of[client] = _Latest(number, asked, together[start : start + length])
            start += length
