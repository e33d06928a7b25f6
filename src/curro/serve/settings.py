"""What `curro serve` is told: a TOML file."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from curro.curriculum import Curriculum
from curro.data import load_prompts
from curro.errors import ConfigError
from curro.policy import refuse_policy
from curro.storage.toml_file import read_toml


@dataclass(frozen=True)
class ServeSettings:
    """Which curriculum is served, and where it is kept.

    Attributes:
        folder: of the service.
        curriculum: the arguments of `Curriculum`, by name.
        data: the prompts, as `load_prompts` takes them; in their place may stand
        prompts: the number of prompts, where no method looks at them.
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
        """From a TOML file.

        Raises:
            ConfigError: no such file, no TOML, a key that is unknown or missing.
        """
        table = read_toml(path)
        known = [item.name for item in fields(cls)]
        for name in table:
            if name not in known:
                raise ConfigError(f"{path} has {name!r}, which is none of {', '.join(known)}")
        if not isinstance(table.get("run_folder", ""), str):
            raise ConfigError(f"{path}: `run_folder` is a path, not {table['run_folder']!r}")
        for name, kind in (("folder", str), ("curriculum", dict)):
            if not isinstance(table.get(name), kind):
                what = "the table [curriculum]" if kind is dict else "`folder`, the service's folder"
                raise ConfigError(f"{path} lacks {what}")
        if (table.get("data") is None) == (table.get("prompts") is None):
            raise ConfigError(f"{path} has to say either `data` or `prompts`, the number of prompts")
        return cls(**table)

    def build(self) -> Curriculum:
        """The curriculum, as new.

        Raises:
            ConfigError, DataError: as `Curriculum.from_config` and `load_prompts` do; the selection asks the
                policy.
        """
        curriculum = Curriculum.from_config(self.curriculum, self._prompts())
        refuse_policy(curriculum.selection.needs_policy, "`curro serve`")
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
