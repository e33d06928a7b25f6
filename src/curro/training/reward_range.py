"""The reward range as text and as a list."""

from __future__ import annotations

from typing import Any

from curro.errors import ConfigError


def parse_reward_range(text: str) -> tuple[float, float]:
    """LOW,HIGH as numbers.

    Raises:
        ConfigError: anything else.
    """
    try:
        low, high = (float(end) for end in text.split(","))
    except ValueError:
        raise ConfigError(f"reward_range must be two numbers, LOW,HIGH, not {text!r}") from None
    return low, high


def reward_range_of(ends: Any) -> tuple[float, float]:
    """The range of a file, where it is a list.

    Raises:
        ConfigError: anything else than two numbers.
    """
    try:
        low, high = ends
        return float(low), float(high)
    except (TypeError, ValueError):
        raise ConfigError(f"reward_range must be two numbers, not {ends!r}") from None
