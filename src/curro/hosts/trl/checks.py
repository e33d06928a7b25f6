"""The curriculum that a trainer's arguments describe, and which of TRL's arguments go with it."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from datasets import Dataset
from transformers import TrainerState
from trl import GRPOConfig

from curro.core.bases import Selection
from curro.core.curriculum import Curriculum
from curro.core.errors import ConfigError
from curro.core.files import check_writable
from curro.core.identity import DatasetRows
from curro.core.registry import VERIFIERS
from curro.core.text import did_you_mean
from curro.methods.admission.band import DifficultyBand
from curro.reward.adapters import refuse_columns, reward_of
from curro.reward.row_checks import check_before_run
from curro.rollout.fill_settings import FillSettings
from curro.runs.writer import KeepRollouts


def build_curriculum(
    curriculum: Curriculum | Selection | str | Mapping[str, Any],
    parts: Mapping[str, Any],
    rows: DatasetRows,
    seed: int,
) -> Curriculum:
    """The curriculum over these rows that a trainer's arguments describe.

    Args:
        curriculum: as the trainer takes it.
        parts: what stands beside it, by name; None for what was not given.
        seed: of all random choices.
    """
    beside = {name: part for name, part in parts.items() if part is not None}
    if isinstance(curriculum, Curriculum):
        if beside:
            raise ConfigError(
                f"the curriculum has its own {' and '.join(beside)}: give it to `Curriculum` alone"
            )
        curriculum.check_rows(rows, "train_dataset")
        return curriculum
    is_whole = isinstance(curriculum, Mapping) and "selection" in curriculum
    config = dict(cast(Mapping[str, Any], curriculum)) if is_whole else {"selection": curriculum}
    if twice := [name for name in beside if name in config]:
        raise ConfigError(f"the {twice[0]} is named twice, in `curriculum` and beside it: keep one of them")
    return Curriculum.from_config({"seed": seed, **config, **beside}, rows)


def check_kinds(args: GRPOConfig, train_dataset: Any, *, keep: Any, fill: Any, on_groups: Any) -> None:
    """Refuse arguments of a wrong kind before TRL begins to build a trainer from them."""
    if train_dataset is None:
        raise ConfigError(
            "`train_dataset` is required: it may be left out only where one `environment_factory` makes the "
            "prompts and `max_steps` says for how long"
        )
    kinds = (
        ("keep", isinstance(keep, KeepRollouts), "a KeepRollouts of curro.hosts.trl, as KeepRollouts(2)"),
        ("fill", isinstance(fill, FillSettings), "a FillSettings of curro.hosts.trl, as FillSettings(10)"),
        ("on_groups", on_groups is None or callable(on_groups), "a function that takes a GroupRecord"),
        ("train_dataset", isinstance(train_dataset, Dataset), "a `datasets.Dataset` to choose from"),
    )
    given = {"keep": keep, "fill": fill, "on_groups": on_groups, "train_dataset": type(train_dataset)}
    for name, is_right, what in kinds:
        if not is_right:
            raise ConfigError(f"{name} is {what}, not {given[name]!r:.50}")
    check_writable(Path(cast(str, args.output_dir)))


def placeholder_rows(args: GRPOConfig) -> Dataset:
    """Rows for environments that make their own prompts, one a group of a batch, as TRL makes them."""
    groups = cast(int, args.generation_batch_size) // cast(int, args.num_generations)
    return Dataset.from_dict({"prompt": [[{"role": "user", "content": ""}]] * groups})


def rows_of(dataset: Dataset, *, is_played: bool) -> DatasetRows:
    """The rows among which a curriculum chooses.

    Where environments make the prompts, what their `reset` takes stands for the prompt. Rows that are alike
    are told apart by their places.

    Args:
        is_played: whether there is an `environment_factory`, whose environments may make the prompts.
    """
    if "prompt" in dataset.column_names or not is_played:
        return DatasetRows(dataset)
    return DatasetRows([{**row, "prompt": json.dumps(row, sort_keys=True, default=str)} for row in dataset])


def reward_names(reward_funcs: Any, environment_factory: Any) -> list[str] | None:
    """The names that TRL will give reward functions, before it has built its trainer.

    None if they are not known before: an environment's own reward has its class' name.
    """
    if environment_factory is not None:
        return None
    names = []
    for function in reward_funcs if isinstance(reward_funcs, list) else [reward_funcs]:
        while isinstance(function, functools.partial):
            function = function.func
        if isinstance(function, str) or hasattr(function, "config"):
            names.append(model_name(function))
        else:
            names.append(getattr(function, "__name__", type(function).__name__))
    return names


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


def model_name(model: Any) -> str:
    """The last part of a model's name, by which TRL calls its rewards and the folder of a run."""
    return str(model if isinstance(model, str) else model.config._name_or_path).split("/")[-1]


