"""What a run is made of before its model is loaded: data, reward, environment and curriculum.

Nothing here imports torch, so that a mistake in them is answered at once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from curro.core import registry
from curro.core.curriculum import Curriculum
from curro.core.errors import ConfigError
from curro.core.text import did_you_mean
from curro.data import load_levels, load_prompts
from curro.data.prompt_set import PromptSet
from curro.data.raw import is_levels
from curro.reward import Reward, resolve_reward
from curro.reward.environments import Environment, resolve_environment
from curro.reward.environments.environment import EPISODE_REWARD, episode_reward
from curro.rollout.fill_settings import FillSettings
from curro.runs.estimate_folder import EstimateFolder, are_pass_rates
from curro.runs.folder import RunFolder
from curro.runs.reader import scale
from curro.training.settings import TrainSettings

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Inputs:
    """A run without its model; the settings are complete."""

    settings: TrainSettings
    prompts: PromptSet
    environment: Environment | None
    reward: Reward
    fill: FillSettings
    curriculum: Curriculum


def read_inputs(settings: TrainSettings) -> Inputs:
    """Read the data and build the reward and the curriculum.

    Raises:
        CurroError: one of them cannot be used, no model is named, or there are several processes.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError(
            "`curro train` is one process: for several, train with curro.hosts.trl.CurriculumGRPOTrainer "
            "in a script of your own"
        )
    if settings.vllm and find_spec("vllm") is None:
        raise ConfigError("--vllm needs the package vllm: pip install vllm, or leave --vllm out")
    prompts = _training_prompts(settings)
    settings = settings.complete(len(prompts))
    settings.check_model()
    if settings.vllm and (settings.model or "").startswith("lab:"):
        raise ConfigError(f"vLLM loads no model of the lab: leave --vllm out with --model {settings.model}")
    if settings.keep_best and not settings.eval_sources:
        raise ConfigError("--keep-best compares evaluations: name held-out prompts with --eval-data")
    names = [source_name(source) for source in settings.eval_sources]
    if len(set(names)) < len(names):
        raise ConfigError(f"--eval-data {settings.eval_data}: two data sets have the same name; rename one")
    environment = resolve_environment(settings.environment, prompts)
    check_columns(prompts, environment=environment is not None)
    reward = run_reward(settings.reward, settings, prompts)
    config = settings.curriculum_config
    if settings.known is not None:
        config, prompts, known = with_known(config, prompts, settings.known)
        settings = replace(settings, known=known)
    curriculum = Curriculum.from_config(config, prompts)
    check_signal(curriculum, reward)
    fill = FillSettings(settings.fill_limit, settings.when_short)
    return Inputs(settings, prompts, environment, reward, fill, curriculum)


def _training_prompts(settings: TrainSettings) -> PromptSet:
    """The data set, or the levels of generated problems."""
    if not is_levels(settings.data):
        return load_prompts(settings.data, limit=settings.limit, **settings.columns)
    row_settings = {"limit": settings.limit, "known": settings.known, **settings.columns}
    for name, value in row_settings.items():
        if value is not None:
            raise ConfigError(f"levels are generated, without rows to read or to count: leave {name} out")
    return load_levels(settings.data)


def check_signal(curriculum: Curriculum, reward: Reward) -> None:
    """Let the curriculum take the reward's verifiers as its signal, where the user named no signal."""
    for name in curriculum.signal_parts:
        if name not in reward.weights:
            has = ", ".join(reward.weights)
            raise ConfigError(
                f"--signal {name}: the reward has no such part{did_you_mean(name, reward.weights)}; "
                f"it has: {has}"
            )
    curriculum.default_signal(list(reward.weights))


def run_reward(spec: str, settings: TrainSettings, prompts: PromptSet) -> Reward:
    """The reward that `spec` names, with the settings' limits, or what their environment gave.

    Args:
        spec: the settings' own reward; or a benchmark suite's, where they name none.

    Raises:
        ConfigError: as `resolve_reward`; or the settings name a reward beside an environment.
    """
    if settings.environment is None:
        return resolve_reward(spec, prompts, limits=settings.reward_limits, sandbox=settings.sandbox)
    if settings.reward != "auto":
        raise ConfigError(
            f"the environment {settings.environment!r} scores its episodes: leave out the reward "
            f"{settings.reward!r}"
        )
    return episode_reward(settings.environment)


