"""What a training run needs, loaded and checked before a folder is made for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from datasets import Dataset

from curro import registry
from curro.curriculum import Curriculum
from curro.data import load_levels, load_prompts
from curro.data.levels import Levels
from curro.data.prompt_set import PromptSet
from curro.environments import Environment, resolve_environment
from curro.environments.environment import EPISODE_REWARD, episode_reward
from curro.errors import ConfigError
from curro.evaluation.estimate_folder import EstimateFolder
from curro.evaluation.estimate_hub import PREFIX, pull
from curro.evaluation.suites import SUITES, suite_prompts
from curro.prompts import PromptTable
from curro.reward import Reward, resolve_reward, trl_reward
from curro.reward.adapters import completion_text, facts
from curro.reward.reward import Row, Score
from curro.rollout.engines.models import load_model
from curro.rollout.fill_settings import FillSettings
from curro.runs.folder import RunFolder
from curro.text import did_you_mean
from curro.training.settings import TrainSettings

COLUMN = "known_rate"
"""The column that holds a folder's pass rates."""


def with_known(
    config: Mapping[str, Any], prompts: PromptSet, source: str
) -> tuple[dict[str, Any], PromptSet]:
    """The curriculum's config with the option `known` of its selection, and the prompts with that column.

    Args:
        source: a column of the data set, the folder of a `curro estimate`, a run's folder, or `hub:ORG/NAME`,
            an estimate on the hub; prompts are found by their keys.

    Raises:
        ConfigError: the folder or the hub's table knows none of the prompts, or the selection keeps no
            evidence.
        EstimateError, RunError: the folder is damaged; there is no such table on the hub.
    """
    column = source
    folder = pull(source).path if source.startswith(PREFIX) else Path(source)
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
    return {**config, "selection": {**spec, "known": column}}, prompts


def _rates(folder: Path, reward_range: tuple[float, float]) -> dict[str, float]:
    """Success rates by key."""
    if (folder / "estimate.json").is_file():
        table, name = EstimateFolder.open(folder).table(), "mean"
    else:
        table, name = RunFolder.open(folder).table(), "reward_mean"
    scale = PromptTable(1, reward_range=reward_range)
    pairs = zip(table["key"].to_pylist(), table[name].to_pylist(), strict=True)
    return {
        key: min(max(float(scale.success_rate(mean)), 0.0), 1.0)
        for key, mean in pairs
        if mean is not None and mean == mean
    }


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


def training_set(prompts: PromptSet, *, environment: bool) -> Dataset | Levels:
    """The rows that TRL gets: prompts, their numbers and answers; for episodes all columns.

    The answers identify the data set. Levels stay what they are: TRL's trainer generates their problems.
    """
    if isinstance(prompts, Levels):
        return prompts
    rows = prompts.to_hf()
    if environment:
        return rows
    return rows.select_columns(
        [name for name in rows.column_names if name in ("prompt", "prompt_id", "answer")]
    )


def row_rewards(
    reward: Reward, prompts: PromptSet, ends: Collection[int], *, environment: bool
) -> list[Callable[..., Sequence[Score]]]:
    """A reward function for TRL for each of the reward's parts, named as the part.

    The functions take `training_set`'s columns and give the verifier the data set's own rows. The rows of
    generated problems are those columns.

    Args:
        ends: the tokens that end a sequence.
    """
    if environment:
        return [trl_reward(reward)]
    named = _LatestScores(reward, prompts, ends)
    return [_part(named, name) for name in reward.weights]


class _LatestScores:
    """The scores of all parts for the latest batch: TRL asks for one part after the other."""

    def __init__(self, reward: Reward, prompts: PromptSet, ends: Collection[int]) -> None:
        self.reward, self.prompts, self.ends = reward, prompts, ends
        self.batch: Any = None
        self.scores: dict[str, list[Score]] = {}

    def __call__(
        self, completions: Sequence[Any], prompt_id: Sequence[int], ids: Any, columns: Mapping[str, Any]
    ) -> dict[str, Any]:
        if self.batch is not completions:
            rows = facts(self._rows(prompt_id, columns), ids, self.ends)
            self.scores = self.reward.named([completion_text(text) for text in completions], rows)
            self.batch = completions
        return self.scores

    def _rows(self, prompt_id: Sequence[int], columns: Mapping[str, Any]) -> list[Row]:
        if not isinstance(self.prompts, Levels):
            return [dict(self.prompts[i]) for i in prompt_id]
        names = ("prompt", "answer", "metadata", "key", "source")
        values = [columns["prompts"], *(columns[name] for name in names[1:])]
        return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def _part(named: _LatestScores, name: str) -> Callable[..., Sequence[Score]]:
    def function(
        *, completions: Sequence[Any], prompt_id: Sequence[int], completion_ids: Any = None, **columns: Any
    ) -> Sequence[Score]:
        return named(completions, prompt_id, completion_ids, columns)[name]

    function.__name__ = name
    return function


