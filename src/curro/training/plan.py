"""What a run is made of, built once from its settings: data, held-out prompts, reward, curriculum.

`plan` raises at the first thing that no run could use. It imports no torch and loads no model, so that a
mistake is answered in a second; the model is loaded when it is first asked for.
"""

from __future__ import annotations

import importlib.util
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from curro.core import registry
from curro.core.curriculum import Curriculum
from curro.core.errors import ConfigError
from curro.core.groups import verifying_parts
from curro.core.loading import PROVIDERS
from curro.core.registry import REWARDS
from curro.core.text import did_you_mean
from curro.data import load_prompts
from curro.data.files import is_data_file, source_files
from curro.data.media import first_media
from curro.data.prompt_set import PromptSet
from curro.reward import Reward, resolve_reward
from curro.reward.environments import Environment, resolve_environment
from curro.reward.environments.environment import EPISODE_REWARD, episode_reward
from curro.reward.resolve import check_columns
from curro.rollout.fill_settings import FillSettings
from curro.runs.estimate_folder import EstimateFolder, are_pass_rates
from curro.runs.folder import RunFolder
from curro.runs.reader import scale
from curro.training.evaluation.code_suites import askable, with_heads
from curro.training.evaluation.suites import SUITES, suite_prompts
from curro.training.settings import TrainSettings


@dataclass(frozen=True)
class HeldOut:
    """Held-out prompts.

    Attributes:
        name: the suite's or the data set's, where there are several; else "".
        is_suite: whether a model without a chat template is asked each prompt's one message as plain text.
    """

    name: str
    prompts: PromptSet
    reward: Reward
    environment: Environment | None
    is_suite: bool = False

    def for_model(self, tokenizer: Any) -> HeldOut:
        """The same prompts in the form that the model reads."""
        if not self.is_suite or getattr(tokenizer, "chat_template", None):
            return self
        texts = [row["prompt"][0]["content"] for row in self.prompts]
        return replace(self, prompts=self.prompts.with_column("prompt", texts))


@dataclass(frozen=True)
class Plan:
    """A run before it starts; the settings are complete."""

    settings: TrainSettings
    prompts: PromptSet
    held_out: Sequence[HeldOut]
    environment: Environment | None
    reward: Reward
    fill: FillSettings
    curriculum: Curriculum

    @cached_property
    def loaded(self) -> tuple[Any, Any]:
        """The model and its tokenizer."""
        from curro.rollout.engines.models import load_model

        return load_model(str(self.settings.model))

    @property
    def model(self) -> Any:
        return self.loaded[0]

    @property
    def tokenizer(self) -> Any:
        return self.loaded[1]

    def check_success(self) -> None:
        """Refuse weights by which a completion that is right has not the reward of complete success.

        Raises:
            ConfigError: such weights, of a reward all of whose parts verify the answer.
        """
        weights, table = self.reward.weights, self.curriculum.table
        if table.signal_parts or table.reward_range != (0.0, 1.0):
            return
        highest = sum(weight for weight in weights.values() if weight > 0)
        is_verifier = len(verifying_parts(weights)) == len(weights)
        if is_verifier and highest > 0 and not math.isclose(highest, 1):
            raise ConfigError(
                f"--reward {self.reward.name}: a completion that is right in every part gets {highest:g}, "
                f"and complete success is 1: set --reward-range=0,{highest:g}, or weights that sum to 1"
            )

    def overlaps(self) -> list[str]:
        """A sentence for each held-out set of which some problems, by prompt and answer, are trained on."""
        sentences = []
        for part in self.held_out:
            with_answer_N = np.array([row["answer"] is not None for row in part.prompts])
            trained_N = np.isin(part.prompts.row_digests, self.prompts.row_digests) & with_answer_N
            if trained_N.any():
                name = f" of {part.name}" if part.name else ""
                sentences.append(
                    f"{trained_N.sum():,} of the {len(part.prompts):,} held-out problems{name} are trained "
                    "on too: what is learnt by heart counts in their accuracy"
                )
        return sentences


