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
from rich.table import Column

from curro.core.errors import ConfigError
from curro.core.text import printable, slug


def plain_console() -> Console:
    """A console that prints text as it is: brackets in a path are no markup."""
    return Console(markup=False, highlight=False, emoji=False)


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
    warnings.formatwarning = lambda message, *_, **__: f"{printable(str(message))}\n"
    logging.getLogger("trl").setLevel(logging.ERROR)
    if "huggingface_hub" in sys.modules:  # it has read the variable, and transformers asks it
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()


def progress_bar(console: Console) -> Progress:
    """A bar a run: steps, what `describe` says of the latest as far as there is room, time left."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=8 if console.width < 110 else 20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[latest]}", markup=False, table_column=Column(ratio=1, no_wrap=True)),
        TimeRemainingColumn(),
        console=console,
        expand=True,
    )


def describe(line: dict[str, Any]) -> str:
    """One line of metrics in a few words: reward, share of groups with a signal, prompts in each state."""
    counts = [(word, line.get(f"table/{word}")) for word in ("unseen", "learnable", "solved", "unsolved")]
    parts = [
        f"{word} {line[name]:.2f}"
        for name, word in (("reward", "reward"), ("signal_share", "signal"))
        if not math.isnan(line.get(name, math.nan))
    ]
    return "  ".join(parts + [f"{word} {int(count)}" for word, count in counts if count is not None])


def accuracy(line: dict[str, Any]) -> str | None:
    """The held-out accuracy of a line that has one."""
    scores = [f"{name.removeprefix('eval/')} {value:.3f}" for name, value in line.items() if "pass@" in name]
    return f"step {line['step']:>5}  rollouts {line['rollouts']:>7}  " + "  ".join(scores) if scores else None
