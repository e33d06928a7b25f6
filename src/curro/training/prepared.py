"""What a training run needs, loaded and checked before a folder is made for it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from curro.curriculum import Curriculum
from curro.data import PromptSet, load_prompts
from curro.environments import Environment, resolve_environment
from curro.environments.environment import episode_reward
from curro.errors import ConfigError
from curro.reward import Reward, resolve_reward
from curro.rollout.engines.models import load_model
from curro.rollout.fill_settings import FillSettings
from curro.training.known import with_known
from curro.training.rows import check_columns
from curro.training.settings import TrainSettings


@dataclass(frozen=True)
class Prepared:
    """All that a run needs, found to be right before a folder is made for it."""

    settings: TrainSettings
    prompts: PromptSet
    held_out: PromptSet | None
    environment: Environment | None
    reward: Reward
    fill: FillSettings
    curriculum: Curriculum
    model: Any
    tokenizer: Any


def prepare(settings: TrainSettings) -> Prepared:
    """Load the data and the model and build the curriculum.

    Raises:
        CurroError: of whatever is wrong with the data, the reward, the curriculum or the model, or several
            processes.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError(
            "`curro train` is one process: for several, train with curro.hosts.trl.CurriculumGRPOTrainer "
            "in a script of your own"
        )
    prompts = load_prompts(settings.data, limit=settings.limit, **settings.columns)
    settings = settings.complete(len(prompts))
    if settings.model is None:
        raise ConfigError(f"name a model for {settings.data}: --model with a folder, a hub id or lab:NAME")
    environment = resolve_environment(settings.environment, prompts)
    check_columns(prompts, environment=environment is not None)
    reward = _reward(settings, prompts)
    fill = FillSettings(settings.fill_limit, settings.when_short)
    config = settings.curriculum_config
    if settings.known is not None:
        config, prompts = with_known(config, prompts, settings.known)
    curriculum = Curriculum.from_config(config, prompts)
    held_out = _held_out(settings)
    model, tokenizer = load_model(settings.model)
    return Prepared(settings, prompts, held_out, environment, reward, fill, curriculum, model, tokenizer)


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


def _held_out(settings: TrainSettings) -> PromptSet | None:
    if settings.eval_data is None:
        return None
    return load_prompts(settings.eval_data, split="test", limit=settings.eval_prompts, **settings.columns)
