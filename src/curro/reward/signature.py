"""How a reward function of the user's own wants to be called: curro's way, or TRL's.

Worker processes import this module, so it imports nothing heavy.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from typing import Any

from curro.core.errors import ConfigError
from curro.core.loading import load_callable

_NO_ROWS = {
    "answer", "answers", "truth", "gt", "solution", "label", "target", "reference", "expected", "gold",
    "completion", "response", "output",
}  # fmt: skip
"""Words in the name of an argument that takes an answer or a completion, and no row."""


def load_reward(spec: str, options: Mapping[str, Any]) -> Callable[..., Any]:
    """The function of a completion and its row that `module:function` is, or is made to be, with its options.

    A function as TRL calls it, with an argument `completions`, gets lists of one item: the completion, the
    prompt and each column of the row that it names, or all of them if it takes any keyword.

    Raises:
        ConfigError: no such function, or one that cannot be called in either way.
    """
    function = load_callable(spec, "reward")
    if inspect.isclass(function):
        raise ConfigError(f"reward {spec!r} is a class: name a function, or an object of the class")
    function = _awaited(function)
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # a function of C says nothing
        return partial(function, **options)
    if "completions" in parameters:
        return partial(AsRows(function), **options)
    try:
        bound = inspect.signature(function).bind("", {}, **options)
    except TypeError as error:
        raise ConfigError(
            f"reward {spec!r}: a reward is called as f(completion, row), or as TRL calls it with "
            f"f(completions, **columns); {spec.rpartition(':')[2]}{inspect.signature(function)} is neither: "
            f"{error}"
        ) from None
    second = list(bound.arguments)[1:2]
    if second and not _NO_ROWS.isdisjoint(words := second[0].lower().split("_")) and "row" not in words:
        raise ConfigError(
            f"reward {spec!r}: the second argument of a reward is the prompt's row, a dict, and is called "
            f"{second[0]!r} here: write f(completion, row) and read row['answer']"
        )
    return partial(function, **options)


def _awaited(function: Callable[..., Any]) -> Callable[..., Any]:
    """An asynchronous function, of which TRL takes some, as one that returns what it awaits."""
    if not (inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)):
        return function
    return wraps(function)(lambda *args, **options: result_of(function(*args, **options)))


def result_of(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine returns, also for who is called by an event loop, as everything in a notebook is."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


class AsRows:
    """A reward function of TRL's form, called for one completion at a time."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.signature = inspect.signature(function)
        parameters = self.signature.parameters
        takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
        self.names = None if takes_any else set(parameters)

    def __call__(self, completion: str, row: Mapping[str, Any], **options: Any) -> Any:
        is_chat = isinstance(row.get("prompt"), list)
        completions = [[{"role": "assistant", "content": completion}]] if is_chat else [completion]
        columns = {name: [value] for name, value in row.items() if name != "prompt"}
        # a column of the data that is called `completions` is not what the model wrote
        columns |= {"prompts": [row.get("prompt")], "completions": completions}
        if self.names is not None:
            columns = {name: value for name, value in columns.items() if name in self.names}
        try:
            self.signature.bind(**columns, **options)
        except TypeError as error:
            raise TypeError(f"{error}; the row has the columns {', '.join(row)}") from None
        scores = list(self.function(**columns, **options))
        if len(scores) != 1:
            raise ValueError(f"it returned {len(scores)} scores for 1 completion")
        return scores[0]
