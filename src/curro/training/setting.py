"""One setting: what it does, which values it takes, and what it is where nothing was said."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Sequence
from dataclasses import Field, dataclass, field
from typing import Any, get_args

from curro.errors import ConfigError

_WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


@dataclass(frozen=True)
class Setting:
    """What a dataclass field says of itself besides its type and default.

    Attributes:
        help: what it does, in full sentences.
        otherwise: what None comes to, in words.
        least: the smallest value that is allowed.
        most: the largest.
        above: every allowed value is larger than this, and finite.
        choices: all values that are allowed.
        parse: turns the text of the command line into the value, where that is no number and no text.
    """

    help: str
    otherwise: str = ""
    least: float | None = None
    most: float | None = None
    above: float | None = None
    choices: Sequence[str] = ()
    parse: Callable[[str], Any] | None = None

    def check(self, name: str, value: Any, annotation: Any) -> None:
        """Raises ConfigError where the setting called `name` cannot have this value."""
        if value is None and type(None) in get_args(annotation):
            return
        kind = plain_type(annotation)
        if kind in _WORDS and not _is(value, kind):
            raise ConfigError(f"{name} must be {_WORDS[kind]}, not {value!r}")
        if self.choices and value not in self.choices:
            raise ConfigError(f"{name} must be one of {', '.join(self.choices)}, not {value!r}")
        if self.above is not None and not self.above < value < math.inf:
            raise ConfigError(f"{name} must be a finite number above {self.above:g}, not {value}")
        if self.least is not None and not self.least <= value <= (self.most or math.inf):
            rest = f"from {self.least:g} to {self.most:.0f}" if self.most else f"{self.least:g} or more"
            raise ConfigError(f"{name} must be {rest}, not {value}")


def setting(default: Any, help: str, otherwise: str = "", **limits: Any) -> Any:
    """A dataclass field with a `Setting`."""
    return field(default=default, metadata={"setting": Setting(help, otherwise, **limits)})


def setting_of(item: Field[Any]) -> Setting:
    """The `Setting` of a dataclass field that `setting` made."""
    return item.metadata["setting"]


def plain_type(annotation: Any) -> Any:
    """The type without `| None`."""
    if isinstance(annotation, types.UnionType):
        return next(one for one in get_args(annotation) if one is not type(None))
    return annotation


def _is(value: Any, kind: type) -> bool:
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)
