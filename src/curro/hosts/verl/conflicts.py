"""Settings of verl under which a curriculum would be wrong without a word: each is refused by name."""

from __future__ import annotations

import math
from typing import Any

from curro.errors import ConfigError
from curro.hosts.verl.settings import VerlSettings


def refuse_conflicts(config: Any, settings: VerlSettings) -> None:
    """Look for what cannot go together, before anything is started.

    Raises:
        ConfigError: naming the setting of verl that is to be changed.
    """
    algorithm, data, v1 = config.algorithm, config.data, config.trainer.v1
    filters = algorithm.get("filter_groups", None)
    found = [
        (
            data.dataloader_num_workers != 0,
            f"data.dataloader_num_workers={data.dataloader_num_workers} prefetches prompts that were chosen "
            "before the latest rewards were known: set data.dataloader_num_workers=0",
        ),
        (
            bool(v1.sampler.custom_sampler.get("path", None)),
            "trainer.v1.sampler.custom_sampler takes the place of the replay buffer that reports to the "
            "curriculum: leave it out",
        ),
        (
            settings.admission is not None and filters is not None and filters.get("enable", False),
            "algorithm.filter_groups and curro.admission both decide what is trained on: leave "
            "algorithm.filter_groups.enable out; curro.admission=signal is the same filter",
        ),
        (
            config.reward.reward_model.enable and not config.reward.reward_model.enable_resource_pool,
            "the reward model on the trainer's own GPUs gives its rewards after the batch is put together: "
            "set reward.reward_model.enable_resource_pool=True",
        ),
        (
            v1.trainer_mode == "curro_separate_async" and v1.separate_async.hybrid_rollout.enable_switch,
            "verl lends the trainer's GPUs out by a count of finished groups, in which those that the "
            "curriculum rejects are too: set trainer.v1.separate_async.hybrid_rollout.enable_switch=False",
        ),
        (
            config.skip.rollout_tq.enable,
            "skip.rollout_tq replays rollouts of prompts that the curriculum did not choose: leave it out",
        ),
    ]
    if settings.advantage is not None:
        found += [
            (
                _has_critic(config),
                "curro.advantage takes the place of verl's advantages, and no critic is needed: set "
                "algorithm.adv_estimator=grpo, and leave critic.enable out",
            ),
            (
                algorithm.use_kl_in_reward,
                "curro.advantage is of the reward alone: set algorithm.use_kl_in_reward=False, and "
                "actor_rollout_ref.actor.use_kl_loss=True where a KL term is wanted",
            ),
        ]
    if settings.asks_policy:
        found += _for_auxiliary(config)
    for wrong, message in found:
        if wrong:
            raise ConfigError(message)


def refuse_large_batch(config: Any, settings: VerlSettings, mode: str, prompts: int) -> None:
    """Look for more prompts in flight together than the data set has.

    Args:
        mode: verl's, whose warm-up keeps prompts in flight ahead of the batch.

    Raises:
        ConfigError: naming the settings of verl that are to be lowered.
    """
    batch = config.data.train_batch_size
    ahead = math.floor(config.trainer.v1.get(mode, {}).get("num_warmup_batches", 0) * batch)
    if batch + ahead > prompts and not settings.may_repeat:
        window = f", and trainer.v1.{mode}.num_warmup_batches keeps {ahead} more in flight"
        raise ConfigError(
            f"a batch takes {batch} prompts{window if ahead else ''}; the data set has {prompts}: lower "
            f"data.train_batch_size{' or num_warmup_batches' if ahead else ''}"
        )


def _for_auxiliary(config: Any) -> list[tuple[bool, str]]:
    actor = config.actor_rollout_ref.actor
    epochs = actor.ppo_epochs
    distillation = config.get("distillation", None)
    return [
        (
            epochs > 1,
            f"judgments are trained on once, as REINFORCE has it, and actor.ppo_epochs={epochs} would "
            "repeat them: set actor_rollout_ref.actor.ppo_epochs=1",
        ),
        (
            _has_critic(config),
            "judgments have no place in a critic's batch: set algorithm.adv_estimator=grpo",
        ),
        (
            distillation is not None and distillation.get("enabled", False),
            "judgments join the loss of PPO, and distillation has another: leave distillation.enabled out",
        ),
    ]


def _has_critic(config: Any) -> bool:
    """As verl decides it."""
    chosen = config.critic.get("enable", None)
    return config.algorithm.adv_estimator == "gae" if chosen is None else bool(chosen)
