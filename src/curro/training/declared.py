"""Every setting of `curro train`, declared once: the options and the documentation are made from this."""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, Field, dataclass, field, fields
from typing import Any, get_args, get_type_hints

from curro.core.errors import ConfigError
from curro.reward.sandbox.confinement import SANDBOX

_WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


@dataclass(frozen=True)
class SettingSpec:
    """What a dataclass field says of itself besides its type and default.

    Attributes:
        otherwise: what None stands for, in words.
        panel: the heading under which the help lists it.
        least, most: the smallest and the largest value that is allowed.
        above: every allowed value is larger than this, and finite.
        parse: turns the text of the command line into the value, where that is no number and no text.
    """

    help: str
    otherwise: str = ""
    _: KW_ONLY
    panel: str
    least: float | None = None
    most: float | None = None
    above: float | None = None
    choices: Sequence[str] = ()
    parse: Callable[[str], Any] | None = None

    def check(self, name: str, value: Any, annotation: Any) -> None:
        """Raises ConfigError where the setting called `name` cannot have this value."""
        if value is None and type(None) in get_args(annotation):
            return
        kind = plain_type(annotation)
        if kind in _WORDS and not _is(value, kind):
            raise ConfigError(f"{name} must be {_WORDS[kind]}, not {value!r:.100}")
        if kind in (int, float) and isinstance(value, int) and abs(value) > MAX_SEED:
            raise ConfigError(f"{name} must be {MAX_SEED} at most, not {value!r:.20}")
        if self.choices and value not in self.choices:
            raise ConfigError(f"{name} must be one of {', '.join(self.choices)}, not {value!r}")
        if self.above is not None and not self.above < value < math.inf:
            raise ConfigError(f"{name} must be a finite number above {self.above:g}, not {value}")
        if self.least is not None and not self.least <= value <= (self.most or math.inf):
            allowed = f"from {self.least:g} to {self.most:.0f}" if self.most else f"{self.least:g} or more"
            raise ConfigError(f"{name} must be {allowed}, not {value}")


def setting(default: Any, help: str, otherwise: str = "", *, panel: str, **limits: Any) -> Any:
    """A dataclass field with a `SettingSpec`."""
    return field(default=default, metadata={"setting": SettingSpec(help, otherwise, panel=panel, **limits)})


def setting_of(item: Field[Any]) -> SettingSpec:
    """The `SettingSpec` of a dataclass field that `setting` made."""
    return item.metadata["setting"]


def plain_type(annotation: Any) -> Any:
    """The type without `| None`."""
    if isinstance(annotation, types.UnionType):
        return next(member for member in get_args(annotation) if member is not type(None))
    return annotation


def _is(value: Any, kind: type) -> bool:
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def reward_range_of(ends: Any) -> tuple[float, float]:
    """The range from the command line, LOW,HIGH, or from a file, where it is a list."""
    try:
        low, high = ends.split(",") if isinstance(ends, str) else ends
        return float(low), float(high)
    except (TypeError, ValueError):
        raise ConfigError(f"reward_range must be two numbers, LOW,HIGH, not {ends!r}") from None


LOSS_TYPES = ("dr_grpo", "dapo", "grpo", "bnpo", "cispo", "sapo", "luspo", "vespo")
"""Loss types that TRL accepts."""

TRL_WHEN_SHORT = ("top-up", "error")
"""What a fill may do when a batch stays short in TRL, whose batches have one size."""

MAX_SEED = 2**32 - 1
"""The largest seed that NumPy accepts."""


