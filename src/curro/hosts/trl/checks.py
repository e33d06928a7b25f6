"""The curriculum that a trainer's arguments describe, and which of TRL's arguments go with it."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from datasets import Dataset
from transformers import TrainerState
from trl import GRPOConfig

from curro.core import registry
from curro.core.curriculum import Curriculum
from curro.core.errors import ConfigError
from curro.core.files import check_writable
from curro.core.identity import DatasetRows
from curro.core.registry import VERIFIERS
from curro.core.selection import Selection
from curro.core.text import did_you_mean
from curro.methods.admission.band import DifficultyBand, between
from curro.reward.adapters import refuse_columns, reward_of
from curro.reward.row_checks import check_before_run
from curro.rollout.fill_settings import FillSettings
from curro.runs.writer import KeepRollouts


def build_curriculum(
    curriculum: Curriculum | Selection | str | Mapping[str, Any],
    parts: Mapping[str, Any],
    rows: Any,
    seed: int,
) -> Curriculum:
    """The curriculum that a trainer's arguments describe, over the rows of its data set.

    Args:
        curriculum: as the trainer takes it.
        parts: what stands beside it, by name; None for what was not given.
        rows: as `Curriculum` takes its prompts.
        seed: of all random choices.
    """
    beside = {name: part for name, part in parts.items() if part is not None}
    if isinstance(curriculum, Curriculum):
        if beside:
            raise ConfigError(
                f"the curriculum has its own {' and '.join(beside)}: give it to `Curriculum` alone"
            )
        return curriculum
    config: dict[str, Any] = {"selection": curriculum}
    if isinstance(curriculum, str):
        config = registry.parse_curriculum(curriculum)
    elif isinstance(curriculum, Mapping) and "selection" in curriculum:
        config = dict(curriculum)
    twice = [name for name in beside if name in config]
    if twice:
        raise ConfigError(f"{twice[0]} stands in `curriculum` and beside it: give it once")
    return Curriculum.from_config({"seed": seed, **config, **beside}, rows)


def check_arguments(
    args: GRPOConfig, train_dataset: Any, *, keep: Any, fill: Any, on_groups: Any, is_played: bool
) -> None:
    """Refuse arguments of a wrong kind before TRL begins to build a trainer from them.

    Args:
        is_played: whether there is an `environment_factory`, whose environments may make the prompts.
    """
    if not isinstance(keep, KeepRollouts):
        raise ConfigError(f"keep is a curro.hosts.trl.KeepRollouts, as KeepRollouts(2), not {keep!r:.50}")
    if not isinstance(fill, FillSettings):
        raise ConfigError(
            f"fill is a curro.hosts.trl.FillSettings, as FillSettings(limit=10), not {fill!r:.50}"
        )
    if on_groups is not None and not callable(on_groups):
        raise ConfigError(f"on_groups is a function that is called with a GroupRecord, not {on_groups!r:.50}")
    if not isinstance(train_dataset, Dataset):
        raise ConfigError(
            "a curriculum needs a `datasets.Dataset` to choose from: train_dataset is "
            f"{type(train_dataset).__name__}"
        )
    if not is_played and "prompt" not in train_dataset.column_names:
        raise ConfigError(
            f"train_dataset has no column 'prompt'; it has {', '.join(train_dataset.column_names)}: "
            "rename the column that holds the prompts"
        )
    if type(args.seed) is not int or args.seed < 0:
        raise ConfigError(f"seed must be a whole number of 0 or more, not {args.seed!r:.50}")
    check_writable(Path(cast(str, args.output_dir)))


def placeholder_rows(args: GRPOConfig) -> Dataset:
    """Rows for environments that make their own prompts, one a group of a batch, as TRL makes them."""
    groups = cast(int, args.generation_batch_size) // cast(int, args.num_generations)
    return Dataset.from_dict({"prompt": [[{"role": "user", "content": ""}]] * groups})


def rows_of(dataset: Dataset) -> DatasetRows:
    """The rows among which a curriculum chooses.

    Where environments make the prompts, what their `reset` takes stands for the prompt. Rows that are alike
    are told apart by their places.
    """
    if "prompt" in dataset.column_names:
        return DatasetRows(dataset)
    return DatasetRows([{**row, "prompt": json.dumps(row, sort_keys=True, default=str)} for row in dataset])


def reward_names(reward_funcs: Any, environment_factory: Any) -> list[str] | None:
    """The names that TRL will give reward functions, before it has built its trainer.

    None where they are not known before: an environment's own reward has its class' name.
    """
    if environment_factory is not None:
        return None
    functions = reward_funcs if isinstance(reward_funcs, list) else [reward_funcs]
    names = []
    for function in functions:
        while isinstance(function, functools.partial):
            function = function.func
        if isinstance(function, str) or hasattr(function, "config"):
            name = function if isinstance(function, str) else function.config._name_or_path
            function_name = name.split("/")[-1]
        else:
            function_name = getattr(function, "__name__", type(function).__name__)
        names.append(function_name)
    return names


def check_parts(curriculum: Curriculum, names: Sequence[str]) -> None:
    """Refuse a signal or a gate by a part of the reward that no reward function gives.

    Args:
        names: of the reward functions.
    """
    gate_part = getattr(curriculum.admission, "reward", None)
    wanted = [("signal", name) for name in curriculum.signal_parts]
    wanted += [] if gate_part is None else [("admission", gate_part)]
    for setting, name in wanted:
        if name not in names:
            raise ConfigError(
                f"{setting} {name!r}: no reward function has this name{did_you_mean(name, names)}; "
                f"there are: {', '.join(names)}"
            )


def check_rows(reward_funcs: Any, args: GRPOConfig, rows: Any, say: Callable[[str], object]) -> None:
    """Score rows with their own answers before TRL loads the model (`curro.reward.row_checks`).

    Functions of the user's own are called in the main process alone, and models not at all.

    Args:
        reward_funcs: as TRL takes them.
        rows: of the data set.
        say: called with what is to be logged.

    Raises:
        ConfigError: a reward of curro's does not fit more than 1% of the rows.
        RewardError: it needs columns that the rows lack.
    """
    functions = reward_funcs if isinstance(reward_funcs, list) else [reward_funcs]
    plain = [function for function in functions if inspect.isroutine(function)]
    extra = {
        "completion_ids": [0], "trainer_state": TrainerState(),
        **dict.fromkeys(("log_extra", "log_metric"), lambda *_: None),
    }  # fmt: skip
    for function, name in zip(plain, reward_names(plain, None) or [], strict=True):
        reward, is_own = reward_of(function, name, extra), not hasattr(function, "reward")
        if not is_own:
            refuse_columns(reward, rows.column_names)
        if not inspect.iscoroutinefunction(function) and not (is_own and args.process_index):
            check_before_run(rows, reward, say, "no_check=True")


def check_batch(args: GRPOConfig, prompts: int) -> int:
    """How many groups of `num_generations` rollouts a batch has."""
    batch = cast(int, args.generation_batch_size) // cast(int, args.num_generations)
    if batch > prompts:
        raise ConfigError(
            f"a batch takes {batch} prompts and the data set has {prompts}: lower "
            "per_device_train_batch_size or steps_per_generation, or raise num_generations"
        )
    return batch


def model_name(model: Any) -> str:
    """The last part of a model's name, after which TRL names the output folder of a run without `args`."""
    return str(model if isinstance(model, str) else model.config._name_or_path).split("/")[-1]


