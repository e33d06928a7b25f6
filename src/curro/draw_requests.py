"""What a host may ask of `Curriculum.select`: how many prompts, for which step, with how many rollouts."""

from __future__ import annotations

import operator
from typing import Any

from curro.allocation.base import Allocation
from curro.errors import ConfigError

LAST_STEP = 2**31 - 2
"""The table keeps steps as int32, and -1 for none."""

_LARGEST = 2**62


def read_request(n: Any, step: Any, rollouts: Any, *, latest: int) -> tuple[int, int, int | None]:
    """The three as whole numbers; `rollouts` may be None.

    Args:
        latest: the step of the request before.

    Raises:
        ConfigError: something is no whole number, n < 1, or the step goes back or is beyond `LAST_STEP`.
    """
    n, step = _whole("n", n), _whole("step", step)
    rollouts = None if rollouts is None else _whole("rollouts", rollouts)
    if n < 1:
        raise ConfigError(f"select needs n >= 1, not {n}")
    if step < latest:
        raise ConfigError(f"step {step} is before step {latest}: report the training step, which only grows")
    if step > LAST_STEP:
        raise ConfigError(f"step {step} is beyond {LAST_STEP}, the last step that can be counted")
    return n, step, rollouts


def check_budget(n: int, rollouts: int | None, allocation: Allocation, *, is_required: bool) -> None:
    """Refuse a budget of rollouts that the allocation does not divide, and a missing one.

    Args:
        is_required: whether the allocation is the user's, so that a host has to pass the budget.

    Raises:
        ConfigError: the budget is missing, or cannot be divided between n prompts.
    """
    if rollouts is None:
        if is_required and allocation.needs_budget:
            raise ConfigError(
                "the curriculum has an allocation and was asked for no rollouts: pass the budget of these "
                "prompts as `rollouts`, or leave the allocation out with a host that does not"
            )
        return
    if not allocation.needs_budget:
        raise ConfigError(f"{type(allocation).__name__} divides no budget: leave `rollouts` out")
    allocation.check(n, rollouts)


def _whole(name: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = _LARGEST
    if not abs(number) < _LARGEST:
        raise ConfigError(f"select needs a whole number as {name}, not {value!r:.50}")
    return number
