"""The parts of a curriculum as they are written: by name, as text, with options, or as objects."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from curro import registry
from curro.admission.gate import Gate
from curro.advantage.base import Advantage
from curro.allocation.base import Allocation
from curro.errors import ConfigError
from curro.selection.base import Selection

BASES: dict[str, type] = {
    "selection": Selection,
    "advantage": Advantage,
    "admission": Gate,
    "allocation": Allocation,
}


def build_method(kind: str, spec: Any) -> Any:
    """The method of this kind that `spec` names, or is.

    Raises:
        ConfigError: it names none.
    """
    base = BASES[kind]
    method = spec if isinstance(spec, base) else registry.build(kind, spec)
    if not isinstance(method, base):
        raise ConfigError(f"{kind} {spec!r} is not a curro.{base.__name__}: derive its class from that")
    return method


def describe_method(kind: str, spec: Any) -> Any:
    """The spec as JSON gives it back, for a checkpoint to compare."""
    if isinstance(spec, str):
        spec = registry.parse(kind, spec)
    elif isinstance(spec, tuple(BASES.values())):
        options = {name: value for name, value in vars(spec).items() if not name.startswith("_")}
        spec = {"name": f"{type(spec).__module__}:{type(spec).__qualname__}", **options}
    return json.loads(json.dumps(spec, default=lambda value: type(value).__qualname__))


def check_names(config: Mapping[str, Any]) -> None:
    """Refuse a dict of a curriculum's settings that has a name which no curriculum knows, or no selection.

    Raises:
        ConfigError: it has.
    """
    known = (*BASES, "reward_range", "seed")
    for name in config:
        if name not in known:
            raise ConfigError(f"a curriculum has no setting {name!r}; there are: {', '.join(known)}")
    if "selection" not in config:
        raise ConfigError("the curriculum's configuration lacks `selection`: name a method")
