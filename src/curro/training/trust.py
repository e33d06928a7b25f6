"""The code that the settings of a run folder name: a folder from elsewhere may name any.

The settings in a run folder's `config.json` can name code (`module:name`, or a file), and can run programs
that a model writes without a sandbox. Such a run is resumed, or its settings are taken for another one, only
with `--trust`.
"""

from __future__ import annotations

import shlex
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
    for source in (*map(str.strip, settings.data.split(",")), settings.model or "", *settings.eval_sources):
        code += provided_code(source)
    if settings.environment is not None and settings.environment.partition(":")[0] not in ENVIRONMENTS:
        code.append(":".join(settings.environment.split(":")[:2]))
    if unconfined or settings.sandbox == "none":
        code.append(UNCONFINED)
    return code


def resume_command(settings: TrainSettings, folder: Path) -> str:
    """The command that goes on with a run."""
    return f"curro train --resume {shlex.quote(str(folder))}{' --trust' if code_of(settings) else ''}"


def check(settings: TrainSettings, source: str) -> None:
    """Refuse settings of a run folder that name code.

    Args:
        source: where the settings come from, for the message.
    """
    code = code_of(settings)
    if code:
        named = ", ".join(repr(spec) for spec in code if spec != UNCONFINED)
        does = [f"names code of its own, {named}"] if named else []
        does += ["runs programs that the model writes without a sandbox"] if UNCONFINED in code else []
        raise ConfigError(f"{source} {' and '.join(does)}: add --trust if you know what it does")