def plan(settings: TrainSettings) -> Plan:
    """Build a run from its settings, each part once.

    Raises:
        CurroError: a part cannot be used, no model is named, or there are several processes.
    """
    check_names(settings)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError(
            "`curro train` is one process: for several, train with curro.hosts.trl.CurriculumGRPOTrainer "
            "in a script of your own"
        )
    if settings.vllm and find_spec("vllm") is None:
        raise ConfigError("--vllm needs the package vllm: pip install vllm, or leave --vllm out")
    prompts = load_prompts(settings.data, limit=settings.limit, **settings.columns)
    settings = settings.complete(len(prompts))
    settings.check_model()
    if settings.vllm and (settings.model or "").startswith("lab:"):
        raise ConfigError(f"vLLM loads no model of the lab: leave --vllm out with --model {settings.model}")
    if settings.keep_best and not settings.eval_sources:
        raise ConfigError("--keep-best compares evaluations: name held-out prompts with --eval-data")
    names = [source_name(source) for source in settings.eval_sources]
    if len(set(names)) < len(names):
        raise ConfigError(f"--eval-data {settings.eval_data}: two data sets have the same name; rename one")
    check_text(prompts)
    environment = resolve_environment(settings.environment, prompts)
    if environment is not None:
        _check_episode_columns(prompts)
    reward = run_reward(settings.reward, settings, prompts)
    config = settings.curriculum_config
    if settings.known is not None:
        config, prompts = with_known(config, prompts, settings.known)
    curriculum = Curriculum.from_config(config, prompts)
    curriculum.default_signal(list(reward.weights))
    curriculum.check_reward(reward.weights, settings.rollouts_per_prompt or 1, setting="--signal")
    held_out = [_held_out(settings, source, reward, environment) for source in settings.eval_sources]
    fill = FillSettings(settings.fill_limit, settings.when_short)
    return Plan(settings, prompts, held_out, environment, reward, fill, curriculum)


def check_names(settings: TrainSettings) -> None:
    """Refuse names that stand for nothing: methods, files, models, rewards, loggers. Data is not read yet."""
    for kind, spec in settings.curriculum_config.items():
        if kind in registry.BUILTIN and spec is not None:
            registry.build(kind, spec)
    for source in settings.eval_sources:
        meant = "" if source in SUITES or Path(source).exists() else did_you_mean(source, SUITES)
        if meant:
            raise ConfigError(f"--eval-data {source}: no suite and no file has this name{meant}")
    sources = [(source, "test") for source in settings.eval_sources if source not in SUITES]
    for source, split in [(settings.data, "train"), *sources]:
        if source.partition(":")[0] not in PROVIDERS and _is_local(source):
            for _ in source_files(source, split):
                pass
    if settings.model is not None:
        check_model(settings.model)
    if not re.search(r"\b(auto|lab)\b|:", settings.reward):  # these need the data, or are the user's own
        resolve_reward(settings.reward, sandbox=settings.sandbox)
    logger = settings.log
    if logger is not None and importlib.util.find_spec(logger) is None:
        raise ConfigError(f"--log {logger} needs the package {logger}: pip install {logger}")


def check_model(name: str) -> None:
    """Raises ConfigError where a model's name can only mean a folder that does not exist.

    Names of the hub have at most one slash.
    """
    path = Path(name)
    files = ("config.json", "adapter_config.json")  # the latter of a LoRA adapter, which names its base model
    if (path / "metrics.jsonl").is_file() and (path / "checkpoints").is_dir():
        raise ConfigError(f"{name!r} is the folder of a run: once it has ended, its model is {name}/model")
    if path.is_dir() and not any((path / file).is_file() for file in files):
        raise ConfigError(f"the folder {name!r} holds no model: it has no {' and no '.join(files)}")
    if name.partition(":")[0] in PROVIDERS or path.exists():
        return
    near = [str(item) for item in path.parent.iterdir() if item.is_dir()] if path.parent.is_dir() else []
    meant = did_you_mean(str(path), near)
    if _is_local(name) or name.count("/") > 1 or meant:
        raise ConfigError(
            f"there is no model at {name!r}{meant}: name a folder, a GGUF file, a hub id or lab:NAME"
        )


def _is_local(name: str) -> bool:
    """Whether a name cannot be one of the hub's."""
    path = Path(name)
    return name.startswith((".", "/", "~")) or path.suffix == ".gguf" or is_data_file(path) or path.exists()


TRAINING_ON_IMAGES = (
    "curro train has text models only: train on images with curro.hosts.trl.CurriculumGRPOTrainer, or take "
    "text data"
)


