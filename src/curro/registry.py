"""Methods by name: a built-in is a short name for a `module:Class`, and a user's own class needs no more."""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from curro.errors import ConfigError

BUILTIN: dict[str, dict[str, str]] = {
    "selection": {
        "uniform": "curro.selection.uniform:Uniform",
        "prioritized-replay": "curro.selection.prioritized_replay:prioritized_replay",
    },
    "advantage": {
        "group": "curro.advantage.group:GroupRelative",
    },
}


def build(kind: str, spec: str | Mapping[str, Any]) -> Any:
    """The method of this kind that `spec` names.

    Args:
        kind: "selection", "advantage" or "admission".
        spec: a dict with `name` and the method's options, or text: `name`, `name:option=value,...`.
            `name` is a built-in's or `module:Class`. A value without a name goes to the options in
            the order of the signature (`band:0.3,0.7`).

    Raises:
        ConfigError: an unknown name or option, with the right ones; a class that cannot be imported.
    """
    options = dict(parse(kind, spec) if isinstance(spec, str) else spec)
    positional = options.pop("", [])
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise ConfigError(f"{kind} needs a name: one of {', '.join(sorted(BUILTIN[kind]))}, or module:Class")
    return construct(f"{kind} {name!r}", _factory(kind, name), options, positional)


def construct(
    label: str,
    factory: Any,
    options: dict[str, Any],
    positional: Sequence[Any] = (),
    also: Sequence[str] = (),
) -> Any:
    """Call `factory` with options; ConfigError for one that it, or `also`, does not know."""
    signature = inspect.signature(factory)
    known = [p.name for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    if len(positional) > len(known):
        raise ConfigError(f"{label} takes {len(known)} options, not {len(positional)}")
    options = dict(zip(known, positional, strict=False)) | options
    takes_any = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    for option in options:
        if option not in known and not takes_any:
            raise ConfigError(f"{label} has no option {option!r}{_hint(option, [*also, *known])}")
    try:
        return factory(**options)
    except TypeError as error:
        raise ConfigError(f"{label}: {error}") from error


def parse(kind: str, text: str) -> dict[str, Any]:
    """`name:option=value,...` as a dict; values that stand without a name under the key ""."""
    parts = text.split(":", 1 if text.split(":", 1)[0] in BUILTIN[kind] else 2)
    if parts[0] not in BUILTIN[kind] and len(parts) > 1:
        parts[:2] = [":".join(parts[:2])]
    options: dict[str, Any] = {"name": parts[0]}
    for item in parts[1].split(",") if len(parts) > 1 else []:
        name, equals, value = item.partition("=")
        if equals:
            options[name.strip()] = _value(value)
        else:
            options.setdefault("", []).append(_value(item))
    return options


def _value(text: str) -> Any:
    text = text.strip()
    if text.lower() in ("true", "false", "none"):
        return {"true": True, "false": False, "none": None}[text.lower()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            pass
    return text


def _factory(kind: str, name: str) -> Any:
    module, colon, attribute = BUILTIN[kind].get(name, name).partition(":")
    if not colon:
        raise ConfigError(
            f"no {kind} is called {name!r}{_hint(name, BUILTIN[kind])}; your own is module:Class"
        )
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{kind} {name!r} cannot be imported: {error}") from error


def _hint(wrong: str, right: Any) -> str:
    close = difflib.get_close_matches(wrong, right, 1)
    meant = f" (did you mean {close[0]!r}?)" if close else ""
    return f"{meant}; there are: {', '.join(sorted(right)) or 'none'}"
