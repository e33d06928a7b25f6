"""The settings under the key `curro` of verl's configuration, and what of verl's own breaks a curriculum."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from omegaconf import OmegaConf

from curro.core import registry
from curro.core.admission import refuse_top_up
from curro.core.configuration import read_signal
from curro.core.errors import ConfigError
from curro.core.policy import PolicyUse
from curro.core.selection import refuse_weights
from curro.core.text import did_you_mean
from curro.reward.resolve import part_names
from curro.runs.writer import KeepRollouts

KEY = "curro"
REWARD_MODULE = "curro.hosts.verl.reward"

KINDS = ("selection", "advantage", "admission", "allocation")

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


@dataclass(frozen=True)
class VerlSettings:
    """The settings under the key `curro` of verl's configuration.

    Attributes:
        selection, advantage, admission: as `Curriculum` takes them, a name or a dict.
        allocation: as `Curriculum` takes it. Its budget is the number of prompts that are fetched together
            times `actor_rollout_ref.rollout.n`.
        reward_range, seed: as `Curriculum` takes them.
        fill_limit: how many groups may end for a batch, in batches, before the run ends with an error.
        keep_rollouts, keep_megabytes: how many rollouts of each group are written down to be read, and how
            many megabytes they may take.
        owner_gpus: how many GPUs the owner of the curriculum has for PCL's value model, which runs on the CPU
            without one.
        signal: the part of the reward by which prompts are ranked and counted, as `Curriculum` takes it: a
            number of verl's `reward_extra_info`. Where none is named and the reward is a weighted sum of
            curro's, those parts of it that verify the answer (`Curriculum.default_signal`).
        no_check: leave out the check of 200 rows with the reward before the run.
        source_weights: shares of the data's sources, as `Curriculum` takes them.

    Raises:
        ConfigError: no selection, a name or option that no method has, importance weights without an
            advantage that they multiply, an admission that verl's batches cannot be filled with, a limit
            below 1, a negative number of rollouts to keep.
    """

    selection: str | dict[str, Any]
    advantage: str | dict[str, Any] | None = None
    admission: str | dict[str, Any] | None = None
    allocation: str | dict[str, Any] | None = None
    reward_range: tuple[float, float] = (0.0, 1.0)
    seed: int = 0
    signal: str | list[str] | None = None
    source_weights: str | dict[str, float] | None = None
    fill_limit: float = 10.0
    keep_rollouts: int = 0
    keep_megabytes: float = 1000.0
    owner_gpus: float = 0.0
    no_check: bool = False

    def __post_init__(self) -> None:
        self._check_selection()
        self._check_admission()
        self._check_allocation()
        if isinstance(self.fill_limit, str) or not self.fill_limit >= 1:
            raise ConfigError(f"{KEY}.fill_limit is a number of batches from 1, not {self.fill_limit!r}")
        # both refuse what they cannot read
        read_signal(self.signal)
        KeepRollouts(self.keep_rollouts, self.keep_megabytes)

    @cached_property
    def _methods(self) -> dict[str, Any]:
        """The methods that the settings name, by kind; there is always a selection."""
        specs = {kind: getattr(self, kind) for kind in KINDS}
        return {
            kind: registry.build(kind, spec)
            for kind, spec in specs.items()
            if spec is not None or kind == "selection"
        }

    def _check_selection(self) -> None:
        selection = self._methods["selection"]
        if self.advantage is None:
            remedy = f", or {KEY}.advantage=group:divide_by_std=true"
            refuse_weights(selection.has_weights, "verl", remedy)
        if PolicyUse.WEIGHTS in selection.policy_use:
            raise ConfigError(
                "this selection reads the policy's weights (frontier's features `entropy` do), "
                f"which verl splits over its workers: leave `features` out of {KEY}.selection, or train with "
                "curro.hosts.trl"
            )

    def _check_admission(self) -> None:
        if self.admission is not None:
            refuse_top_up(self._methods["admission"].needs_top_up, "verl")

    def _check_allocation(self) -> None:
        if self.allocation is None or self.divides_budget:
            return
        if self._methods["selection"].leaves_out != "groups":
            raise ConfigError(
                f"{KEY}.allocation gives fewer rollouts to prompts that only estimate a difficulty, and this "
                "selection has none: leave the allocation out, or choose adcl"
            )

    @property
    def divides_budget(self) -> bool:
        """Whether an allocation divides a budget, so that groups have different sizes."""
        return self.allocation is not None and self._methods["allocation"].needs_budget

    def check_budget(self, prompts: int, rollouts: int) -> None:
        """Refuse an allocation that cannot divide so many rollouts between so many prompts, each with some.

        verl waits for as many groups as it has asked for.
        """
        if not self.divides_budget:
            return
        rule = self._methods["allocation"]
        rule.check(prompts, rollouts)
        if getattr(rule, "least", 1) < 1:
            raise ConfigError(
                f"verl waits for a group of each prompt, and {KEY}.allocation may give a prompt no rollouts: "
                "set its option `least` to 1 or more"
            )

    @property
    def asks_policy(self) -> bool:
        """Whether the selection asks the policy."""
        return bool(self._methods["selection"].policy_use)

    @property
    def trains_policy(self) -> bool:
        """Whether the selection trains the policy on auxiliary samples."""
        return PolicyUse.TRAINED in self._methods["selection"].policy_use

    @property
    def may_repeat(self) -> bool:
        """Whether the selection repeats prompts."""
        return self._methods["selection"].repeats

    @property
    def gate(self) -> str | dict[str, Any] | None:
        """The admission; "everything" where none is named and the selection leaves groups out."""
        replaces = self._methods["selection"].leaves_out == "groups"
        return "everything" if self.admission is None and replaces else self.admission

    @property
    def trained_rollouts(self) -> int | None:
        """The rollouts of a prompt that is trained on, by an allocation that divides no budget."""
        if self.allocation is None or self.divides_budget:
            return None
        return self._methods["allocation"].first

    @property
    def named(self) -> tuple[str, ...]:
        """The numbers of `reward_extra_info` that the gate (its option `reward`) and the signal read."""
        part = getattr(self._methods.get("admission"), "reward", None)
        parts_of_gate = [] if part is None else [part]
        return tuple(dict.fromkeys([*parts_of_gate, *read_signal(self.signal)]))

    @property
    def keep(self) -> KeepRollouts:
        """`keep_rollouts` and `keep_megabytes` together."""
        return KeepRollouts(self.keep_rollouts, self.keep_megabytes)

    @classmethod
    def read(cls, section: Any, where: str = KEY) -> VerlSettings:
        """The settings of a section of the configuration.

        Args:
            section: a mapping, or what OmegaConf has for one; None where there is no such section. In place
                of selection, admission and advantage it may have `curriculum`, the text of `--curriculum`.
            where: the key of the section, for messages.
        """
        known = ["curriculum", *(item.name for item in fields(cls))]
        if OmegaConf.is_config(section):
            section = OmegaConf.to_container(section, resolve=True)
        if not isinstance(section, Mapping) or not {"selection", "curriculum"} & section.keys():
            raise ConfigError(
                f"the configuration names no method: add `+{where}.selection=prioritized-replay`, "
                f"say; below {where} there may be {', '.join(known)}"
            )
        section = registry.expand_curriculum(section)
        for name in section:
            if name not in known:
                meant = did_you_mean(str(name), known)
                raise ConfigError(f"{where} has no setting {name!r}{meant}; there are: {', '.join(known)}")
        return cls(**section)

    @property
    def curriculum(self) -> dict[str, Any]:
        """What `Curriculum.from_config` takes."""
        specs = {kind: getattr(self, kind) for kind in KINDS} | {"admission": self.gate}
        chosen = {kind: spec for kind, spec in specs.items() if spec is not None}
        plain = {name: getattr(self, name) for name in registry.PLAIN if getattr(self, name) is not None}
        return chosen | plain | {"reward_range": tuple(self.reward_range), "seed": self.seed}


def reward_parts(config: Any) -> list[str]:
    """The names of the parts of verl's reward, where its function is curro's; none where it is another's.

    Args:
        config: verl's.
    """
    function = config.reward.custom_reward_function
    if str(function.get("path", None)).removeprefix("pkg://") != REWARD_MODULE:
        return []
    return part_names((function.get("reward_kwargs", None) or {}).get("reward", "math"))


def refuse_conflicts(config: Any, settings: VerlSettings) -> None:
    """Refuse settings of verl that would silently break a curriculum, before anything is started.

    Raises:
        ConfigError: names the setting of verl and what to set it to.
    """
    algorithm, data, v1 = config.algorithm, config.data, config.trainer.v1
    filters = algorithm.get("filter_groups", None)
    conflicts = [
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
            settings.gate is not None and filters is not None and filters.get("enable", False),
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
    size = config.actor_rollout_ref.rollout.n
    settings.check_budget(data.train_batch_size, data.train_batch_size * size)
    if settings.divides_budget:
        conflicts += [
            (
                _has_critic(config),
                "a critic's mini-batches have a fixed number of rollouts, and curro.allocation makes groups "
                "of different sizes: set algorithm.adv_estimator=grpo, and leave critic.enable out",
            )
        ]
    if settings.trained_rollouts is not None:
        conflicts += [
            (
                settings.trained_rollouts != size,
                f"curro.allocation gives prompts that are trained on {settings.trained_rollouts} rollouts, "
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
    if settings.trains_policy:
        conflicts += _auxiliary_conflicts(config)
    for is_set, message in conflicts:
        if is_set:
            raise ConfigError(message)


def refuse_large_batch(config: Any, mode: str, prompts: int) -> None:
    """Refuse batches that need more prompts in flight at a time than the data set has.

    Selections that draw a prompt again while it is in flight need no such check.
    """
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