def check_rewards(curriculum: Curriculum, args: GRPOConfig, names: Sequence[str]) -> str:
    """Refuse a signal or a gate that the reward functions of these names cannot serve.

    Returns:
        a warning; empty if there is none.
    """
    check_parts(curriculum, names)
    return check_band(curriculum, cast(int, args.num_generations), names)


def check_band(curriculum: Curriculum, group: int, names: Sequence[str]) -> str:
    """Refuse a band between whose thresholds no group of 0/1 rewards can lie.

    Args:
        group: rollouts of a group.
        names: of the reward functions.

    Returns:
        a warning where the rewards may be graded; else nothing.
    """
    gate = curriculum.admission
    if not isinstance(gate, DifficultyBand) or curriculum.has_allocation:
        return ""
    rates = np.arange(group + 1) / group
    if between(rates, gate.low, gate.high, gate.closed).any():
        return ""
    sentence = (
        f"no group of {group} rollouts with rewards of 0 and 1 has a pass rate in the band from {gate.low:g} "
        f"to {gate.high:g}: widen the band or raise num_generations"
    )
    deciding = [gate.reward] if gate.reward else names
    if all(name in VERIFIERS for name in deciding):
        raise ConfigError(sentence)
    return sentence


def check_admission(
    curriculum: Curriculum, args: GRPOConfig, columns: Sequence[str], when_short: str, processes: int
) -> None:
    """Refuse arguments under which a batch of admitted groups cannot be put together.

    Args:
        columns: of the data set.
        when_short: what the fill does with a batch that stays short.
        processes: how many train.
    """
    images = sorted({"image", "images"}.intersection(columns))
    if images:
        raise ConfigError(
            f"admission works with text alone, and train_dataset has the column {images[0]}: TRL's batches "
            "of images cannot be put together from several rounds; leave the admission out"
        )
    local = cast(int, args.generation_batch_size) // processes
    if local % cast(int, args.num_generations) and not curriculum.has_allocation:
        raise ConfigError(
            f"admission needs whole groups on every process: {local} completions a process are not "
            f"divided by num_generations = {args.num_generations}"
        )
    if args.scale_rewards == "batch" and not curriculum.has_advantage:
        raise ConfigError(
            'scale_rewards="batch" divides by the deviation of rejected groups too: '
            'choose "group" or "none", or give the curriculum an advantage'
        )
    if args.multi_objective_aggregation == "normalize_then_sum" and not curriculum.has_advantage:
        raise ConfigError(
            'multi_objective_aggregation="normalize_then_sum" divides by the deviation of rejected groups '
            'too: choose "sum_then_normalize", or give the curriculum an advantage'
        )
    if when_short == "finish":
        raise ConfigError(
            "TRL trains on batches of one size: when a batch stays short, choose when_short="
            '"top-up" or "error"'
        )


def check_allocation(curriculum: Curriculum, args: GRPOConfig) -> None:
    """Refuse what does not go with groups of different sizes."""
    if not curriculum.has_advantage:
        raise ConfigError(
            "TRL's own advantages need groups of one size: give the curriculum an advantage beside its "
            'allocation ("leave-one-out")'
        )
    rows, first = cast(int, args.generation_batch_size), curriculum.allocation.first
    if first > rows:
        raise ConfigError(
            f"every prompt gets {first} rollouts at first, and a generation has {rows}: raise "
            "per_device_train_batch_size or steps_per_generation, or lower `first`"
        )
