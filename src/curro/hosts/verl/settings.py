"""The settings under the key `curro` of verl's configuration, and what of verl's own breaks a curriculum."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from omegaconf import OmegaConf

from curro.core import registry
from curro.core.bases import refuse
from curro.core.configuration import BASES, SETTINGS, read_signal
from curro.core.errors import ConfigError
from curro.core.groups import verifying_parts
from curro.core.policy import PolicyUse
from curro.core.text import did_you_mean
from curro.reward.resolve import part_names
from curro.rollout.fill_settings import FillSettings
from curro.runs.writer import KeepRollouts

KEY = "curro"
REWARD_MODULE = "curro.hosts.verl.reward"

MANAGER = "curro"
"""The name of `curro.hosts.verl.reward.CompletionRewardManager` in `reward.reward_manager.name`."""

SCORED = "curro_scored"
"""In verl's `reward_extra_info`: 0 where a reward could not be computed, though verl has a number for it."""

FILL_ADVICE = {
    "rejected": "widen curro.admission",
    "failed": "look for their errors in verl's log",
    "stale": "raise trainer.v1.sampler.max_off_policy_threshold",
    "expired": "raise trainer.v1.sampler.max_off_policy_threshold",
    "filtered": "choose another algorithm.filter_groups.metric or other data",
    "limit": "raise curro.fill_limit",
    "short": "",
}
"""What to do about a short batch, in verl's settings (`curro.rollout.fill.ADVICE`)."""


class VerlSettings:
    """The settings under the key `curro` of verl's configuration.

    The names of `Curriculum`'s arguments describe the curriculum, or `curriculum`, the text of
    `--curriculum`, stands for some of them. An allocation's budget is the number of prompts that are fetched
    or looked at together times `actor_rollout_ref.rollout.n`; a signal is a number of verl's
    `reward_extra_info`.

    Args:
        section: a mapping, or what OmegaConf has for one; None where there is no such section.

    Attributes:
        curriculum: what `Curriculum.from_config` takes, with the gate "everything" where none is named and
            the selection leaves groups out.
        selection, advantage, admission, allocation: the methods that it names, None where it names none.
        fill_limit: how many groups may end for a batch, in batches, before the run ends with an error.
        keep: how many rollouts of each group are written down to be read (`keep_rollouts`), and how many
            megabytes they may take (`keep_megabytes`).
        owner_gpus: how many GPUs the owner of the curriculum has for PCL's value model, which runs on the CPU
            without one.
        no_check: leave out the check of 200 rows with the reward before the run.

    Raises:
        ConfigError: no selection, a name or option that no method has, importance weights without an
            advantage that they multiply, an admission that verl's batches cannot be filled with, a limit
            below 1, a negative number of rollouts to keep.
    """

    def __init__(self, section: Any) -> None:
        if OmegaConf.is_config(section):
            section = OmegaConf.to_container(section, resolve=True)
        own: dict[str, Any] = {
            "fill_limit": 10.0,
            "keep_rollouts": 0,
            "keep_megabytes": 1000.0,
            "owner_gpus": 0.0,
            "no_check": False,
        }
        known = ["curriculum", *SETTINGS, *own]
        expanded = registry.expand_curriculum(section if isinstance(section, Mapping) else {})
        config = {name: value for name, value in expanded.items() if value is not None}
        if "selection" not in config:
            raise ConfigError(
                f"the configuration names no method: add `+{KEY}.selection=prioritized-replay`, "
                f"say; below {KEY} there may be {', '.join(known)}"
            )
        for name in config:
            if name not in known:
                meant = did_you_mean(str(name), known)
                raise ConfigError(f"{KEY} has no setting {name!r}{meant}; there are: {', '.join(known)}")
        own |= {name: config.pop(name) for name in own if name in config}
        self.fill_limit, self.owner_gpus = FillSettings(own["fill_limit"]).limit, own["owner_gpus"]
        self.no_check = own["no_check"]
        if not isinstance(self.no_check, bool):  # hydra takes `no` for a text, which would be true
            raise ConfigError(f"{KEY}.no_check is true or false, not {self.no_check!r:.50}")
        if isinstance(self.owner_gpus, str | bool) or not 0 <= self.owner_gpus < math.inf:
            raise ConfigError(f"{KEY}.owner_gpus is a number of GPUs from 0, not {self.owner_gpus!r:.50}")
        self.keep = KeepRollouts(own["keep_rollouts"], own["keep_megabytes"])
        read_signal(config.get("signal"))  # refuses what it cannot read
        methods = {kind: registry.build(kind, config[kind]) for kind in BASES if kind in config}
        self.selection, self.advantage = methods["selection"], methods.get("advantage")
        self.admission, self.allocation = methods.get("admission"), methods.get("allocation")
        if self.admission is None and self.selection.leaves_out == "groups":
            config["admission"] = "everything"
        self.has_gate = "admission" in config
        self.curriculum = {"reward_range": (0.0, 1.0)} | config
        self._check()

    def _check(self) -> None:
        if self.advantage is None:
            remedy = f", or {KEY}.advantage=group:divide_by_std=true"
            refuse(self.selection.has_weights, "weights", "verl", remedy)
        gives_less = self.allocation is not None and not self.has_ragged_groups
        if gives_less and self.selection.leaves_out != "groups":
            raise ConfigError(
                f"{KEY}.allocation gives fewer rollouts to prompts that only estimate a difficulty, and this "
                "selection has none: leave the allocation out, or choose adcl"
            )

    @property
    def divides_budget(self) -> bool:
        """Whether an allocation divides a budget before the prompts are rolled out."""
        return self.allocation is not None and self.allocation.needs_budget

    @property
    def has_ragged_groups(self) -> bool:
        """Whether groups that are trained on have different sizes."""
        return self.divides_budget or (self.allocation is not None and self.allocation.looks_first)

    @property
    def named(self) -> tuple[str, ...]:
        """The numbers of `reward_extra_info` that the signal reads."""
        return read_signal(self.curriculum.get("signal"))


