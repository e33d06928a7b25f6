"""Columns that tell a reward a completion's length and whether it was cut."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from curro.core.errors import RewardError
from curro.data.raw import Row
from curro.reward.reward import key

TOKENS = "completion_tokens"
"""How many tokens the completion has, its end of sequence among them."""

CUT = "completion_cut"
"""Whether the limit of length cut the completion, so that it has no end of sequence."""


def with_facts(row: Row, ids: Sequence[int], ends: Collection[int]) -> dict[str, Any]:
    """The row with the columns `TOKENS` and `CUT` of its completion."""
    return {**row, TOKENS: len(ids), CUT: not ids or ids[-1] not in ends}


_FACTS = {TOKENS: "how many tokens its completion has", CUT: "whether its completion was cut"}


def fact(reward: str, row: Row, column: str) -> Any:
    """What the row has in the column `TOKENS` or `CUT`.

    Raises:
        RewardError: it has no such column.
    """
    if column not in row:
        raise RewardError(
            f"the reward {reward!r} must know {_FACTS[column]}, and the row of the prompt {key(row)} "
            f"has no {column!r}: give `trl_reward` its `ends`, take a server that returns token ids, or add "
            "it to the row in a loop of your own"
        )
    return row[column]
