"""What a curriculum is made of: how its parts are named, built, and compared with a checkpoint's."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from curro.core import registry
from curro.core.bases import Advantage, Allocation, Gate, Predictor, Selection
from curro.core.errors import CheckpointError, ConfigError

BASES: dict[str, type] = {
    "selection": Selection,
    "advantage": Advantage,
    "admission": Gate,
    "allocation": Allocation,
}
"""The parts of a curriculum, by the argument that names them, and the class that each derives from."""


SETTINGS = (*BASES, "reward_range", "signal", "source_weights", "seed")
"""The names of a curriculum's settings: the arguments of `Curriculum` but the prompts."""


def check_names(config: Mapping[str, Any]) -> None:
    """Refuse settings of a curriculum that have a name which no curriculum knows, or no selection."""
    if not isinstance(config, Mapping):
        raise ConfigError(f"the curriculum's configuration is settings by their names, not {config!r:.80}")
    for name in config:
        if name not in SETTINGS:
            raise ConfigError(f"a curriculum has no setting {name!r}; there are: {', '.join(SETTINGS)}")
    if "selection" not in config:
        raise ConfigError("the curriculum's configuration lacks `selection`: name a method")


def build_part(part: str, spec: Any) -> Any:
    """The method that `spec` names, or is."""
    base = BASES[part]
    if isinstance(spec, type):
        raise ConfigError(
            f"{part} {spec.__qualname__} is a class: pass an object of it, {spec.__qualname__}()"
        )
    is_plain = spec is None or isinstance(spec, str | Mapping | float | int | Sequence)
    method = registry.build(part, spec) if is_plain else spec
    if not isinstance(method, base):
        raise ConfigError(f"{part} {spec!r:.100} is not a curro.{base.__name__}: derive its class from that")
    if isinstance(method, Selection) and type(method).select is Selection.select:
        raise ConfigError(
            f"{part} {type(method).__qualname__} has no method `select`: define select(self, n, step), which "
            "returns a curro.Choice"
        )
    return method


SUM = "sum"
"""The signal that is the trained reward itself."""


def read_signal(signal: Any) -> tuple[str, ...]:
    """The names of the parts that are the signal; empty for None and "sum", the trained reward."""
    names = signal.split("+") if isinstance(signal, str) else [] if signal is None else signal
    if isinstance(names, Sequence) and all(isinstance(name, str) and name.strip() for name in names):
        parts = tuple(name.strip() for name in names)
        if parts == (SUM,) or signal is None:
            return ()
        if parts and len(set(parts)) == len(parts) and SUM not in parts:
            return parts
    raise ConfigError(
        f"signal names parts of the reward, as math or math+code, or is {SUM}, the trained reward; "
        f"not {signal!r}"
    )


def describe_signal(parts: Sequence[str]) -> str:
    """The sentence in which a host says which signal `Curriculum.default_signal` has chosen."""
    return (
        f"prompts are ranked by {' + '.join(parts)}, the part of the reward that verifies the answer; "
        f"signal={SUM} ranks them by the whole reward"
    )


def describe_part(part: str, spec: Any) -> Any:
    """The spec of a part as JSON gives it back: a dict of `name` and options, for a checkpoint to compare."""
    if isinstance(spec, str):
        spec = registry.parse(part, spec)
    elif isinstance(spec, tuple(BASES.values())):
        spec = _describe_object(spec)
    return json.loads(json.dumps(spec, default=_describe_object))


def _describe_object(value: Any) -> Any:
    """A method that was passed as an object: its class, and the arguments that it keeps under their names."""
    if isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, (*BASES.values(), Predictor)):
        return type(value).__qualname__
    if hasattr(value, "built_from"):
        return value.built_from
    names = inspect.signature(type(value)).parameters
    options = {name: vars(value)[name] for name in names if name in vars(value)}
    return {"name": f"{type(value).__module__}:{type(value).__qualname__}", **options}


def check_configuration(saved: Any, here: Mapping[str, Any]) -> None:
    """Compare the configuration in a checkpoint with the configuration of the curriculum that is to load it.

    Raises:
        CheckpointError: names the first setting or option that differs, with both values.
    """
    if not isinstance(saved, Mapping):
        saved = {"configuration": saved}
    for setting in {**here, **saved}:
        earlier: Any = saved.get(setting)
        value: Any = here.get(setting)
        if earlier == value:
            continue
        are_methods = isinstance(earlier, Mapping) and isinstance(value, Mapping)
        if are_methods and earlier.get("name") == value.get("name") and "" not in {**earlier, **value}:
            option = next(name for name in {**value, **earlier} if earlier.get(name) != value.get(name))
            setting = f"{setting} option {option!r}"
            earlier, value = earlier.get(option), value.get(option)
        raise CheckpointError(
            f"the checkpoint is of another configuration: its {setting} is {earlier!r:.300}, this "
            f"curriculum's is {value!r:.300}; resume with what saved it, or start a new run"
        )
