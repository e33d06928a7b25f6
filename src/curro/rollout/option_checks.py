"""Options of a fill from an engine that no fill could use."""

from __future__ import annotations

import math

from curro.errors import ConfigError


def check_from(lowest: int, **options: float) -> None:
    """Refuse numbers below the lowest one, and NaN.

    Raises:
        ConfigError: names the option.
    """
    for name, value in options.items():
        if not value >= lowest:
            raise ConfigError(f"{name} is a number from {lowest}, not {value}")


def check_seconds(**options: float | None) -> None:
    """Refuse times that are not above 0; None stands for no limit.

    Raises:
        ConfigError: names the option.
    """
    for name, seconds in options.items():
        if seconds is not None and not seconds > 0:
            raise ConfigError(f"{name} is a number of seconds above 0, not {seconds}")


def check_least_rollouts(least: int | None, rollouts_per_prompt: int) -> None:
    """Refuse a group that needs more good rollouts than it has.

    Raises:
        ConfigError: says how many it has.
    """
    check_from(1, least_rollouts=least or 1)
    if least is not None and least > rollouts_per_prompt:
        raise ConfigError(f"least_rollouts is at most {rollouts_per_prompt}, not {least}")


def check_ends(*, repeats: bool, limit: float, max_seconds: float) -> None:
    """Refuse a fill that might not end.

    Raises:
        ConfigError: prompts repeat, and there is neither a limit nor a time.
    """
    if repeats and math.isinf(limit) and math.isinf(max_seconds):
        raise ConfigError(
            "a selection that repeats prompts never runs out of them: set max_seconds or the fill's "
            "limit, or a fill whose groups are all rejected would not end"
        )
