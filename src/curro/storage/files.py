"""Files that are whole or not there: written beside their place, then moved into it."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from curro.errors import ConfigError


class replacing:
    """Hand out a temporary path whose file takes the target's place when all went well."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.part = target.with_name(f".{target.name}.{os.getpid()}.part")

    def __enter__(self) -> Path:
        return self.part

    def __exit__(self, failed: object, *_: object) -> None:
        try:
            if failed is None:
                with self.part.open("rb") as file:
                    os.fsync(file.fileno())
                os.replace(self.part, self.target)
        finally:
            self.part.unlink(missing_ok=True)


def read_toml(path: Path) -> dict[str, Any]:
    """The tables and values of a file.

    Raises:
        ConfigError: it cannot be read, or is no TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} is no TOML: {error}") from error
