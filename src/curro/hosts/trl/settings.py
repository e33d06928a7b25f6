"""Everything `curro train` is told, and what it is taken to be where nothing was said."""

from __future__ import annotations

import math
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from typing import Any

from curro.data.labs import lab_family
from curro.errors import ConfigError

LOSS_TYPES = ("dr_grpo", "dapo", "grpo", "bnpo", "cispo", "sapo", "luspo", "vespo")
"""TRL's."""

MAX_SEED = 2**32 - 1
"""NumPy's."""


@dataclass(frozen=True)
class TrainSettings:
    """The settings of a run; what is None comes from the lab's recipe or a default.

    Attributes:
        data: source of the training prompts (`curro.data.load_prompts`).
        limit: train on the first so many prompts only.
        model: "lab:NAME", a folder or a hub id; by default the lab's model of the data's family.
        curriculum: `Curriculum.from_config`'s dict without the reward range and the seed.
        refill_limit, when_short: with an admission, `curro.hosts.trl.RefillSettings`.
        loss_type: TRL's.
        reward: `curro.reward.resolve_reward`'s spec.
        environment: `curro.environments.resolve_environment`'s; it scores its episodes.
        reward_range: the rewards of complete failure and complete success.
        eval_data: held-out prompts; by default the test split of the lab's family.
        rollouts: the budget, rounded up to whole steps; rejected groups count.
        prompts_per_step, rollouts_per_prompt: P and G of a step.
        device_batch: completions that go through the model at once; the rest is accumulated.
        learning_rate: of AdamW, constant after `warmup_steps`.
        max_completion_length: tokens; those of observations count.
        eval_every, eval_prompts, eval_samples: an evaluation after as many rollouts as so many steps have
            without rejected groups (0: first and last only), how many held-out prompts, completions of each.
        save_every: steps between checkpoints.
        columns: names of the prompt, answer and key columns.
    """

    data: str
    limit: int | None = None
    model: str | None = None
    curriculum: dict[str, Any] = field(default_factory=lambda: {"selection": "frontier"})
    refill_limit: float = 10.0
    when_short: str = "top-up"
    loss_type: str = "dr_grpo"
    reward: str = "auto"
    environment: str | None = None
    reward_range: tuple[float, float] = (0.0, 1.0)
    eval_data: str | None = None
    rollouts: int = 25_600
    prompts_per_step: int | None = None
    rollouts_per_prompt: int | None = None
    device_batch: int | None = None
    learning_rate: float | None = None
    warmup_steps: int | None = None
    temperature: float = 1.0
    max_completion_length: int | None = None
    eval_every: int = 25
    eval_prompts: int | None = None
    eval_samples: int = 4
    save_every: int = 100
    threads: int = 1
    seed: int = 0
    columns: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in (
            "rollouts", "limit", "prompts_per_step", "rollouts_per_prompt", "device_batch",
            "max_completion_length", "eval_prompts", "eval_samples", "save_every", "threads",
        ):  # fmt: skip
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} is a number from 1, not {value}")
        if self.rollouts_per_prompt == 1:
            raise ConfigError("rollouts_per_prompt is 1: a group needs 2 rollouts or more to have a signal")
        if self.loss_type not in LOSS_TYPES:
            raise ConfigError(f"loss_type is one of {', '.join(LOSS_TYPES)}, not {self.loss_type!r}")
        for name in ("learning_rate", "temperature"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ConfigError(f"{name} is a number above 0 and finite, not {value}")
        if self.eval_every < 0:
            raise ConfigError(f"eval_every is a number of steps, or 0, not {self.eval_every}")
        if not 0 <= self.seed <= MAX_SEED:
            raise ConfigError(f"seed is a number from 0 to {MAX_SEED}, not {self.seed}")

    @property
    def family(self) -> str | None:
        """The lab family of the data, if it is the lab's."""
        return lab_family(self.data)

    @property
    def rollouts_per_step(self) -> int:
        """Of a step without rejected groups; of complete settings."""
        return (self.prompts_per_step or 1) * (self.rollouts_per_prompt or 1)

    @property
    def steps(self) -> int:
        """How many steps the budget pays for at most; of complete settings."""
        return -(-self.rollouts // self.rollouts_per_step)

    def complete(self, prompts: int) -> TrainSettings:
        """With every None replaced: by the recipe of the lab's family, else by a default.

        Args:
            prompts: how many the data set has; no step takes more by default.

        Raises:
            ConfigError: a step that takes more prompts than there are, or is not divided by device_batch.
        """
        values: dict[str, Any] = dict(_DEFAULTS)
        if self.family is not None:
            from curro.lab import family

            recipe = family(self.family).recipe
            values |= {
                "model": f"lab:{self.family}",
                "eval_data": self.data,
                "prompts_per_step": recipe.prompts_per_step,
                "rollouts_per_prompt": recipe.rollouts_per_prompt,
                "learning_rate": recipe.learning_rate,
                "warmup_steps": recipe.warmup_steps,
                "max_completion_length": recipe.max_completion_length,
                "eval_prompts": recipe.held_out_prompts,
            }
        values |= {name: value for name, value in self.as_dict().items() if value is not None}
        if self.prompts_per_step is None:
            values["prompts_per_step"] = min(values["prompts_per_step"], prompts)
        if values["prompts_per_step"] > prompts:
            raise ConfigError(
                f"a step takes {self.prompts_per_step} prompts and {self.data} has {prompts}: "
                "lower --prompts-per-step"
            )
        if values["device_batch"] is None:
            values["device_batch"] = values["prompts_per_step"] * values["rollouts_per_prompt"]
        if values["prompts_per_step"] * values["rollouts_per_prompt"] % values["device_batch"]:
            raise ConfigError(
                f"device_batch {values['device_batch']} does not divide the step's "
                f"{values['prompts_per_step']} x {values['rollouts_per_prompt']} completions"
            )
        return TrainSettings(**values)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TrainSettings:
        """The settings a run was started with; those it did not know are as by default.

        Raises:
            ConfigError: names that are no settings, or a setting without default is missing.
        """
        known = {
            item.name: item.default is MISSING and item.default_factory is MISSING for item in fields(cls)
        }
        odd = set(values) - set(known) | {name for name, needed in known.items() if needed} - set(values)
        if odd:
            raise ConfigError(
                "the run was started by another version of curro: its settings differ in "
                f"{', '.join(sorted(odd))}"
            )
        settings = cls(**values)
        low, high = settings.reward_range
        return replace(settings, reward_range=(low, high))


_DEFAULTS: dict[str, Any] = {
    "prompts_per_step": 16,
    "rollouts_per_prompt": 8,
    "device_batch": None,
    "learning_rate": 1e-6,
    "warmup_steps": 10,
    "max_completion_length": 256,
    "eval_prompts": 500,
}
