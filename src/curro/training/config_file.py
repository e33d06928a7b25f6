"""Settings from a file: TOML that a person wrote, or a run folder whose settings are used again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from curro.errors import ConfigError
from curro.storage.run_folder import RunFolder
from curro.storage.toml_file import read_toml


def read_settings(path: Path) -> dict[str, Any]:
    """The values in a file by name, as `TrainSettings.of` takes them.

    Args:
        path: a TOML file with the options' names, with `-` or `_`; or a run folder, or its config.json.

    Raises:
        ConfigError: no such file, no TOML, or a name that stands twice.
        RunError: a folder that holds no run of `curro train`.
    """
    if path.is_dir():
        return RunFolder.open(path).settings
    if path.name == "config.json":
        return RunFolder.open(path.parent).settings
    table = read_toml(path)
    values = {name.replace("-", "_"): value for name, value in table.items()}
    if len(values) < len(table):
        raise ConfigError(f"a setting stands twice in {path}, once with - and once with _")
    return values
