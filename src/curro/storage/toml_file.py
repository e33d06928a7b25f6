"""Files in TOML that a person wrote."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from curro.errors import ConfigError


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
