"""What the commands have in common on the terminal."""

from __future__ import annotations

import logging
import os
import warnings

from rich.console import Console

from curro.errors import ConfigError


def plain_console() -> Console:
    """A console that prints text as it is: brackets in a path are no markup."""
    return Console(markup=False, highlight=False)


def slug(text: str) -> str:
    """A name for a folder, made from the letters and digits of a text.

    Raises:
        ConfigError: the text has none.
    """
    slug = "".join(letter if letter.isalnum() else "-" for letter in text).strip("-")
    if not slug:
        raise ConfigError(f"no folder name can be made from {text!r}: choose one with --out")
    return slug


def quiet() -> None:
    """Keep the remarks of libraries off the terminal, which shows what the command does."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    warnings.filterwarnings("ignore", category=FutureWarning)
    logging.getLogger("trl").setLevel(logging.ERROR)
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
