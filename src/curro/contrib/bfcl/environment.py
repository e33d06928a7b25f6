"""An episode of BFCL: requests one after the other, each answered by calls until there are no more."""

from __future__ import annotations

import contextlib
import decimal
import importlib
import inspect
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from curro.contrib.bfcl.call_texts import Call, parse_calls
from curro.core.errors import ConfigError
from curro.data.raw import Row
from curro.reward.reward import key

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
"""The module of each of BFCL's API classes, and the file with the descriptions of its functions."""

_STATELESS = ("MathAPI",)
_LARGEST = {"precision": 1000, "exponent": 1000, "base": 10**6}
"""Limits of the calculator's arguments, which computes with as many digits as it is told to."""


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


def _bounded(method: Callable[..., Any], call: Call) -> Any:
    """Call the method; it changes the precision of no other arithmetic in this process.

    Raises:
        ValueError: a number with which the calculator would not end.
    """
    if type(method.__self__).__name__ != "MathAPI":  # type: ignore[attr-defined]
        return method(*call.positional, **call.named)
    import mpmath

    arguments = inspect.signature(method).bind(*call.positional, **call.named).arguments
    for name, largest in _LARGEST.items():
        value = arguments.get(name)
        if isinstance(value, int | float) and abs(value) > largest:
            raise ValueError(f"{name} is larger than {largest}")
    with decimal.localcontext(), mpmath.workdps(15):
        return method(*call.positional, **call.named)


def _text(result: Any) -> str:
    if isinstance(result, dict):
        with contextlib.suppress(TypeError, ValueError):
            return json.dumps(result)
    return str(result)


STEPS = 20
"""Actions of one turn, at most, as BFCL has it; more end the episode."""


class Bfcl:
    """Function calling in several turns, on BFCL's data and simulated APIs (`bfcl-eval`).

    An action that is a list of calls is executed, and the observation is what each call gave. An action
    without calls ends the turn: the observation is the next request. A turn is right by BFCL's rules: called
    on fresh instances, the expected calls leave the same state, and everything that they gave was given to
    the model too, in this turn or before.

    The model's text is never evaluated: calls are read as syntax with literal arguments
    (`curro.contrib.bfcl.function_calls`), and dispatched by name to the public methods of the episode's own
    instances.

    Args:
        partial: the reward is the share of turns that are right, instead of 1.0 for all and else 0.0.
        turns: actions of an episode, at most.
        turn_tokens: tokens of an action, at most.
    """

    def __init__(self, partial: bool = False, turns: int = 40, turn_tokens: int = 512) -> None:
        self.partial, self.turns, self.turn_tokens = partial, turns, turn_tokens

    def start(self, row: Row, seed: int) -> BfclEpisode:
        """A conversation from its beginning.

        Raises:
            ConfigError: the row has no `task` as `curro.contrib.bfcl.tasks` makes them, or bfcl-eval is
                not installed.
        """
        try:
            task = json.loads(row["task"])
            return BfclEpisode(task, partial=self.partial)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(
                f"the prompt {key(row)} is no task of BFCL's ({error!r}): use --data bfcl:base"
            ) from None


class BfclEpisode:
    """The state of one conversation.

    Attributes:
        right: for each turn that is over, whether it was right.
    """

    def __init__(self, task: Mapping[str, Any], *, partial: bool) -> None:
        self.requests: Sequence[str] = task["requests"]
        self.answer = [[_parse_call(text) for text in turn] for turn in task["answer"]]
        self.partial = partial
        self.apis, self.expected = (
            Apis(task["classes"], task["config"], long_context=task["long_context"]) for _ in range(2)
        )
        self.right: list[bool] = []
        self.results: list[str] = []
        self.steps = 0
        self.is_over = False

    def step(self, action: str) -> str | None:
        calls = parse_calls(action)
        if calls:
            self.steps += 1
            results = [self.apis.call(call) for call in calls]
            self.results += results
            if self.steps > STEPS:
                self.is_over = True
                return None
            return json.dumps(results, ensure_ascii=False)
        self._end_turn()
        if len(self.right) == len(self.answer):
            self.is_over = True
            return None
        return self.requests[len(self.right)]

    def reward(self) -> float:
        """All turns right, or their share; the turn under way, if the episode was cut off, is not right."""
        share = sum(self.right) / len(self.answer)
        return share if self.partial else float(share == 1.0)

    def _end_turn(self) -> None:
        expected = [self.expected.call(call) for call in self.answer[len(self.right)]]
        missing = Counter(expected) - Counter(self.results)
        self.right.append(
            not expected or (self.steps > 0 and not self.apis.differs_from(self.expected) and not missing)
        )
        self.steps = 0


def _parse_call(text: str) -> Call:
    calls = parse_calls(text)
    if calls is None or len(calls) != 1:
        raise ValueError(f"{text!r:.80} is no call")
    return calls[0]
