"""What a reward can be told of a completion besides its text, in columns added to its prompt's row."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from curro.errors import RewardError
from curro.reward.reward import Row, key

TOKENS = "completion_tokens"
"""How many tokens the completion has, its end of sequence among them."""

CUT = "completion_cut"
"""Whether the limit of length cut the completion, so that it has no end of sequence."""


def with_facts(row: Row, ids: Sequence[int], ends: Collection[int]) -> dict[str, Any]:
    """The row with what the completion's tokens tell.

    Args:
        ids: the completion's tokens without padding.
        ends: the tokens that end a sequence.
    """
    return {**row, TOKENS: len(ids), CUT: not ids or ids[-1] not in ends}


def token_count(reward: str, row: Row) -> int:
    """The completion's number of tokens.

    Raises:
        RewardError: the row does not tell.
    """
    return _fact(reward, row, TOKENS, "how many tokens its completion has")


def is_cut(reward: str, row: Row) -> bool:
    """Whether the completion was cut at the limit of length.

    Raises:
        RewardError: the row does not tell.
    """
    return _fact(reward, row, CUT, "whether its completion was cut")


def _fact(reward: str, row: Row, column: str, what: str) -> Any:
    if column not in row:
        raise RewardError(
            f"the reward {reward!r} must know {what}, and the row of the prompt {key(row)} "
            f"has no {column!r}: whoever calls the reward adds it to the row"
        )
    return row[column]
