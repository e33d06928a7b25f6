"""Objects named by text as `module:name`: a user's own classes and functions, and curro's by entry string."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, Protocol, cast

from curro.core.errors import ConfigError
from curro.core.text import did_you_mean, install_extra


def load_object(spec: str, role: str) -> Any:
    """What `module:name` names, or `module.py:name`, or `folder/module.py:name`.

    The module is looked for among the installed ones, then in its folder, else in the working directory.
    Messages begin with its `role`, as "reward".
    """
    path, _, name = spec.partition(":")
    folder, file = os.path.split(path)
    label = f"{role} {spec!r}"
    if not name:
        raise ConfigError(f"{label} names nothing in a module: write module:name")
    module_name = file.removesuffix(".py")
    if not folder and module_name.partition(".")[0] in sys.stdlib_module_names:
        raise ConfigError(
            f"{label}: {module_name!r} is a module of Python itself, and would get what a model writes: "
            "name a module of your own"
        )
    module = _import_file(folder, module_name, label) if folder else _import(module_name, label)
    if not hasattr(module, name):
        own = [(key, value) for key, value in vars(module).items() if not key.startswith("_")]
        names = [
            key for key, value in own
            if callable(value) and getattr(value, "__module__", module_name) == module_name
        ]  # fmt: skip
        raise ConfigError(
            f"{label}: the module {module_name!r} has no {name!r}{did_you_mean(name, names)}; "
            f"it has: {', '.join(names) or 'none'}"
        )
    return getattr(module, name)


def load_callable(spec: str, role: str) -> Any:
    """As `load_object`, for a function or a class."""
    target = load_object(spec, role)
    if not callable(target):
        raise ConfigError(f"{role} {spec!r} is {target!r:.50}, neither a function nor a class")
    return target


def _import(name: str, label: str) -> Any:
    here = os.getcwd()
    if here not in sys.path and not name.startswith("curro."):
        # last, because a folder from elsewhere may have a file with the name of an installed module
        sys.path.append(here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ConfigError(f"{label}: there is no module {error.name!r} in {here} nor installed") from None
        hint = f": {install_extra('train')}" if name.startswith("curro.") else ""
        raise ConfigError(f"{label}: importing {name!r} failed: {error}{hint}") from error
    except Exception as error:  # whatever the user's module does wrong as it is imported
        raise ConfigError(f"{label}: importing {name!r} failed: {type(error).__name__}: {error}") from error


def _import_file(folder: str, name: str, label: str) -> Any:
    """Import a file by its path; it looks in its folder for its neighbours."""
    folder = os.path.abspath(os.path.expanduser(folder))
    file = os.path.join(folder, f"{name}.py")
    if not os.path.isfile(file):
        raise ConfigError(f"{label}: there is no file {file}")
    if folder not in sys.path:
        sys.path.append(folder)
    module = _import(name, label)
    there = getattr(module, "__file__", None)
    if there is None or not os.path.samefile(there, file):
        raise ConfigError(
            f"{label}: another module is called {name!r} ({there or 'built in'}): give the file {file} "
            "a name of its own"
        )
    return module


PROVIDERS = {
    "lab": "curro.lab.provider:Lab",
    "bfcl": "curro.contrib.bfcl.tasks:BfclTasks",
    "verifiers": "curro.contrib.verifiers_tasks:VerifiersTasks",
}
"""By the prefix of its names: a class, called without arguments."""


class Provider(Protocol):
    """What stands behind a prefix. Every method raises ConfigError for a name that it does not know."""

    def problems(self, name: str, split: str, limit: int | None) -> list[dict[str, Any]]:
        """Rows with `prompt`, `answer`, `key` and others; `limit` at most, None for the default."""

    def verify(self, name: str) -> Any:
        """The function of completions and rows that scores them, as `curro.reward.Reward` takes it."""

    def environment(self, name: str) -> Any:
        """The environment of its prompts; None if they are answered in one turn."""

    def model(self, name: str) -> tuple[Any, Any]:
        """A model and its tokenizer."""

    def code(self, name: str) -> list[str]:
        """The user's own code that a name runs, as `module:name`; found without running anything of it."""


def provider(source: str) -> tuple[Provider, str] | None:
    """The provider that `PREFIX:NAME` names, and the name; None if the prefix is not a provider's."""
    prefix, colon, name = source.partition(":")
    if not colon or prefix not in PROVIDERS:
        return None
    return cast(Provider, load_object(PROVIDERS[prefix], "provider")()), name


def provided_code(source: str) -> list[str]:
    """The user's own code that `PREFIX:NAME` stands for, as `module:name`; nothing of it is run."""
    named = provider(source)
    return named[0].code(named[1]) if named else []
