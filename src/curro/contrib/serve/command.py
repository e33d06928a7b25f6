"""`curro serve`: the command, and what its file says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from curro.contrib.serve import run
from curro.core.bases import refuse
from curro.core.curriculum import Curriculum
from curro.core.errors import ConfigError
from curro.core.files import read_toml
from curro.core.text import did_you_mean
from curro.data import load_prompts

OF_DATA = ("prompt_column", "answer_column", "key_column", "split", "limit")
"""Keys of the file that `load_prompts` takes beside `data`."""

KEYS = ("folder", "curriculum", "data", "prompts", *OF_DATA)


def read_config(path: Path) -> tuple[Path, Curriculum]:
    """The service's folder, and its curriculum as new, from a TOML file.

    Raises:
        ConfigError, DataError: the file cannot be read, as `Curriculum.from_config` and `load_prompts` say;
            or the selection asks the policy.
    """
    table = read_toml(path)
    for name in table:
        if name not in KEYS:
            meant = did_you_mean(name, KEYS)
            raise ConfigError(f"{path} has {name!r}{meant}, which is none of {', '.join(KEYS)}")
    for name, kind in (("folder", str), ("curriculum", dict)):
        if not isinstance(table.get(name), kind):
            missing = "the table [curriculum]" if kind is dict else "`folder`, the service's folder"
            raise ConfigError(f"{path} lacks {missing}")
    for name in ("folder", "data"):
        if "\0" in str(table.get(name, "")):
            raise ConfigError(f"{path}: `{name}` is a path, which cannot have the character U+0000")
    if ("data" in table) == ("prompts" in table):
        raise ConfigError(f"{path} has to say either `data` or `prompts`, the number of prompts")
    options = {name: table[name] for name in OF_DATA if name in table}
    if "data" in table:
        prompts = load_prompts(table["data"], **options)
    elif options:
        raise ConfigError(f"{path} has {min(options)!r}, which is for `data`, and no `data`: leave it out")
    elif type(prompts := table["prompts"]) is not int:
        raise ConfigError(f"`prompts` is the number of prompts, not {prompts!r}")
    curriculum = Curriculum.from_config(table["curriculum"], prompts)
    refuse(curriculum.selection.policy_use, "policy", "`curro serve`")
    refuse(curriculum.allocation.looks_first, "looking first", "`curro serve`")
    return Path(table["folder"]), curriculum


def serve(
    config: Annotated[
        Path,
        typer.Argument(
            help="A TOML file with the keys `folder`, either `data` or `prompts` (how many there are), and a "
            "table [curriculum] with the arguments of `curro.Curriculum`."
        ),
    ],
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port on this machine; 0 takes a free one.")
    ] = 8377,
) -> None:
    """Serve a curriculum over HTTP to trainers on this machine.

    The state is saved at the end of each step, so after a kill the same command continues from there.
    Ctrl-C or SIGTERM ends it.
    """
    folder, curriculum = read_config(config)
    run.serve(curriculum, folder, port=port, say=lambda sentence: print(sentence, flush=True))