@dataclass(frozen=True)
class HeldOut:
    """Held-out prompts.

    Attributes:
        name: of the suite or the data set, where there are several; else "".
        prompts: those that are evaluated.
        reward: what scores them.
        environment: what plays them, for tasks of several turns.
    """

    name: str
    prompts: PromptSet
    reward: Reward
    environment: Environment | None


@dataclass(frozen=True)
class Prepared:
    """All that a run needs, loaded and checked."""

    settings: TrainSettings
    prompts: PromptSet
    held_out: Sequence[HeldOut]
    environment: Environment | None
    reward: Reward
    fill: FillSettings
    curriculum: Curriculum
    model: Any
    tokenizer: Any


def prepare(settings: TrainSettings) -> Prepared:
    """Load the data and the model and build the curriculum.

    Raises:
        CurroError: the data, the reward, the curriculum or the model cannot be used, or there are several
            processes.
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
    if settings.model is None:
        raise ConfigError(f"name a model for {settings.data}: --model with a folder, a hub id or lab:NAME")
    if settings.vllm and settings.model.startswith("lab:"):
        raise ConfigError(f"vLLM loads no model of the lab: leave --vllm out with --model {settings.model}")
    if settings.keep_best and not settings.eval_sources:
        raise ConfigError("--keep-best compares evaluations: name held-out prompts with --eval-data")
    names = [source_name(source) for source in settings.eval_sources]
    if len(set(names)) < len(names):
        raise ConfigError(f"--eval-data {settings.eval_data}: two data sets have the same name; rename one")
    environment = resolve_environment(settings.environment, prompts)
    check_columns(prompts, environment=environment is not None)
    reward = _reward(settings, prompts)
    fill = FillSettings(settings.fill_limit, settings.when_short)
    config = settings.curriculum_config
    if settings.known is not None:
        config, prompts = with_known(config, prompts, settings.known)
    curriculum = Curriculum.from_config(config, prompts)
    check_signal(curriculum, reward)
    model, tokenizer = load_model(settings.model)
    chat = bool(getattr(tokenizer, "chat_template", None))
    held_out = [_held_out(settings, source, reward, environment, chat) for source in settings.eval_sources]
    return Prepared(settings, prompts, held_out, environment, reward, fill, curriculum, model, tokenizer)


def _training_prompts(settings: TrainSettings) -> PromptSet:
    """The data set, or the levels of generated problems.

    Raises:
        ConfigError: levels with a setting that is about a data set.
    """
    if not settings.data.startswith("levels:"):
        return load_prompts(settings.data, limit=settings.limit, **settings.columns)
    given = {"limit": settings.limit, "known": settings.known, **settings.columns}
    for name, value in given.items():
        if value is not None:
            raise ConfigError(f"levels are generated, without rows to read or to count: leave {name} out")
    return load_levels(settings.data)


def check_signal(curriculum: Curriculum, reward: Reward) -> None:
    """Let the curriculum take the reward's verifiers as its signal, where the user named no signal.

    Raises:
        ConfigError: the user named a part that the reward does not have.
    """
    for name in curriculum.signal_parts:
        if name not in reward.weights:
            has = ", ".join(reward.weights)
            raise ConfigError(
                f"--signal {name}: the reward has no such part{did_you_mean(name, reward.weights)}; "
                f"it has: {has}"
            )
    curriculum.default_signal(list(reward.weights))


def _reward(settings: TrainSettings, prompts: PromptSet) -> Reward:
    if settings.environment is None:
        return resolve_reward(
            settings.reward, prompts, limits=settings.reward_limits, sandbox=settings.sandbox
        )
    if settings.reward != "auto":
        raise ConfigError(
            f"the environment {settings.environment!r} scores its episodes: leave out the reward "
            f"{settings.reward!r}"
        )
    return episode_reward(settings.environment)


def _held_out(
    settings: TrainSettings, source: str, reward: Reward, environment: Environment | None, chat: bool
) -> HeldOut:
    """The prompts of a suite with its own reward, or of a data set with the run's."""
    name = "" if len(settings.eval_sources) == 1 else source_name(source)
    if source in SUITES:
        suite = SUITES[source]
        prompts = suite_prompts(suite, limit=settings.eval_prompts, chat=chat)
        own = resolve_reward(suite.reward, prompts, sandbox=settings.sandbox)
        return HeldOut(name, prompts, own, None)
    prompts = load_prompts(source, split="test", limit=settings.eval_prompts, **settings.columns)
    return HeldOut(name, prompts, reward, environment)


def source_name(source: str) -> str:
    """What a data set is called in metrics: a file by its name without the suffix."""
    return Path(source).stem if Path(source).is_file() else source
