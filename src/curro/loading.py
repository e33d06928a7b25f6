"""Objects named by text as `module:name`: a user's own classes and functions, and curro's by entry string."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from curro.errors import ConfigError
from curro.messages import did_you_mean


def load_object(spec: str, what: str) -> Any:
    """What `module:name` (or `module.py:name`) names.

    The module is looked for in the working directory, then among the installed ones.

    Args:
        what: it is for, at the start of messages: "reward", "selection 'mine:Mine'".

    Raises:
        ConfigError: there is no such module, importing it fails, or it has no such name (the message lists
            the functions and classes that it has).
    """
    module_name, _, name = spec.replace(".py:", ":").partition(":")
    module = _import(module_name, f"{what} {spec!r}")
    if not hasattr(module, name):
        there = [
            key
            for key, value in vars(module).items()
            if callable(value) and not key.startswith("_") and _is_own(value, module_name)
        ]
        raise ConfigError(
            f"{what} {spec!r}: the module {module_name!r} has no {name!r}{did_you_mean(name, there)}; "
            f"it has: {', '.join(there) or 'none'}"
        )
    return getattr(module, name)


def load_callable(spec: str, what: str) -> Any:
    """As `load_object`, for a function or a class.

    Raises:
        ConfigError: as `load_object`, or what it names cannot be called.
    """
    found = load_object(spec, what)
    if not callable(found):
        raise ConfigError(f"{what} {spec!r} is {found!r:.50}, neither a function nor a class")
    return found


def _import(name: str, label: str) -> Any:
    here = os.getcwd()
    if here not in sys.path and not name.startswith("curro."):
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ConfigError(f"{label}: there is no module {error.name!r} in {here} nor installed") from None
        raise ConfigError(f"{label}: importing {name!r} failed: {error}") from error
    except Exception as error:  # whatever the user's module does wrong as it is imported
        raise ConfigError(f"{label}: importing {name!r} failed: {type(error).__name__}: {error}") from error


def _is_own(value: Any, module: str) -> bool:
    return getattr(value, "__module__", module) == module
