"""`curro serve`: the command, and the settings in its file."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from curro.contrib.serve import run
from curro.core.bases import refuse
from curro.core.curriculum import Curriculum
from curro.core.errors import ConfigError
from curro.core.files import read_toml
from curro.core.text import did_you_mean
from curro.data import load_prompts


@dataclass(frozen=True)
class ServeSettings:
    """Which curriculum is served, and where it is kept.

    Attributes:
        folder: the service's.
        curriculum: the arguments of `Curriculum`, by name.
        data: the prompts, as `load_prompts` takes them; in their place may stand
        prompts: the number of prompts, if no method looks at them.
        run_folder: where groups and metrics are written to, for `curro watch`.
        prompt_column, answer_column, key_column, split, limit: as `load_prompts` takes them.
    """

    folder: str
    curriculum: dict[str, Any]
    data: str | None = None
    prompts: int | None = None
    run_folder: str | None = None
    prompt_column: str | None = None
    answer_column: str | None = None
    key_column: str | None = None
    split: str = "train"
    limit: int | None = None

    @classmethod
    def read(cls, path: Path) -> ServeSettings:
        """From a TOML file."""
        table = read_toml(path)
        names = [item.name for item in fields(cls)]
        for name in table:
            if name not in names:
                meant = did_you_mean(name, names)
                raise ConfigError(f"{path} has {name!r}{meant}, which is none of {', '.join(names)}")
        if not isinstance(table.get("run_folder", ""), str):
            raise ConfigError(f"{path}: `run_folder` is a path, not {table['run_folder']!r}")
        for name, kind in (("folder", str), ("curriculum", dict)):
            if not isinstance(table.get(name), kind):
                missing = "the table [curriculum]" if kind is dict else "`folder`, the service's folder"
                raise ConfigError(f"{path} lacks {missing}")
        if (table.get("data") is None) == (table.get("prompts") is None):
            raise ConfigError(f"{path} has to say either `data` or `prompts`, the number of prompts")
        of_data = {"prompt_column", "answer_column", "key_column", "split", "limit"} & table.keys()
        if of_data and table.get("data") is None:
            raise ConfigError(
                f"{path} has {min(of_data)!r}, which is for `data`, and no `data`: leave it out"
            )
        for name in ("folder", "run_folder", "data"):
            if "\0" in str(table.get(name, "")):
                raise ConfigError(f"{path}: `{name}` is a path, which cannot have the character U+0000")
        return cls(**table)

    def build(self) -> Curriculum:
        """The curriculum, as new.

        Raises:
            ConfigError, DataError: as `Curriculum.from_config` and `load_prompts` do; the selection asks the
                policy.
        """
        curriculum = Curriculum.from_config(self.curriculum, self._prompts())
        refuse(curriculum.selection.policy_use, "policy", "`curro serve`")
        refuse(curriculum.allocation.looks_first, "looking first", "`curro serve`")
        return curriculum

    def _prompts(self) -> Any:
        if self.data is None:
            if type(self.prompts) is not int:
                raise ConfigError(f"`prompts` is the number of prompts, not {self.prompts!r}")
            return self.prompts
        return load_prompts(
            self.data,
            prompt_column=self.prompt_column,
            answer_column=self.answer_column,
            key_column=self.key_column,
            split=self.split,
            limit=self.limit,
        )


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
    settings = ServeSettings.read(config)
    run.serve(
        settings.build(),
        Path(settings.folder),
        port=port,
        say=lambda sentence: print(sentence, flush=True),
        run_folder=None if settings.run_folder is None else Path(settings.run_folder),
    )