def source_name(source: str) -> str:
    """What a data set is called in metrics: a file by its name without the suffix."""
    return Path(source).stem if Path(source).is_file() else source


COLUMN = "known_rate"
"""The column that holds a folder's pass rates."""


def with_known(
    config: Mapping[str, Any], prompts: PromptSet, source: str
) -> tuple[dict[str, Any], PromptSet, str]:
    """The curriculum's config with the option `known` of its selection, and the prompts with that column.

    Args:
        source: a column of the data set, the folder of a `curro estimate`, a run's folder, or `hub:ORG/NAME`,
            an estimate on the hub; prompts are found by their keys.

    Returns:
        The config, the prompts, and the source, one on the hub with the commit that was read, so that a run
        that resumes reads the same pass rates.

    Raises:
        ConfigError: the folder or the hub's table knows none of the prompts, the rewards of an estimate are
            not in the reward range, or the selection keeps no evidence.
        EstimateError, RunError: the folder is damaged; there is no such table on the hub.
    """
    column = source
    folder = Path(source)
    if folder.is_dir():
        column, rates = COLUMN, _rates(folder, config["reward_range"])
        known = [rates.get(key) for key in prompts.keys]
        if all(rate is None for rate in known):
            raise ConfigError(f"{source} knows none of the prompts: it is of other data, by their keys")
        prompts = prompts.with_column(COLUMN, known)
    elif not any(column in row for row in prompts.rows[:1]):
        raise ConfigError(
            f"--known {source} is neither a folder nor a column; the columns are {', '.join(prompts[0])}"
        )
    selection = config["selection"]
    spec = registry.parse("selection", selection) if isinstance(selection, str) else dict(selection)
    try:
        registry.build("selection", {**spec, "known": column})
    except ConfigError as error:
        if "has no option 'known'" in str(error):
            raise ConfigError(
                f"{spec['name']} takes no --known pass rates: choose frontier or posterior, or leave it out"
            ) from None
        raise
    return {**config, "selection": {**spec, "known": column}}, prompts, source


def _rates(folder: Path, reward_range: tuple[float, float]) -> dict[str, float]:
    """Success rates by key.

    Args:
        folder: of a run, which has its own reward range, or of an estimate.
        reward_range: of an estimate's rewards, unless they are those of parts that verify the answer.
    """
    if (folder / "estimate.json").is_file():
        table, rates_N = _estimated(EstimateFolder.open(folder), reward_range)
    else:
        run = RunFolder.open(folder)
        table = run.table()
        rates_N = scale(run.config).success_rate(table["reward_mean"].to_numpy())
    pairs = zip(table["key"].to_pylist(), np.clip(rates_N, 0.0, 1.0).tolist(), strict=True)
    return {key: rate for key, rate in pairs if rate == rate}


def _estimated(estimate: EstimateFolder, reward_range: tuple[float, float]) -> tuple[pa.Table, np.ndarray]:
    """An estimate's table, and the success rate (N,) of each of its rows."""
    low, high = (0.0, 1.0) if "pass_rates_of" in estimate.settings else reward_range
    table = estimate.table()
    rates_N = (table["mean"].to_numpy() - low) / (high - low)
    if not are_pass_rates(rates_N, table["variance"].to_numpy() / (high - low) ** 2):
        raise ConfigError(
            f"the rewards of the estimate in {estimate.path} are not from {low:g} to {high:g}, so --known "
            "finds no pass rates there: name their range with --reward-range"
        )
    return table, rates_N


RESERVED = (
    *("prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric"),
    *("environments", "image", "images", EPISODE_REWARD),
)
"""Columns that TRL would take for something else in the row of an episode."""


def check_columns(prompts: PromptSet, *, environment: bool) -> None:
    """Raises ConfigError where an environment needs rows that TRL would misunderstand."""
    taken = sorted(set(prompts.columns).intersection(RESERVED)) if environment else []
    if taken:
        raise ConfigError(
            f"{prompts.source} has the columns {', '.join(taken)}, which mean something else in TRL: "
            "give them other names"
        )
