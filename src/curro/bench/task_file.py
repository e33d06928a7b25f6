"""Tasks of one's own for the benchmark, read from a TOML file: any model, any data."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

from curro.bench.tasks import Task
from curro.errors import ConfigError
from curro.messages import did_you_mean

OF_TRAIN = (
    "model", "eval_data", "reward", "reward_range", "environment", "device_batch", "temperature",
    "max_completion_length", "loss_type",
)  # fmt: skip
"""Settings of `curro train` that a task may have besides its own."""


def read_tasks(path: Path) -> dict[str, Task]:
    """The tasks of a file, by name: a table each, named FAMILY/POOL.

    Its keys are `Task`'s and `OF_TRAIN`; `data`, `learning_rate` and `rollouts` must be there. METIS asks
    the model, with the options `judge` if any, unless `judge` is false.

    Raises:
        ConfigError: no such file, no TOML, a key that is unknown or missing, a value of the wrong kind.
    """
    try:
        tables = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"the tasks in {path} cannot be read: {error}") from error
    if not tables:
        raise ConfigError(f'{path} has no tasks: write a table ["FAMILY/POOL"] for each')
    return {name: _task(f"task {name!r} in {path}", name, table) for name, table in tables.items()}


def _task(where: str, name: str, table: Any) -> Task:
    if not isinstance(table, dict) or len(name.split("/")) != 2 or not all(name.split("/")):
        raise ConfigError(f'{where}: a task is a table ["FAMILY/POOL"], the pool "hard" or "easy", say')
    kinds = get_type_hints(Task)
    own = [item.name for item in fields(Task) if item.name not in ("name", "train", "chosen_by")]
    for key, value in table.items():
        if key not in (*own, *OF_TRAIN):
            meant = did_you_mean(key, (*own, *OF_TRAIN))
            raise ConfigError(
                f"{where} has no setting {key!r}{meant}; there are: {', '.join((*own, *OF_TRAIN))}"
            )
        wanted = {"judge": str | bool, "learning_rate": float | int}.get(key, kinds.get(key, Any))
        number = isinstance(value, bool) and key != "judge"
        if number or (wanted is not Any and not isinstance(value, wanted)):
            raise ConfigError(f"{where}: {key} is not {value!r}")
    missing = [key for key in ("data", "learning_rate", "rollouts") if key not in table]
    if missing:
        raise ConfigError(f"{where} lacks {', '.join(missing)}")
    train = tuple((key, _setting(table[key])) for key in OF_TRAIN if key in table)
    judge = {"judge": "", **table}["judge"]
    values = {key: value for key, value in table.items() if key in own and key != "judge"}
    return Task(name, **values, train=train, judge=None if judge is False else "" if judge is True else judge)


def _setting(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
