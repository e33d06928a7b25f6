"""What a command checks before it imports torch, so that a typo is answered at once.

Everything is checked again where it is used; here are the mistakes that are often made and quickly seen.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path

from curro.core import registry
from curro.core.errors import ConfigError
from curro.core.loading import PROVIDERS
from curro.core.text import did_you_mean
from curro.data.load import READERS, source_files
from curro.training.declared import known_settings
from curro.training.evaluation.suites import SUITES
from curro.training.settings import TrainSettings


def check_start(settings: TrainSettings) -> None:
    """Refuse settings with which no run can start."""
    for kind, spec in settings.curriculum_config.items():
        if kind in registry.BUILTIN and spec is not None:
            registry.build(kind, spec)
    check_data(settings.data, "train")
    for source in settings.eval_sources:
        if source not in SUITES:
            check_data(source, "test")
    if settings.model is not None:
        check_model(settings.model)
    check_logger(settings)
    check_reward(settings)


def check_data(source: str, split: str) -> None:
    """Raises ConfigError where a file or a folder does not exist; neither the hub nor the lab is asked."""
    if source.partition(":")[0] not in PROVIDERS and _is_local(source):
        for _ in source_files(source, split):
            pass


def check_model(name: str) -> None:
    """Raises ConfigError where a model's name can only be that of a folder that does not exist.

    Names of the hub have at most one slash. A name without one is taken for a folder's where a folder of a
    similar name is near.
    """
    path = Path(name)
    files = ("config.json", "adapter_config.json")  # the latter of a LoRA adapter, which names its base model
    if path.is_dir() and not any((path / file).is_file() for file in files):
        raise ConfigError(f"the folder {name!r} holds no model: it has no {' and no '.join(files)}")
    if name.partition(":")[0] in PROVIDERS or path.exists():
        return
    near = [str(item) for item in path.parent.iterdir() if item.is_dir()] if path.parent.is_dir() else []
    meant = did_you_mean(str(path), near)
    if _is_local(name) or name.count("/") > 1 or meant:
        raise ConfigError(
            f"there is no model at {name!r}{meant}: name a folder, a GGUF file, a hub id or lab:NAME"
        )


def check_reward(settings: TrainSettings) -> None:
    """Raises ConfigError where curro knows no reward of that name; one of the user's own is not read yet."""
    if settings.reward in ("auto", "lab") or ":" in settings.reward:
        return
    from curro.reward.resolve import resolve_reward

    resolve_reward(settings.reward, sandbox=settings.sandbox)


def check_logger(settings: TrainSettings) -> None:
    """Raises ConfigError where a logger's package is not installed, or names are given to no logger."""
    name = settings.log
    if name is not None and importlib.util.find_spec(name) is None:
        raise ConfigError(f"--log {name} needs the package {name}: pip install {name}")
    if name is None and (settings.project or settings.run_name):
        option = "--project" if settings.project else "--run-name"
        raise ConfigError(
            f"{option} names something for a logger: choose one with --log, or leave {option} out"
        )


def _is_local(name: str) -> bool:
    """Whether a name cannot be one of the hub's."""
    return name.startswith((".", "/", "~")) or Path(name).suffix in (*READERS, ".gguf") or Path(name).exists()


def as_typed(sentence: str, arguments: Sequence[str]) -> str:
    """A sentence that names settings by their options, unless they come from a file, as those of `serve`.

    `rollouts_per_prompt must be 2 or more` becomes `--rollouts-per-prompt must be 2 or more`.
    """
    if arguments[:1] == ["serve"] or any(argument.startswith("--config") for argument in arguments):
        return sentence
    names = list(known_settings())
    several = "|".join(sorted((name for name in names if "_" in name), key=len, reverse=True))
    start = re.compile(rf"^({'|'.join(names)})(?= must be )")
    sentence = start.sub(lambda match: f"--{match[1].replace('_', '-')}", sentence)
    inside = re.compile(rf"(?<![\w./'-])({several})(?![\w/'.=-])")
    return inside.sub(lambda match: f"--{match[1].replace('_', '-')}", sentence)
