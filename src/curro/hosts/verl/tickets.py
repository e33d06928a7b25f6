"""Names of groups in verl's queue: each carries its ticket, so that it is found again after a resume."""

from __future__ import annotations

_PREFIX = "ticket-"


def uid_of(ticket: int) -> str:
    """The `uid` of the group of a ticket; verl splits keys at underscores, so it has none."""
    return f"{_PREFIX}{ticket}"


def ticket_of(uid: str) -> int:
    """The ticket of a group by its `uid`."""
    return int(uid.removeprefix(_PREFIX))


def parts_of(key: str) -> tuple[str, int, int]:
    """(uid, session, output) of a trajectory's key."""
    uid, session, output = key.rsplit("_", 2)
    return uid, int(session), int(output)
