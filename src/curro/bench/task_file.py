"""Tasks of one's own for the benchmark, read from a TOML file: any model, any data."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

from curro.bench.tasks import Task
from curro.errors import ConfigError
from curro.messages import did_you_mean
from curro.storage.toml_file import read_toml

OF_TRAIN = (
    "model", "eval_data", "reward", "reward_range", "environment", "device_batch", "temperature",
    "max_completion_length", "loss_type",
)  # fmt: skip
"""Settings of `curro train` that a task may have besides its own."""
NEEDED = ("data", "learning_rate", "rollouts")
NEEDED_OUTSIDE_THE_LAB = ("model", "eval_data")


def read_tasks(path: Path) -> dict[str, Task]:
    """The tasks of a file, by name: a table each, named FAMILY/POOL.

    Its keys are `Task`'s and `OF_TRAIN`; `NEEDED` must be there, and for data that is not the lab's
    `NEEDED_OUTSIDE_THE_LAB`. METIS asks the model, with the options `judge` if any, unless `judge` is false.

    Raises:
        ConfigError: no such file, no TOML, a key that is unknown or missing, a value that no run could use.
    """
    tables = read_toml(path)
    if not tables:
        raise ConfigError(f'{path} has no tasks: write a table ["FAMILY/POOL"] for each')
    found = {}
    for name, table in tables.items():
        try:
            found[name] = _task(name, table)
        except ConfigError as error:
            raise ConfigError(f"task {name!r} in {path}: {error}") from None
    return found


def _task(name: str, table: Any) -> Task:
    if not isinstance(table, dict) or not re.fullmatch(r"\w+/\w+", name):
        raise ConfigError('a task is a table ["FAMILY/POOL"], in letters and digits; a pool is "hard", say')
    kinds = _kinds()
    for key, value in table.items():
        if key not in kinds:
            meant = did_you_mean(key, kinds)
            raise ConfigError(f"there is no setting {key!r}{meant}; there are: {', '.join(kinds)}")
        if not _is(value, kinds[key]):
            raise ConfigError(f"{key} is not {value!r}")
    needed = NEEDED if str(table.get("data")).startswith("lab:") else (*NEEDED, *NEEDED_OUTSIDE_THE_LAB)
    missing = [key for key in needed if key not in table]
    if missing:
        raise ConfigError(f"it lacks {', '.join(missing)}")
    train = tuple((key, _setting(table[key])) for key in OF_TRAIN if key in table)
    judge = {False: None, True: ""}.get(table.get("judge", True), table.get("judge"))
    own = {key: value for key, value in table.items() if key not in (*OF_TRAIN, "judge")}
    task = Task(name, **own, train=train, judge=judge)
    task.settings().complete(task.prompts or task.prompts_per_step)
    if task.rollouts < task.step:
        raise ConfigError(f"{task.rollouts} rollouts do not pay for a step of {task.step}")
    return task


def _kinds() -> dict[str, Any]:
    """What type the value of each key has."""
    from curro.training.settings import TrainSettings

    task, train = get_type_hints(Task), get_type_hints(TrainSettings)
    own = [item.name for item in fields(Task) if item.name not in ("name", "train", "chosen_by")]
    kinds = {name: task[name] for name in own} | {name: train[name] for name in OF_TRAIN}
    return kinds | {"judge": str | bool, "reward_range": list}


def _is(value: Any, kind: Any) -> bool:
    if isinstance(value, bool):
        return kind == str | bool
    if kind is list:
        return isinstance(value, list) and [type(one) in (int, float) for one in value] == [True, True]
    return isinstance(value, kind) or (isinstance(value, int) and isinstance(1.0, kind))


def _setting(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
