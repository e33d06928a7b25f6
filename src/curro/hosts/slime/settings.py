"""The section `curro` of `--custom-config-path`, and what of slime's settings it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curro import registry
from curro.errors import ConfigError
from curro.policy import refuse_policy
from curro.run_writer import KeepRollouts

HOOKS = "curro.hosts.slime"
LIMIT = "fill_limit"
FOLDER, KEEP, MEGABYTES = "run_folder", "keep_rollouts", "keep_megabytes"


@dataclass(frozen=True)
class SlimeSettings:
    """What stands under `curro`.

    Attributes:
        curriculum: what `Curriculum.from_config` takes.
        fill_limit: the most groups for one batch, in batches.
        run_folder: where the run is written to, for `curro watch`; None for nowhere.
        keep: how many rollouts of each group are kept there.
    """

    curriculum: dict[str, Any]
    fill_limit: float
    run_folder: Path | None
    keep: KeepRollouts


def read(args: Any) -> SlimeSettings:
    """The settings of slime's `args`.

    Raises:
        ConfigError: a setting is missing, or one that cannot go with a curriculum is there.
    """
    section = getattr(args, "curro", None)
    if not isinstance(section, Mapping) or "selection" not in section:
        raise ConfigError(
            "the configuration names no method: write `curro: {selection: prioritized-replay}`, say, into "
            "the file of --custom-config-path"
        )
    if "allocation" in section:
        raise ConfigError(
            "--n-samples-per-prompt is the same for all prompts, so curro.allocation has no effect: "
            "leave it out"
        )
    if getattr(args, "rollout_shuffle", False):
        raise ConfigError("the curriculum chooses the order: leave --rollout-shuffle out")
    config = {name: value for name, value in section.items() if name not in (LIMIT, FOLDER, KEEP, MEGABYTES)}
    _need(args, "rollout_all_samples_process_path", "all_samples_process")
    selection = registry.build("selection", config["selection"])
    refuse_policy(selection.needs_policy, "slime")
    if config.get("admission") is not None or selection.replaces_uncredited:
        _need(args, "dynamic_sampling_filter_path", "dynamic_filter")
    if config.get("advantage") is not None:
        _need(args, "custom_reward_post_process_path", "reward_post_process")
    limit = section.get(LIMIT, 10.0)
    if not isinstance(limit, int | float) or not limit >= 1:
        raise ConfigError(f"curro.{LIMIT} is a number of batches from 1, not {limit!r}")
    folder = section.get(FOLDER)
    if folder is not None and not isinstance(folder, str):
        raise ConfigError(f"curro.{FOLDER} is a path, not {folder!r}")
    keep = KeepRollouts(section.get(KEEP, 0), section.get(MEGABYTES, 1000.0))
    return SlimeSettings(config, float(limit), None if folder is None else Path(folder), keep)


def _need(args: Any, setting: str, hook: str) -> None:
    if getattr(args, setting, None) != f"{HOOKS}.{hook}":
        option = setting.replace("_", "-")
        raise ConfigError(f"the curriculum would not see what it needs: add --{option} {HOOKS}.{hook}")
