"""How a setting is declared: its help, its limits, and what None stands for."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, get_args

from curro.core.errors import ConfigError

MAX_SEED = 2**32 - 1
"""The largest seed that NumPy accepts."""

_WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


@dataclass(frozen=True)
class SettingSpec:
    """What a dataclass field says of itself besides its default.

    Attributes:
        otherwise: what None stands for, in words.
        least, most: the smallest and the largest value that is allowed.
        above: every allowed value is larger than this, and finite.
        parse: turns the text of the command line into the value, where that is no number and no text.
        annotation: the field's type, which `curro.training.settings.known_settings` knows.
        panel: the heading under which the help lists it, likewise.
    """

    help: str
    otherwise: str = ""
    _: KW_ONLY
    least: float | None = None
    most: float | None = None
    above: float | None = None
    choices: Sequence[str] = ()
    parse: Callable[[str], Any] | None = None
    annotation: Any = None
    panel: str = ""

    @property
    def kind(self) -> Any:
        """The type without `| None`."""
        if isinstance(self.annotation, types.UnionType):
            return next(member for member in get_args(self.annotation) if member is not type(None))
        return self.annotation

    def check(self, name: str, value: Any) -> None:
        """Raises ConfigError where the setting called `name` cannot have this value."""
        if value is None and type(None) in get_args(self.annotation):
            return
        if self.kind in _WORDS and not _is(value, self.kind):
            raise ConfigError(f"{name} must be {_WORDS[self.kind]}, not {value!r:.100}")
        if self.choices and value not in self.choices:
            raise ConfigError(f"{name} must be one of {', '.join(self.choices)}, not {value!r}")
        if self.above is not None and not self.above < value < math.inf:
            raise ConfigError(f"{name} must be a finite number above {self.above:g}, not {value}")
        if self.least is not None and not self.least <= value <= (self.most or math.inf):
            allowed = f"from {self.least:g} to {self.most:.0f}" if self.most else f"{self.least:g} or more"
            raise ConfigError(f"{name} must be {allowed}, not {value}")
        if self.kind in (int, float) and isinstance(value, int) and abs(value) > MAX_SEED:
            raise ConfigError(f"{name} must be {MAX_SEED} at most, not {value!r:.20}")


def setting(default: Any, help: str, otherwise: str = "", **limits: Any) -> Any:
    """A dataclass field with a `SettingSpec`."""
    return field(default=default, metadata={"setting": SettingSpec(help, otherwise, **limits)})


def _is(value: Any, kind: type) -> bool:
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def reward_range_of(ends: Any) -> tuple[float, float]:
    """The range from the command line, LOW,HIGH, or from a file, where it is a list."""
    try:
        low, high = ends.split(",") if isinstance(ends, str) else ends
        return float(low), float(high)
    except (TypeError, ValueError):
        raise ConfigError(f"reward_range must be two numbers, LOW,HIGH, not {ends!r}") from None


def flags_of(values: Mapping[str, Any]) -> list[str]:
    """Settings as options of `curro train`, `--name=value`; None is left out.

    Switches have no value: they are `--name` or `--no-name`.
    """
    flags = []
    for name, value in values.items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            flags.append(f"--{option}" if value else f"--no-{option}")
        elif value is not None:
            text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            flags.append(f"--{option}={text}")
    return flags
