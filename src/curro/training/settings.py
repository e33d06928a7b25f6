"""Every setting of `curro train`, declared once for options, help and documentation."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from curro.core import registry
from curro.core.errors import ConfigError
from curro.core.files import read_toml
from curro.core.text import did_you_mean
from curro.data.raw import lab_family
from curro.reward.sandbox.confinement import SANDBOX
from curro.reward.workers.pool import WorkerLimits
from curro.runs.folder import RunFolder
from curro.training.declared import MAX_SEED, SettingSpec, reward_range_of, setting

DEFAULTS: dict[str, Any] = {
    "prompts_per_step": 16,
    "rollouts_per_prompt": 8,
    "learning_rate": 1e-6,
    "warmup_steps": 10,
    "max_completion_length": 256,
    "eval_prompts": 500,
}

MOST_ROLLOUTS = 1 << 20
"""Completions of a step: a batch of more would end in a MemoryError."""


LOSS_TYPES = ("dr_grpo", "dapo", "grpo", "bnpo", "cispo", "sapo", "luspo", "vespo")
"""Loss types that TRL accepts."""

TRL_WHEN_SHORT = ("top-up", "error")
"""What a fill may do when a batch stays short in TRL, whose batches have one size."""


@dataclass(frozen=True)
class TrainSettings:
    """The settings of a run, checked; None stands for the recipe of the lab's task, or a default elsewhere.

    The help lists them in this order: a panel's together, the most used first.

    Raises:
        ConfigError: a value that no run could use.
    """

    data: str = setting(
        "lab:spell_backward",
        "The training prompts: lab:NAME, a JSONL or Parquet file, a folder, or a data set's id on the "
        "Hugging Face Hub. Commas separate several files.",
    )
    limit: int | None = setting(None, "Use only the first LIMIT prompts of the data.", "all", least=1)
    prompt_column: str | None = setting(
        None, "The column that holds the prompts; dots reach into nested columns.", "found by its name"
    )
    answer_column: str | None = setting(None, "The column that holds the answers.", "found by its name")
    key_column: str | None = setting(
        None, "A column of unique keys that name the prompts.", "found by its name, else a hash"
    )
    model: str | None = setting(
        None,
        "The model: lab:NAME, a folder, or a model's id on the Hugging Face Hub.",
        "the lab's own model, for data of the lab",
    )
    lora_rank: int | None = setting(
        None,
        "Train LoRA matrices of this rank on all linear layers, which are merged into the saved model.",
        "all weights are trained",
        least=1,
    )
    temperature: float = setting(1.0, "The sampling temperature.", above=0)
    max_completion_length: int | None = setting(
        None,
        "The most tokens of a completion. In tasks of several turns it includes the observations.",
        "256, or the lab's recipe; in curro evaluate the suite's",
        least=1,
    )
    precision: str | None = setting(
        None,
        "The number format of matrix products; the weights stay float32.",
        "bfloat16 on a GPU, else float32",
        choices=("float32", "bfloat16"),
    )
    share_prompts: bool = setting(
        True,
        "Compute a group's prompt once, not for each of its completions. Results differ by rounding only.",
    )
    device_batch: int | None = setting(
        None,
        "How many completions go through the model at once; gradients are accumulated over the step.",
        "the whole step",
        least=1,
    )
    vllm: bool = setting(False, "Generate with the package vllm, in the same process and on the same GPU.")
    threads: int = setting(1, "How many CPU threads to use.", least=1, most=1024)
    curriculum: str = setting(
        "frontier",
        "The selection method, which chooses the prompts of every step: NAME, NAME:OPTION=VALUE,... or "
        "your own as MODULE:CLASS. `curro methods` lists them. The text "
        "'SELECTION allocation=... advantage=... admission=...' gives several parts at once.",
    )
    known: str | None = setting(
        None,
        "Pass rates known before the first rollout, for the selections frontier and posterior: "
        "a column of the data, or the folder of a curro estimate or of an earlier run.",
        "nothing is known",
    )
    allocation: str | None = setting(
        None,
        "How a step's rollouts are divided among its prompts; written like --curriculum.",
        "the same number for every prompt",
    )
    admission: str | None = setting(
        None,
        "The gate, which decides which finished groups enter the update, for example band:0.3,0.7. Rejected "
        "groups are replaced with new ones.",
        "all groups enter",
    )
    advantage: str | None = setting(
        None,
        "The advantage estimator, which credits each rollout; written like --curriculum.",
        "TRL's; leave-one-out with --allocation",
    )
    signal: str | None = setting(
        None,
        "The part of the reward that ranks prompts, and that gates, allocations and metrics use: math, "
        "math+code (the sum of two parts), or sum (the trained reward).",
        "the parts of --reward that verify the answer",
    )
    source_weights: str | None = setting(
        None,
        "Draw prompts from the data's sources in proportion to these weights, as in math=2,code=1.",
        "the selection decides",
    )
    fill_limit: float = setting(
        10.0, "With a gate: how many groups a step may take, as a multiple of its prompts.", least=1
    )
    when_short: str = setting(
        "top-up",
        "With a gate, what to do at the fill limit: top-up completes the step with the rejected "
        "groups of the highest reward variance; error ends the run.",
        choices=TRL_WHEN_SHORT,
    )
    reward: str = setting(
        "auto",
        "How completions are scored: a name that `curro methods reward` lists, with options as "
        "NAME:OPTION=VALUE, a function of your own as MODULE:FUNCTION, a weighted sum as math+0.2*format, or "
        "auto, which decides by the data.",
    )
    reward_range: tuple[float, float] = setting(
        (0.0, 1.0),
        "LOW,HIGH: the rewards of complete failure and of complete success.",
        parse=reward_range_of,
    )
    environment: str | None = setting(
        None,
        "For tasks of several turns: MODULE:FUNCTION that makes the environment, which also scores its "
        "episodes.",
        "the lab's own, for its tasks of several turns",
    )
    sandbox: str = setting(
        "auto",
        "How the reward code confines programs that the model wrote: required ends the run if neither "
        "bubblewrap nor Landlock works, auto uses the best that works, none sets resource limits only.",
        choices=SANDBOX,
    )
    reward_workers: int = setting(
        1,
        "How many processes run a reward function of your own, which leaves a completion unscored where it "
        "crashes or exceeds a limit. 0 calls it in the trainer's process, without limits.",
        least=0,
    )
    reward_seconds: float = setting(
        60.0, "Seconds that a reward function of your own may take for one completion.", above=0
    )
    reward_memory: float = setting(
        8.0, "Gigabytes of address space for each process that runs a reward function of your own.", above=0
    )
    rollouts: int = setting(
        25_600, "The budget of the run, rounded up to whole steps. Rejected groups count.", least=1
    )
    learning_rate: float | None = setting(
        None, "The learning rate of AdamW, constant after the warm-up.", "1e-6, or the lab's recipe", above=0
    )
    prompts_per_step: int | None = setting(
        None, "P, the prompts of a training step.", "16, or the lab's recipe", least=1
    )
    rollouts_per_prompt: int | None = setting(
        None,
        "G, the rollouts of each prompt, which form a group. A group needs 2 or more to have a signal.",
        "8, or the lab's recipe",
        least=2,
    )
    loss_type: str = setting("dr_grpo", "The loss, by TRL's name for it.", choices=LOSS_TYPES)
    beta: float = setting(
        0.0, "The weight of the KL divergence from the model at the start; 0 leaves the term out.", least=0
    )
    warmup_steps: int | None = setting(
        None, "Steps over which the learning rate rises to its value.", "10, or the lab's recipe", least=0
    )
    skip_empty_steps: bool = setting(
        False,
        "Make no update after a step whose groups all have equal rewards. Otherwise AdamW's momentum still "
        "moves the weights.",
    )
    scale_rate: bool = setting(
        False, "Divide the learning rate by the square root of the metric signal/ratio while that is above 1."
    )
    seed: int = setting(
        0,
        "The seed of all random numbers: the choice of prompts, sampling and training.",
        least=0,
        most=MAX_SEED,
    )
    eval_data: str | None = setting(
        None,
        "Held-out prompts to evaluate on: written like --data, or the name of a benchmark suite of "
        "`curro evaluate`, such as MATH-500, which has its own reward. Several are separated by commas, and "
        "eval/pass@1 is their mean.",
        "the lab's test split, for data of the lab; else no evaluation",
    )
    eval_prompts: int | None = setting(
        None, "How many held-out prompts to evaluate on.", "500, or the lab's recipe", least=1
    )
    eval_every: int = setting(
        25,
        "The number of steps, N, between evaluations; with a gate, N P G rollouts, with rejected groups'. 0: "
        "only before the first step and after the last.",
        least=0,
    )
    eval_samples: int = setting(4, "How many completions of each held-out prompt to sample.", least=1)
    keep_best: bool = setting(
        False,
        "Also keep the model of the best evaluation, by pass@1 and then by reward, in the run's folder best.",
    )
    save_every: int = setting(100, "The number of steps between checkpoints.", least=1)
    keep_rollouts: int = setting(
        0,
        "How many rollouts of every group to keep in rollouts.jsonl, for curro watch and curro inspect.",
        least=0,
    )
    keep_megabytes: float = setting(
        1000.0, "Stop keeping rollouts when rollouts.jsonl has this size.", least=0
    )
    log: str | None = setting(
        None,
        "Also log every step with this package, which has to be installed.",
        "only to the run folder",
        choices=("trackio", "wandb", "tensorboard"),
    )

    def __post_init__(self) -> None:
        for name, item in known_settings().items():
            item.check(name, getattr(self, name))
        object.__setattr__(self, "reward_range", reward_range_of(self.reward_range))

    @property
    def family(self) -> str | None:
        """The lab family of the data, if it is the lab's."""
        return lab_family(self.data)

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
        return -(-self.rollouts // self.rollouts_per_step)

    def complete(self, prompts: int) -> TrainSettings:
        """The settings with the lab's recipe, or else the defaults, in place of None.

        Args:
            prompts: how many the data set has; no step takes more by default.

        Raises:
            ConfigError: a step that takes more prompts than there are, or is not divided by device_batch.
        """
        values = dict(DEFAULTS)
        if self.family is not None:
            from curro.lab import family

            recipe = family(self.family).recipe
            values = {name: getattr(recipe, name) for name in DEFAULTS if name != "eval_prompts"}
            values |= {"model": f"lab:{self.family}", "eval_data": self.data}
            values["eval_prompts"] = recipe.held_out_prompts
        values["prompts_per_step"] = min(values["prompts_per_step"], prompts)
        done = replace(self, **{name: value for name, value in values.items() if getattr(self, name) is None})
        if done.prompts_per_step > prompts:  # type: ignore[operator]
            raise ConfigError(
                f"a step takes {done.prompts_per_step} prompts and {self.data} has {prompts}: "
                "lower --prompts-per-step"
            )
        if done.rollouts_per_step > MOST_ROLLOUTS:
            raise ConfigError(
                f"a step takes {done.prompts_per_step} x {done.rollouts_per_prompt} completions, more than "
                f"{MOST_ROLLOUTS:,}: lower --prompts-per-step or --rollouts-per-prompt"
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


PANELS = {
    "data": "Data", "model": "Model", "curriculum": "Curriculum", "reward": "Reward",
    "rollouts": "Optimisation", "eval_data": "Evaluation", "save_every": "Output",
}  # fmt: skip
"""The headings under which the help lists the settings, by the first setting of each."""


@functools.cache
def known_settings() -> dict[str, SettingSpec]:
    """How every setting is declared, by its name, in order."""
    annotations, panel, known = get_type_hints(TrainSettings), "", {}
    for item in fields(TrainSettings):
        panel = PANELS.get(item.name, panel)
        known[item.name] = replace(item.metadata["setting"], annotation=annotations[item.name], panel=panel)
    return known


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