def check_rewards(curriculum: Curriculum, args: GRPOConfig, names: Sequence[str]) -> str:
    """Refuse a signal or a gate that the reward functions of these names cannot serve.

    A band is refused if no group of 0/1 rewards can lie between its thresholds.

    Returns:
        a warning of such a band where the rewards may be graded; empty if there is none.
    """
    gate, group = curriculum.admission, cast(int, args.num_generations)
    gate_part = getattr(gate, "reward", None)
    wanted = [*(("signal", name) for name in curriculum.signal_parts), ("admission", gate_part)]
    for setting, name in wanted:
        if name is not None and name not in names:
            raise ConfigError(
                f"{setting} {name!r}: no reward function has this name{did_you_mean(name, names)}; "
                f"there are: {', '.join(names)}"
            )
    if not isinstance(gate, DifficultyBand) or curriculum.has_allocation:
        return ""
    sentence = gate.why_empty(group)
    if sentence and all(name in VERIFIERS for name in ([gate_part] if gate_part else names)):
        raise ConfigError(sentence)
    return sentence


def check_batches(
    curriculum: Curriculum, args: GRPOConfig, dataset: Dataset, when_short: str, update_option: str | None
) -> None:
    """Refuse arguments of TRL with which this curriculum's batches cannot be made or trained on.

    Args:
        when_short: what the fill does with a batch that stays short.
        update_option: an option that changes optimizer steps, if there is one.
    """
    rows, group = cast(int, args.generation_batch_size), cast(int, args.num_generations)
    images = sorted({"image", "images"}.intersection(dataset.column_names))
    gated, allotted = curriculum.has_admission, curriculum.has_allocation
    own_advantage, first = curriculum.has_advantage, curriculum.allocation.first
    conflicts = (
        (
            rows // group > len(dataset),
            f"a batch takes {rows // group} prompts and the data set has {len(dataset)}: lower "
            "per_device_train_batch_size or steps_per_generation, or raise num_generations",
        ),
        (
            gated and bool(images),
            f"admission works with text alone, and train_dataset has the column {', '.join(images)}: TRL's "
            "batches of images cannot be put together from several rounds; leave the admission out",
        ),
        (
            gated and when_short == "finish",
            "TRL trains on batches of one size: when a batch stays short, choose when_short="
            '"top-up" or "error"',
        ),
        (
            allotted and not own_advantage,
            "TRL's own advantages need groups of one size: give the curriculum an advantage beside its "
            'allocation ("leave-one-out")',
        ),
        (
            allotted and first > rows,
            f"every prompt gets {first} rollouts at first, and a generation has {rows}: raise "
            "per_device_train_batch_size or steps_per_generation, or lower `first`",
        ),
        (
            update_option is not None and bool(args.deepspeed or args.deepspeed_plugin),
            f"DeepSpeed makes its updates itself: leave out {update_option}",
        ),
    )
    for is_refused, sentence in conflicts:
        if is_refused:
            raise ConfigError(sentence)
