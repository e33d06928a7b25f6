"""A function of the user's own, named `module:function`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from curro.errors import RewardError
from curro.loading import load_callable
from curro.reward.reward import Row, Score, key


def load(
    spec: str, options: Mapping[str, Any] | None = None
) -> Callable[[Sequence[str], Sequence[Row]], list[Score]]:
    """The batch verifier that calls `function(completion, row, **options)` for every completion.

    The function returns a number, or None for a completion that is not to be scored. The module is looked for
    in the working directory, then among the installed ones.

    Raises:
        ConfigError: the module cannot be imported, or has no such function (the message lists what it has).
    """
    function = load_callable(spec, "reward")
    if options:
        function = partial(function, **options)

    def verify(completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
        return [_call(function, spec, c, row) for c, row in zip(completions, rows, strict=True)]

    return verify


def _call(function: Callable[..., Any], spec: str, completion: str, row: Row) -> Score:
    here = os.getpid()
    try:
        return function(completion, row)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too
        raise RewardError(
            f"reward {spec!r} failed for the prompt {key(row)}: {type(error).__name__}: {error}"
        ) from error
    finally:
        if os.getpid() != here:
            os._exit(0)  # a child that the function forked must not go on as a second trainer
