"""Whether the code that a run folder names is this user's: a folder from elsewhere may name any.

The settings in a run folder's `config.json` can name code (`module:name`, or a file), and can run programs
that a model writes without a sandbox. When a user starts a run with such settings, that is noted in the
user's own state folder: `$XDG_STATE_HOME/curro/code`, by default `~/.local/state/curro/code`. A run is
resumed, or its settings are taken for another one, only where the same texts name the same files as in a run
that was noted; else the user has to say so. What the run folder holds, who owns it and where it lies make no
difference.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path

from curro.core import registry
from curro.core.errors import ConfigError
from curro.core.loading import provided_code
from curro.reward.environments.environment import BUILTIN as ENVIRONMENTS
from curro.reward.resolve import named_code
from curro.training.settings import TrainSettings

UNCONFINED = "sandbox none"
"""Stands for code in `code_of`: programs that the model writes have the user's rights."""


def code_of(settings: TrainSettings) -> list[str]:
    """The code of the user's own that the settings name, as `module:name`, and `UNCONFINED`."""
    code = []
    for kind, part in settings.curriculum_config.items():
        if isinstance(part, dict) and kind in registry.BUILTIN:
            positional = part.get("", [])
            options = [value for name, value in part.items() if name not in ("name", "")]
            code += [part["name"]] if part["name"] not in registry.BUILTIN[kind] else []
            code += [value for value in (*positional, *options) if isinstance(value, str) and ":" in value]
    reward, unconfined = named_code(settings.reward)
    code += reward
    for source in (*settings.data_sources, settings.model or "", *settings.eval_sources):
        code += provided_code(source)
    if settings.environment is not None and settings.environment.partition(":")[0] not in ENVIRONMENTS:
        code.append(":".join(settings.environment.split(":")[:2]))
    if unconfined or settings.sandbox == "none":
        code.append(UNCONFINED)
    return code


def note(settings: TrainSettings) -> None:
    """Remember that this user started a run with the code that the settings name.

    Without a state folder that can be written nothing is remembered, and resuming the run asks.
    """
    code = code_of(settings)
    if not code:
        return
    text = _text(settings, code)
    with suppress(OSError):
        path = _record(text)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(path, "x", encoding="utf-8", opener=_private) as file:
            file.write(text)


def check(settings: TrainSettings, source: str) -> None:
    """Refuse settings that name code with which this user has not started a run yet.

    Args:
        source: where the settings come from, for the message.
    """
    code = code_of(settings)
    if code and not _is_noted(_text(settings, code)):
        named = ", ".join(f"{spec!r} ({_file(spec)})" for spec in code if spec != UNCONFINED)
        does = [f"names code of its own, {named}"] if named else []
        does += ["runs programs that the model writes without a sandbox"] if UNCONFINED in code else []
        raise ConfigError(
            f"{source} {' and '.join(does)}, and you have started no run with these settings and files on "
            "this machine: add --trust if you know what they do"
        )


def _text(settings: TrainSettings, code: list[str]) -> str:
    """What a record holds: the settings that can name code, and the files that are meant."""
    names = ("curriculum", "allocation", "advantage", "admission", "reward", "environment", "sandbox")
    texts = {name: getattr(settings, name) for name in names}
    files = {spec: _file(spec) for spec in code if spec != UNCONFINED}
    return json.dumps({"settings": texts, "files": files}, indent=1, sort_keys=True)


def _file(spec: str) -> str:
    """The file that `module:name` would import, found without running anything of it.

    For a module in a package it is the package's first file.
    """
    path = spec.partition(":")[0]
    folder, file = os.path.split(path)
    if folder:
        return os.path.realpath(os.path.join(os.path.expanduser(folder), f"{file.removesuffix('.py')}.py"))
    module = PathFinder.find_spec(file.removesuffix(".py").partition(".")[0], [*sys.path, os.getcwd()])
    if module is None:
        return "which is not there"
    return os.path.realpath(module.origin or next(iter(module.submodule_search_locations or [""])))


def _record(text: str) -> Path:
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return base / "curro" / "code" / f"{hashlib.sha256(text.encode()).hexdigest()}.json"


def _is_noted(text: str) -> bool:
    """Whether there is a record that this user wrote."""
    try:
        status = os.lstat(_record(text))
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