@dataclass(frozen=True)
class DeclaredSettings:
    """The settings of a run; None stands for the recipe of the lab's task, or for a default elsewhere.

    The help lists them in this order: a panel's together, the most used first.
    """

    data: str = setting(
        "lab:spell_backward",
        "The training prompts: lab:NAME, a JSONL or Parquet file, a folder, or a data set's id on the "
        "Hugging Face Hub. Commas separate several files.",
        panel="Data",
    )
    limit: int | None = setting(
        None, "Use only the first LIMIT prompts of the data.", "all", least=1, panel="Data"
    )
    prompt_column: str | None = setting(
        None,
        "The column that holds the prompts; dots reach into nested columns.",
        "found by its name",
        panel="Data",
    )
    answer_column: str | None = setting(
        None, "The column that holds the answers.", "found by its name", panel="Data"
    )
    key_column: str | None = setting(
        None, "A column of unique keys that name the prompts.", "found by its name, else a hash", panel="Data"
    )
    model: str | None = setting(
        None,
        "The model: lab:NAME, a folder, or a model's id on the Hugging Face Hub.",
        "the lab's own model, for data of the lab",
        panel="Model",
    )
    lora_rank: int | None = setting(
        None,
        "Train LoRA matrices of this rank on all linear layers instead of the weights. They are merged into "
        "the saved model.",
        "all weights are trained",
        least=1,
        panel="Model",
    )
    temperature: float = setting(1.0, "The sampling temperature.", above=0, panel="Model")
    max_completion_length: int | None = setting(
        None,
        "The most tokens of a completion. In tasks of several turns it includes the observations.",
        "256, or the lab's recipe; in curro evaluate the suite's",
        least=1,
        panel="Model",
    )
    precision: str | None = setting(
        None,
        "The number format of matrix products; the weights stay float32. bfloat16 halves the time on "
        "processors that have instructions for it (AVX512-BF16, AMX) and on GPUs.",
        "bfloat16 on a GPU, else float32",
        choices=("float32", "bfloat16"),
        panel="Model",
    )
    share_prompts: bool = setting(
        True,
        "Compute the prompt of a group once instead of once for each of its completions, in rollouts and in "
        "training. The results differ by rounding only. Models that cannot share prompts train without it.",
        panel="Model",
    )
    device_batch: int | None = setting(
        None,
        "How many completions go through the model at once; gradients are accumulated over the rest of "
        "the step.",
        "the whole step",
        least=1,
        panel="Model",
    )
    vllm: bool = setting(
        False,
        "Generate with vLLM, in the same process and on the same GPU. The package vllm has to be installed, "
        "and the model must be a folder or on the Hugging Face Hub.",
        panel="Model",
    )
    threads: int = setting(
        1,
        "How many CPU threads to use. Two runs side by side are fastest with one thread each.",
        least=1,
        most=1024,
        panel="Model",
    )
    curriculum: str = setting(
        "frontier",
        "The selection method, which chooses the prompts of every step: NAME, NAME:OPTION=VALUE,... or "
        "your own as MODULE:CLASS or MODULE:CLASS:OPTION=VALUE,... `curro methods` lists them. The text "
        "'SELECTION allocation=... advantage=... admission=...' gives several parts at once.",
        panel="Curriculum",
    )
    known: str | None = setting(
        None,
        "Pass rates known before the first rollout, for the selections frontier and posterior: "
        "a column of the data, or the folder of a curro estimate or of an earlier run.",
        "nothing is known",
        panel="Curriculum",
    )
    allocation: str | None = setting(
        None,
        "How a step's rollouts are divided among its prompts; written like --curriculum, for example "
        "knapsack. The number of trained rollouts per step stays the same.",
        "the same number for every prompt",
        panel="Curriculum",
    )
    admission: str | None = setting(
        None,
        "The gate, which decides which finished groups enter the update; written like --curriculum, for "
        "example band:0.3,0.7. Rejected groups are replaced with new ones.",
        "all groups enter",
        panel="Curriculum",
    )
    advantage: str | None = setting(
        None,
        "The advantage estimator, which credits each rollout; written like --curriculum.",
        "TRL's; leave-one-out with --allocation",
        panel="Curriculum",
    )
    signal: str | None = setting(
        None,
        "The part of the reward that ranks prompts, and that gates, allocations and metrics use: math, "
        "math+code (the sum of two parts), or sum (the trained reward). The advantages always come from the "
        "trained reward.",
        "the parts of --reward that verify the answer",
        panel="Curriculum",
    )
    source_weights: str | None = setting(
        None,
        "Draw prompts from the data's sources in proportion to these weights, as in math=2,code=1.",
        "the selection decides",
        panel="Curriculum",
    )
    fill_limit: float = setting(
        10.0,
        "With a gate: how many groups may end for a step before no more are begun, as a multiple of its "
        "prompts.",
        least=1,
        panel="Curriculum",
    )
    when_short: str = setting(
        "top-up",
        "With a gate, what to do at the fill limit: top-up completes the step with the rejected "
        "groups of the highest reward variance; error ends the run.",
        choices=TRL_WHEN_SHORT,
        panel="Curriculum",
    )
    reward: str = setting(
        "auto",
        "How completions are scored: math, exact, code, function-calls, format, closed-thought, language, "
        "cosine, overlong, repetition, reasoning-gym, lab, a function of your own as MODULE:FUNCTION, or "
        "auto, which decides by the data. NAME:OPTION=VALUE sets an option; `curro methods NAME` lists "
        "them. A weighted sum is written "
        "math+0.2*format or ./one.py:FUNCTION+0.5*./two.py:FUNCTION.",
        panel="Reward",
    )
    reward_range: tuple[float, float] = setting(
        (0.0, 1.0),
        "LOW,HIGH: the rewards of complete failure and of complete success.",
        parse=reward_range_of,
        panel="Reward",
    )
    environment: str | None = setting(
        None,
        "For tasks of several turns: MODULE:FUNCTION that makes the environment, which also scores its "
        "episodes.",
        "the lab's own, for its tasks of several turns",
        panel="Reward",
    )
    sandbox: str = setting(
        "auto",
        "How the reward code confines programs that the model wrote. required uses bubblewrap or Landlock, "
        "and ends the run if neither works; none sets resource limits only; auto uses the best that works.",
        choices=SANDBOX,
        panel="Reward",
    )
    reward_workers: int = setting(
        1,
        "How many processes run a reward function of your own. If the function exceeds a limit or crashes, "
        "the completion is not scored, and the run goes on. 0 calls it in the trainer's process, "
        "without limits.",
        least=0,
        panel="Reward",
    )
    reward_seconds: float = setting(
        60.0,
        "Seconds that a reward function of your own may take for one completion.",
        above=0,
        panel="Reward",
    )
    reward_memory: float = setting(
        8.0,
        "Gigabytes of address space for each process that runs a reward function of your own.",
        above=0,
        panel="Reward",
    )
    rollouts: int = setting(
        25_600,
        "The budget of the run, rounded up to whole steps. Rejected groups count.",
        least=1,
        panel="Optimisation",
    )
    learning_rate: float | None = setting(
        None,
        "The learning rate of AdamW, constant after the warm-up.",
        "1e-6, or the lab's recipe",
        above=0,
        panel="Optimisation",
    )
    prompts_per_step: int | None = setting(
        None, "P, the prompts of a training step.", "16, or the lab's recipe", least=1, panel="Optimisation"
    )
    rollouts_per_prompt: int | None = setting(
        None,
        "G, the rollouts of each prompt, which form a group. A group needs 2 or more to have a signal.",
        "8, or the lab's recipe",
        least=2,
        panel="Optimisation",
    )
    loss_type: str = setting(
        "dr_grpo", "The loss, by TRL's name for it.", choices=LOSS_TYPES, panel="Optimisation"
    )
    beta: float = setting(
        0.0,
        "The weight of the KL divergence from the model at the start, which is kept in memory as a second "
        "model unless --lora-rank is given. 0 leaves the term out.",
        least=0,
        panel="Optimisation",
    )
    num_iterations: int = setting(
        1,
        "How many training steps to make with the same rollouts. The budget counts rollouts, so a run has "
        "that many times as many steps.",
        least=1,
        panel="Optimisation",
    )
    warmup_steps: int | None = setting(
        None,
        "Steps over which the learning rate rises to its value.",
        "10, or the lab's recipe",
        least=0,
        panel="Optimisation",
    )
    skip_empty_steps: bool = setting(
        False,
        "Make no update after a step whose groups all have equal rewards. Otherwise AdamW still moves the "
        "weights by its momentum, and its estimate of the gradients' size decays.",
        panel="Optimisation",
    )
    scale_rate: bool = setting(
        False,
        "Divide the learning rate by the square root of the metric signal/ratio while that is above 1. "
        "Gradients are that many times as large as with uniform sampling, for which rates are usually tuned.",
        panel="Optimisation",
    )
    seed: int = setting(
        0,
        "The seed of all random numbers: the choice of prompts, sampling and training.",
        least=0,
        most=MAX_SEED,
        panel="Optimisation",
    )
    eval_data: str | None = setting(
        None,
        "Held-out prompts to evaluate on: written like --data, or the name of a benchmark suite of "
        "`curro evaluate`, such as MATH-500, which has its own reward. Several are separated by commas, and "
        "eval/pass@1 is their mean.",
        "the lab's test split, for data of the lab; else no evaluation",
        panel="Evaluation",
    )
    eval_prompts: int | None = setting(
        None,
        "How many held-out prompts to evaluate on.",
        "500, or the lab's recipe",
        least=1,
        panel="Evaluation",
    )
    eval_every: int = setting(
        25,
        "The number of steps, N, between evaluations. With --num-iterations M, it is the number of "
        "generations, each of M steps. With a gate, the model is evaluated after every N P G rollouts "
        "instead, including rejected groups, so that runs are compared at equal rollouts. 0: only before "
        "the first step and after the last.",
        least=0,
        panel="Evaluation",
    )
    eval_samples: int = setting(
        4, "How many completions of each held-out prompt to sample.", least=1, panel="Evaluation"
    )
    keep_best: bool = setting(
        False,
        "Also keep the model of the best evaluation, by pass@1 and then by reward, in the run's folder best.",
        panel="Evaluation",
    )
    save_every: int = setting(100, "The number of steps between checkpoints.", least=1, panel="Output")
    keep_rollouts: int = setting(
        0,
        "How many rollouts of every group to keep in rollouts.jsonl, where curro watch and curro inspect "
        "read them; those of the lowest and the highest reward come first.",
        least=0,
        panel="Output",
    )
    keep_megabytes: float = setting(
        1000.0, "Stop keeping rollouts when rollouts.jsonl has this size.", least=0, panel="Output"
    )
    log: str | None = setting(
        None,
        "Also log every step to trackio, wandb or tensorboard, which has to be installed. The curriculum's "
        "metrics are called curriculum/METRIC and curriculum/SOURCE/METRIC.",
        "only to the run folder",
        choices=("trackio", "wandb", "tensorboard"),
        panel="Output",
    )

    def __post_init__(self) -> None:
        for name, (item, annotation) in known_settings().items():
            item.check(name, getattr(self, name), annotation)
        object.__setattr__(self, "reward_range", reward_range_of(self.reward_range))


@functools.cache
def known_settings() -> dict[str, tuple[SettingSpec, Any]]:
    """The `SettingSpec` and the annotation of every setting, by its name, in order."""
    annotations = get_type_hints(DeclaredSettings)
    return {item.name: (setting_of(item), annotations[item.name]) for item in fields(DeclaredSettings)}


def flags_of(values: Mapping[str, Any]) -> list[str]:
    """Settings as options of `curro train`, `--name=value`; None is left out.

    Switches have no value: they are `--name` or `--no-name`.
    """
    flags = []
    for name, value in values.items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            flags.append(f"--{option}" if value else f"--no-{option}")
        elif value is not None:
            text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            flags.append(f"--{option}={text}")
    return flags
