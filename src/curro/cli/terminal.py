"""What the commands have in common on the terminal."""

from __future__ import annotations

import logging
import math
import os
import sys
import warnings
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from curro.core.errors import ConfigError
from curro.core.text import slug


def plain_console() -> Console:
    """A console that prints text as it is: brackets in a path are not markup."""
    return Console(markup=False, highlight=False)


def folder_name(text: str) -> str:
    """A name for a folder, made from the letters and digits of a text."""
    name = slug(text)
    if not name:
        raise ConfigError(f"no folder name can be made from {text!r}: choose one with --out")
    return name


def quiet() -> None:
    """Keep the remarks of libraries off the terminal, which shows what the command does."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    warnings.filterwarnings("ignore", category=FutureWarning)
    logging.getLogger("trl").setLevel(logging.ERROR)
    if "huggingface_hub" in sys.modules:  # it has read the variable, and transformers asks it
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()


NARROW = 110
"""Characters of a terminal below which a bar is short."""


def progress_bar(console: Console) -> Progress:
    """A bar a run: steps, what `describe` says of the latest, time left."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=_bar_width(console)),
        MofNCompleteColumn(),
        TextColumn("{task.fields[latest]}", markup=False),
        TimeRemainingColumn(),
        console=console,
    )


def _bar_width(console: Console) -> int:
    return 8 if console.width < NARROW else 20


def room_beside(console: Console, title: str, total: int) -> int:
    """Characters that a bar of this title and total leaves for what `describe` says."""
    counts, time_left, gaps = 2 * len(str(total)) + 1, 7, 4
    return console.width - len(title) - _bar_width(console) - counts - time_left - gaps


def describe(line: dict[str, Any], room: int) -> str:
    """One line of metrics in a few words, as many as there is room for, the most telling first.

    They are the reward, the share of groups with signal, and how many prompts are in which state.
    """
    counts = [(word, line.get(f"table/{word}")) for word in ("unseen", "learnable", "solved", "unsolved")]
    parts = [
        f"{word} {line[name]:.2f}"
        for name, word in (("reward", "reward"), ("signal_share", "signal"))
        if not math.isnan(line.get(name, math.nan))
    ]
    parts += [f"{word} {int(count)}" for word, count in counts if count is not None]
    while parts and len("  ".join(parts)) > room:
        parts.pop()
    return "  ".join(parts)


def accuracy(line: dict[str, Any]) -> str | None:
    """The held-out accuracy of a line that has one."""
    scores = [f"{name.removeprefix('eval/')} {value:.3f}" for name, value in line.items() if "pass@" in name]
    return f"step {line['step']:>5}  rollouts {line['rollouts']:>7}  " + "  ".join(scores) if scores else None
