"""The curriculum that a trainer's arguments describe, and which of TRL's arguments go with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from datasets import Dataset
from trl import GRPOConfig

from curro.core import registry
from curro.core.curriculum import Curriculum
from curro.core.errors import ConfigError
from curro.core.files import check_writable
from curro.core.selection import Selection
from curro.core.text import did_you_mean
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
    args: GRPOConfig | None, train_dataset: Any, *, keep: Any, fill: Any, on_groups: Any, is_played: bool
) -> None:
    """Refuse arguments of a wrong kind before TRL begins to build a trainer of them.

    Args:
        is_played: whether there is an `environment_factory`, with which TRL alone needs no prompts.
    """
    if not isinstance(keep, KeepRollouts):
        raise ConfigError(f"keep is a curro.hosts.trl.KeepRollouts, as KeepRollouts(2), not {keep!r:.50}")
    if not isinstance(fill, FillSettings):
        raise ConfigError(
            f"fill is a curro.hosts.trl.FillSettings, as FillSettings(limit=10), not {fill!r:.50}"
        )
    if on_groups is not None and not callable(on_groups):
        raise ConfigError(f"on_groups is a function that is called with a GroupRecord, not {on_groups!r:.50}")
    if is_played and not (isinstance(train_dataset, Dataset) and "prompt" in train_dataset.column_names):
        raise ConfigError(
            "a curriculum chooses among rows that differ, also where environments make the prompts: give a "
            "train_dataset with a column 'prompt' and the columns that the environment's reset takes"
        )
    if isinstance(train_dataset, Dataset) and "prompt" not in train_dataset.column_names:
        raise ConfigError(
            f"train_dataset has no column 'prompt'; it has {', '.join(train_dataset.column_names)}: "
            "rename the column that holds the prompts"
        )
    if args is None:
        return
    if type(args.seed) is not int or args.seed < 0:
        raise ConfigError(f"seed must be a whole number of 0 or more, not {args.seed!r:.50}")
    check_writable(Path(cast(str, args.output_dir)))


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


def check_batch(args: GRPOConfig, prompts: int) -> int:
    """How many groups of `num_generations` rollouts a batch has."""
    batch = cast(int, args.generation_batch_size) // cast(int, args.num_generations)
    if batch > prompts:
        raise ConfigError(
            f"a batch takes {batch} prompts and the data set has {prompts}: lower "
            "per_device_train_batch_size or steps_per_generation, or raise num_generations"
        )
    return batch


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
