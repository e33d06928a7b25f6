"""A function of the user's own, named `module:function`."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from curro.errors import ConfigError, RewardError
from curro.messages import did_you_mean
from curro.reward.reward import Row, Score, key


def load(spec: str) -> Callable[[Sequence[str], Sequence[Row]], list[Score]]:
    """The batch verifier that calls `function(completion, row)` for every completion.

    The function returns a number, or None for a completion that is not to be scored. The module is looked for
    in the working directory, then among the installed ones.

    Raises:
        ConfigError: the module cannot be imported, or has no such function (the message lists its functions).
    """
    function = function_of(spec, "reward")

    def verify(completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
        return [_call(function, spec, c, row) for c, row in zip(completions, rows, strict=True)]

    return verify


def function_of(spec: str, what: str) -> Callable[..., Any]:
    """The function, or class, that `module:function` names; `what` it is for stands in the messages.

    Raises:
        ConfigError: the module cannot be imported, or has no such function (the message lists its functions).
    """
    module_name, _, function_name = spec.replace(".py:", ":").partition(":")
    module = _module(module_name, spec, what)
    function = getattr(module, function_name, None)
    if not callable(function):
        there = [name for name, value in vars(module).items() if _own(name, value)]
        raise ConfigError(
            f"the module {module_name!r} has no function {function_name!r}"
            f"{did_you_mean(function_name, there)}; it has: {', '.join(there) or 'none'}"
        )
    return function


def _module(name: str, spec: str, what: str) -> Any:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ConfigError(
                f"{what} {spec!r}: there is no module {error.name!r} in {here} nor installed"
            ) from None
        raise ConfigError(f"{what} {spec!r}: importing {name!r} failed: {error}") from error
    except Exception as error:  # whatever the user's module does wrong as it is imported
        raise ConfigError(
            f"{what} {spec!r}: importing {name!r} failed: {type(error).__name__}: {error}"
        ) from error


def _own(name: str, value: Any) -> bool:
    return callable(value) and not name.startswith("_") and not isinstance(value, type)


def _call(function: Callable[..., Any], spec: str, completion: str, row: Row) -> Score:
    try:
        return function(completion, row)
    except Exception as error:
        raise RewardError(
            f"reward {spec!r} failed for the prompt {key(row)}: {type(error).__name__}: {error}"
        ) from error