def has_own_reward(config: Any) -> bool:
    """Whether the reward of verl's configuration is curro's."""
    path = config.reward.custom_reward_function.get("path", None)
    return str(path).removeprefix("pkg://") == REWARD_MODULE


def own_rewards(config: Any) -> tuple[Mapping[Any, Any], Any]:
    """curro's rewards in verl's configuration: those of a `data_source`, and that of all others."""
    kwargs = config.reward.custom_reward_function.get("reward_kwargs", None) or {}
    return kwargs.get("by_source", None) or {}, kwargs.get("reward", "math")


def choose_manager(config: Any) -> None:
    """Give curro's reward the manager that tells it the row, in place of the one that verl has by default."""
    manager = config.reward.reward_manager
    if has_own_reward(config) and (manager.source, manager.name) == ("register", "naive"):
        manager.name = MANAGER


def reward_parts(config: Any, sources: Iterable[Any]) -> list[str]:
    """The names of the parts of verl's reward, where its function is curro's; none where it is another's.

    A reward of one part is `acc`, as `compute_score` names it. Where sources have different rewards, the
    names are those of all, or none if there is a sum of which no part verifies the answer.

    Args:
        config: verl's.
        sources: the `data_source` of every row of the data set.
    """
    if not has_own_reward(config):
        return []
    by_source, others = own_rewards(config)
    specs = dict.fromkeys(by_source.get(source, others) for source in sources) if by_source else [others]
    rewards = [parts if len(parts := part_names(spec)) > 1 else ["acc"] for spec in specs]
    if len(rewards) > 1 and not all(map(verifying_parts, rewards)):
        return []
    return list(dict.fromkeys(name for parts in rewards for name in parts))


def refuse_conflicts(config: Any, settings: VerlSettings) -> None:
    """Refuse settings of verl that would silently break a curriculum, before anything is started.

    Raises:
        ConfigError: names the setting of verl and what to set it to.
    """
    algorithm, data, v1 = config.algorithm, config.data, config.trainer.v1
    filters = algorithm.get("filter_groups", None)
    conflicts = [
        (
            bool(v1.sampler.custom_sampler.get("path", None)),
            "trainer.v1.sampler.custom_sampler takes the place of the replay buffer that reports to the "
            "curriculum: leave it out",
        ),
        (
            data.train_max_samples > 0 and data.shuffle and data.get("seed", None) is None,
            "data.train_max_samples takes other rows at each start, so a resumed run would have another data "
            "set: set data.seed",
        ),
        (
            settings.has_gate and filters is not None and filters.get("enable", False),
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
    size, rule = config.actor_rollout_ref.rollout.n, settings.allocation
    if rule is not None and settings.has_ragged_groups:
        if settings.divides_budget:
            rule.check(data.train_batch_size, data.train_batch_size * size)
        conflicts += [
            (
                rule.first > size,
                f"{KEY}.allocation gives each prompt {rule.first} rollouts at first, and "
                f"actor_rollout_ref.rollout.n is {size}: lower the allocation's option `first`, or raise n",
            ),
            (
                getattr(rule, "least", 1) < 1,
                f"verl waits for a group of each prompt, and {KEY}.allocation may give a prompt no rollouts: "
                "set its option `least` to 1 or more",
            ),
            (
                _has_critic(config),
                "a critic's mini-batches have a fixed number of rollouts, and curro.allocation makes groups "
                "of different sizes: set algorithm.adv_estimator=grpo, and leave critic.enable out",
            ),
        ]
    elif rule is not None:
        conflicts += [
            (
                rule.first != size,
                f"curro.allocation gives prompts that are trained on {rule.first} rollouts, "
                f"and actor_rollout_ref.rollout.n is {size}: set the allocation's option train={size}",
            )
        ]
    if settings.advantage is not None:
        conflicts += [
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
    if PolicyUse.TRAINED in settings.selection.policy_use:
        conflicts += _auxiliary_conflicts(config)
    for is_set, message in conflicts:
        if is_set:
            raise ConfigError(message)


def refuse_large_batch(config: Any, mode: str, prompts: int) -> None:
    """Refuse batches that need more prompts in flight at a time than the data set has."""
    batch = config.data.train_batch_size
    ahead = math.floor(config.trainer.v1.get(mode, {}).get("num_warmup_batches", 0) * batch)
    if batch + ahead > prompts:
        window = f", and trainer.v1.{mode}.num_warmup_batches keeps {ahead} more in flight"
        raise ConfigError(
            f"a batch takes {batch} prompts{window if ahead else ''}; the data set has {prompts}: lower "
            f"data.train_batch_size{' or num_warmup_batches' if ahead else ''}"
        )


def _auxiliary_conflicts(config: Any) -> list[tuple[bool, str]]:
    """The conflicts of a selection that trains the policy on auxiliary samples, such as METIS' judgments."""
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
    """Whether verl trains a critic, by the rule of its own."""
    is_enabled = config.critic.get("enable", None)
    return config.algorithm.adv_estimator == "gae" if is_enabled is None else bool(is_enabled)