def check_text(
    prompts: PromptSet, instead: str = TRAINING_ON_IMAGES, *, are_messages_text: bool = True
) -> None:
    """Refuse prompts with images, video or sound, which a text model would answer without having seen them.

    With `are_messages_text=False`, messages may have parts that are no text.
    """
    rows = prompts if are_messages_text else ({**row, "prompt": ""} for row in prompts)
    first = first_media(rows, prompts.columns)
    if first is not None:
        number, kinds = first
        raise ConfigError(
            f"row {number} of {prompts.source} has more than text ({', '.join(kinds)}), and {instead}"
        )


def run_reward(spec: str, settings: TrainSettings, prompts: PromptSet) -> Reward:
    """The reward that `spec` names, with the settings' limits, or what their environment gave.

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


def _held_out(
    settings: TrainSettings, source: str, reward: Reward, environment: Environment | None
) -> HeldOut:
    """The prompts of a suite with its own reward, or of a data set with the run's."""
    name = "" if len(settings.eval_sources) == 1 else source_name(source)
    if source in SUITES:
        suite = SUITES[source]
        prompts, _ = askable(source, suite_prompts(suite, limit=settings.eval_prompts))
        own = resolve_reward(suite.reward, prompts, sandbox=settings.sandbox)
        return HeldOut(name, prompts, with_heads(own, prompts), None, is_suite=True)
    prompts = load_prompts(source, split="test", limit=settings.eval_prompts, **settings.columns)
    check_text(prompts)
    for part in reward.weights if environment is None else ():
        if (kind := part.partition(":")[0]) in REWARDS:
            check_columns(kind, prompts)
    return HeldOut(name, prompts, reward, environment)


COLUMN = "known_rate"
"""The column that holds a folder's pass rates."""


def with_known(
    config: Mapping[str, Any], prompts: PromptSet, source: str
) -> tuple[dict[str, Any], PromptSet]:
    """The curriculum's config with the option `known` of its selection, and the prompts with that column.

    Args:
        source: a column of the data set, or the folder of a `curro estimate` or of a run; prompts are found
            by their keys.

    Raises:
        ConfigError: the folder has a pass rate for none of the prompts, or the rewards of an estimate are not
            in the reward range.
        RunError: the folder is damaged.
    """
    column = source
    if Path(source).is_dir():
        column, rates = COLUMN, _rates(Path(source), config["reward_range"])
        known = [rates.get(key) for key in prompts.keys]
        if all(rate is None for rate in known):
            raise ConfigError(
                f"{source} has a pass rate for none of these prompts: it was made from other data"
            )
        prompts = prompts.with_column(COLUMN, known)
    elif not any(column in row for row in prompts.rows[:1]):
        raise ConfigError(
            f"--known {source} is neither a folder nor a column; the columns are {', '.join(prompts[0])}"
        )
    selection = config["selection"]
    spec = registry.parse("selection", selection) if isinstance(selection, str) else dict(selection)
    return {**config, "selection": {**spec, "known": column}}, prompts


def _rates(folder: Path, reward_range: tuple[float, float]) -> dict[str, float]:
    """Success rates by key, of a run's folder, which has its own reward range, or of an estimate's.

    An estimate's rewards have the range given here, unless parts that verify the answer gave them.
    """
    if (folder / "estimate.json").is_file():
        estimate = EstimateFolder.open(folder)
        low, high = (0.0, 1.0) if "pass_rates_of" in estimate.settings else reward_range
        table = estimate.table()
        rates_N = (table["mean"].to_numpy() - low) / (high - low)
        if not are_pass_rates(rates_N, table["variance"].to_numpy() / (high - low) ** 2):
            raise ConfigError(
                f"the rewards of the estimate in {folder} are not from {low:g} to {high:g}, so --known "
                "finds no pass rates there: name their range with --reward-range"
            )
    else:
        run = RunFolder.open(folder)
        table = run.table()
        rates_N = scale(run.config).success_rate(table["reward_mean"].to_numpy())
    pairs = zip(table["key"].to_pylist(), np.clip(rates_N, 0.0, 1.0).tolist(), strict=True)
    return {key: rate for key, rate in pairs if rate == rate}


RESERVED = (
    *("prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric"),
    *("environments", "image", "images", EPISODE_REWARD),
)
"""Columns that TRL would take for something else in the row of an episode."""


def _check_episode_columns(prompts: PromptSet) -> None:
    if taken := sorted(set(prompts.columns).intersection(RESERVED)):
        raise ConfigError(
            f"{prompts.source} has the columns {', '.join(taken)}, which mean something else in TRL: "
            "give them other names"
        )
