"""BFCL's simulated APIs: instances of one conversation, and calls of their methods by name."""

from __future__ import annotations

import decimal
import importlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from curro.errors import ConfigError
from curro.reward.calls import Call

MISSING = (
    "BFCL's environment needs bfcl-eval, which asks for old versions of packages that are not needed "
    "here, so leave them out: pip install --no-deps bfcl-eval mpmath"
)

_FOLDER = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
MODULES = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}
"""Of BFCL's API classes: the name of the module, and of the file with the functions' descriptions."""

_STATELESS = ("MathAPI",)
_LARGEST = {"precision": 1000, "exponent": 1000, "base": 10**6}
"""Of these arguments of the calculator: it computes with as many digits as it is told to."""


class Apis:
    """The instances that a conversation acts on, with a state of their own.

    Args:
        classes: names of BFCL's API classes.
        config: the initial state of each, by its name.
        long_context: whether they are filled with text that is beside the point.

    Raises:
        ConfigError: bfcl-eval is not installed, or has no such class.
    """

    def __init__(self, classes: Sequence[str], config: Mapping[str, Any], *, long_context: bool) -> None:
        self.instances = {name: _class(name)() for name in classes}
        for name, instance in self.instances.items():
            if name not in _STATELESS:
                instance._load_scenario(deepcopy(config.get(name, {})), long_context=long_context)
        self._methods = {
            name: method
            for instance in self.instances.values()
            for name, method in inspect.getmembers(instance, predicate=inspect.ismethod)
            if not name.startswith("_")
        }

    def call(self, call: Call) -> str:
        """What a method gives, as text, or why there is nothing: no such method, or it raised."""
        name = call.name.rpartition(".")[2]
        method = self._methods.get(name)
        if method is None:
            return f"Error during execution: name {call.name!r} is not defined"
        try:
            _check_size(method, call)
            return _text(_bounded(method, call))
        except Exception as error:
            return f"Error during execution: {error}"

    def differs_from(self, other: Apis) -> bool:
        """Whether a public attribute of the other's instances has another value here."""
        return any(
            getattr(self.instances[name], attribute) != value
            for name, instance in other.instances.items()
            for attribute, value in vars(instance).items()
            if not attribute.startswith("_")
        )


def _class(name: str) -> Any:
    if name not in MODULES:
        raise ConfigError(f"BFCL has no API {name!r}; there are: {', '.join(MODULES)}")
    try:
        return getattr(importlib.import_module(f"{_FOLDER}.{MODULES[name]}"), name)
    except ImportError as error:
        raise ConfigError(f"{MISSING} ({error})") from None


def _check_size(method: Callable[..., Any], call: Call) -> None:
    """Raises ValueError for a number with which the calculator would not end."""
    if type(method.__self__).__name__ != "MathAPI":  # type: ignore[attr-defined]
        return
    arguments = inspect.signature(method).bind(*call.positional, **call.named).arguments
    for name, largest in _LARGEST.items():
        value = arguments.get(name)
        if isinstance(value, int | float) and abs(value) > largest:
            raise ValueError(f"{name} is larger than {largest}")


def _bounded(method: Callable[..., Any], call: Call) -> Any:
    """Call the method; it changes the precision of no other arithmetic in this process."""
    with decimal.localcontext():
        if type(method.__self__).__name__ != "MathAPI":  # type: ignore[attr-defined]
            return method(*call.positional, **call.named)
        import mpmath

        with mpmath.workdps(15):
            return method(*call.positional, **call.named)


def _text(result: Any) -> str:
    if isinstance(result, dict):
        try:
            return json.dumps(result)
        except (TypeError, ValueError):
            return str(result)
    return str(result)
