"""The settings of a run of `curro train`, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from curro.core import registry
from curro.core.errors import ConfigError
from curro.core.files import read_toml
from curro.core.text import did_you_mean
from curro.data.raw import lab_family
from curro.reward.workers.pool import WorkerLimits
from curro.runs.folder import RunFolder
from curro.training.declared import DeclaredSettings, known_settings

DEFAULTS: dict[str, Any] = {
    "prompts_per_step": 16,
    "rollouts_per_prompt": 8,
    "learning_rate": 1e-6,
    "warmup_steps": 10,
    "max_completion_length": 256,
    "eval_prompts": 500,
}


def recipe_values(name: str, data: str) -> dict[str, Any]:
    """The settings that belong to a family of the lab, by their names."""
    from curro.lab import family

    recipe = family(name).recipe
    return {
        "model": f"lab:{name}",
        "eval_data": data,
        "prompts_per_step": recipe.prompts_per_step,
        "rollouts_per_prompt": recipe.rollouts_per_prompt,
        "learning_rate": recipe.learning_rate,
        "warmup_steps": recipe.warmup_steps,
        "max_completion_length": recipe.max_completion_length,
        "eval_prompts": recipe.held_out_prompts,
    }


@dataclass(frozen=True)
class TrainSettings(DeclaredSettings):
    """The settings of a run, checked; see `curro.training.declared`.

    Raises:
        ConfigError: a value that no run could use.
    """

    @property
    def family(self) -> str | None:
        """The lab family of the data, if it is the lab's."""
        return lab_family(self.data)

    @property
    def data_sources(self) -> list[str]:
        """The names in `data`."""
        return [name.strip() for name in self.data.split(",")]

    @property
    def eval_sources(self) -> list[str]:
        """The data sets and suites to evaluate on; a path that has a comma is one."""
        if self.eval_data is None:
            return []
        if Path(self.eval_data).exists():
            return [self.eval_data]
        return [part.strip() for part in self.eval_data.split(",")]

    @property
    def columns(self) -> dict[str, str]:
        """The names of columns that were given, as `curro.data.load_prompts` takes them."""
        names = ("prompt_column", "answer_column", "key_column")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    @property
    def reward_limits(self) -> WorkerLimits | None:
        """The limits of a reward function of the user's own; None where it runs in the trainer's process."""
        if not self.reward_workers:
            return None
        return WorkerLimits(self.reward_workers, self.reward_seconds, self.reward_memory)

    @property
    def curriculum_config(self) -> dict[str, Any]:
        """What `Curriculum.from_config` takes, complete.

        Raises:
            ConfigError: text that names no curriculum, or a part that stands in two settings.
        """
        kinds = ("allocation", "advantage", "admission", "signal")
        parts = [f"{kind}={getattr(self, kind)}" for kind in kinds if getattr(self, kind)]
        config = registry.parse_curriculum(" ".join([self.curriculum, *parts]))
        if self.source_weights is not None:  # apart, because a source's name may have spaces
            if "source_weights" in config:
                raise ConfigError(
                    "source_weights is in the curriculum's text and in a setting of its own: keep one"
                )
            config["source_weights"] = self.source_weights
        if "allocation" in config:  # TRL's advantages need groups of one size
            config.setdefault("advantage", {"name": "leave-one-out"})
        return {**config, "reward_range": self.reward_range, "seed": self.seed}

    @property
    def rollouts_per_step(self) -> int:
        """The rollouts of a step without rejected groups; asked of complete settings."""
        return (self.prompts_per_step or 1) * (self.rollouts_per_prompt or 1)

    @property
    def steps(self) -> int:
        """How many steps the budget pays for at most; asked of complete settings."""
        return -(-self.rollouts // self.rollouts_per_step) * self.num_iterations

    def is_spent(self, last: Mapping[str, Any] | None) -> bool:
        """Whether a run with this last line of metrics has reached the budget; asked of complete settings.

        Its last generation has been trained on as often as it should be then. A saved model alone does not
        show it: a run that is extended still has the model of its first end.
        """
        if last is None:
            return True
        is_trained_on = last["step"] % self.num_iterations == 0
        return last["step"] >= self.steps or (last["rollouts"] >= self.rollouts and is_trained_on)

    def complete(self, prompts: int) -> TrainSettings:
        """The settings with the lab's recipe, or else the defaults, in place of None.

        Args:
            prompts: how many the data set has; no step takes more by default.

        Raises:
            ConfigError: a step that takes more prompts than there are, or is not divided by device_batch.
        """
        values = dict(DEFAULTS) if self.family is None else recipe_values(self.family, self.data)
        values["prompts_per_step"] = min(values["prompts_per_step"], prompts)
        done = replace(self, **{name: value for name, value in values.items() if getattr(self, name) is None})
        if done.prompts_per_step > prompts:  # type: ignore[operator]
            raise ConfigError(
                f"a step takes {done.prompts_per_step} prompts and {self.data} has {prompts}: "
                "lower --prompts-per-step"
            )
        if done.device_batch is not None and done.rollouts_per_step % done.device_batch:
            raise ConfigError(
                f"device_batch {done.device_batch} does not divide the step's "
                f"{done.prompts_per_step} x {done.rollouts_per_prompt} completions"
            )
        return done

    def check_model(self) -> None:
        """Raises ConfigError if no model is named and the data has none of its own."""
        if self.model is None and self.family is None:
            raise ConfigError(f"name a model for {self.data}: --model with a folder, a hub id or lab:NAME")

    def extended(self, rollouts: int, run: str) -> TrainSettings:
        """The settings with a larger budget, to extend a run."""
        if rollouts <= self.rollouts:
            raise ConfigError(
                f"{run} has a budget of {self.rollouts} rollouts: extend it with a larger one in --rollouts"
            )
        return replace(self, rollouts=rollouts)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, values: Mapping[str, Any], source: str) -> TrainSettings:
        """The settings with these values, and defaults for all others.

        Args:
            source: where the values come from, for messages.

        Raises:
            ConfigError: an unknown name, or a value that no run could use.
        """
        names = known_settings()
        for name in values:
            if name not in names:
                raise ConfigError(f"{source} has no setting {name!r}{did_you_mean(name, names)}")
        try:
            return cls(**values)
        except ConfigError as error:
            raise ConfigError(f"{source}: {error}") from None


def read_settings(path: Path) -> dict[str, Any]:
    """The values in a file by name, as `TrainSettings.of` takes them.

    Args:
        path: a TOML file with the options' names, with `-` or `_`; or a run folder, or its config.json.

    Raises:
        ConfigError: no such file, no TOML, or a name that stands twice.
        RunError: a folder that holds no run of `curro train`.
    """
    if path.is_dir():
        return RunFolder.open(path).settings
    if path.name == "config.json":
        return RunFolder.open(path.parent).settings
    table = read_toml(path)
    values = {name.replace("-", "_"): value for name, value in table.items()}
    if len(values) < len(table):
        raise ConfigError(f"a setting stands twice in {path}, once with - and once with _")
    return values
