"""The curriculum that a trainer's arguments describe, and which of TRL's arguments go with it."""

from __future__ import annotations

import functools
import inspect
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from datasets import Dataset
from peft import PeftConfig
from transformers import AutoConfig, AutoProcessor, PreTrainedTokenizerBase, ProcessorMixin, TrainerState
from trl import GRPOConfig

from curro.core.bases import Selection
from curro.core.curriculum import Curriculum
from curro.core.errors import ConfigError
from curro.core.files import check_writable
from curro.core.identity import DatasetRows
from curro.data.media import first_media
from curro.hosts.trl import seams
from curro.reward.adapters import refuse_columns, reward_of
from curro.reward.row_checks import check_before_run
from curro.rollout.fill_settings import FillSettings
from curro.runs.writer import KeepRollouts


def build_curriculum(
    curriculum: Curriculum | Selection | str | Mapping[str, Any],
    parts: Mapping[str, Any],
    rows: DatasetRows,
    seed: int,
) -> Curriculum:
    """The curriculum over these rows that a trainer's arguments describe.

    Args:
        curriculum: as the trainer takes it.
        parts: what stands beside it, by name; None for what was not given.
        seed: of all random choices.
    """
    beside = {name: part for name, part in parts.items() if part is not None}
    if isinstance(curriculum, Curriculum):
        if beside:
            raise ConfigError(
                f"the curriculum has its own {' and '.join(beside)}: give it to `Curriculum` alone"
            )
        curriculum.check_rows(rows, "train_dataset")
        return curriculum
    is_whole = isinstance(curriculum, Mapping) and "selection" in curriculum
    config = dict(cast(Mapping[str, Any], curriculum)) if is_whole else {"selection": curriculum}
    if twice := [name for name in beside if name in config]:
        raise ConfigError(f"the {twice[0]} is named twice, in `curriculum` and beside it: keep one of them")
    return Curriculum.from_config({"seed": seed, **config, **beside}, rows)


KINDS: dict[str, tuple[Any, str]] = {
    "args": (GRPOConfig, "a GRPOConfig"),
    "train_dataset": (Dataset, "a `datasets.Dataset` to choose from"),
    "processing_class": ((PreTrainedTokenizerBase, ProcessorMixin), "a tokenizer or a processor"),
    "peft_config": (PeftConfig, "an object such as peft.LoraConfig(r=8)"),
    "tools": (list, "a list of functions"),
    "rollout_func": (Callable, "a function"),
    "environment_factory": ((Callable, Mapping), "a class or function that makes environments"),
    "keep": (KeepRollouts, "a KeepRollouts of curro.hosts.trl, as KeepRollouts(2)"),
    "fill": (FillSettings, "a FillSettings of curro.hosts.trl, as FillSettings(10)"),
    "on_groups": (Callable, "a function that takes a GroupRecord"),
}
"""What some arguments are, of TRL's and of the trainer's own."""


def check_kinds(given: Mapping[str, Any]) -> None:
    """Refuse arguments of a wrong kind before TRL begins to build a trainer from them; None is none given."""
    if given.get("train_dataset") is None:
        raise ConfigError(
            "`train_dataset` is required, unless one `environment_factory` makes the prompts and `max_steps` "
            "says for how long; a dict of several requires a `train_dataset` with a column `environment`"
        )
    if given.get("model") is None:
        raise ConfigError("`model` is required: the name of a model, or the model")
    for name, (kind, what) in KINDS.items():
        value = given.get(name)
        if value is not None and not isinstance(value, kind):
            text = " ".join(repr(type(value) if name == "train_dataset" else value).split())
            raise ConfigError(f"{name} is {what}, not {text:.50}")
    check_writable(Path(cast(str, given["args"].output_dir)))


def rows_of(dataset: Dataset, *, is_played: bool) -> DatasetRows:
    """The rows among which a curriculum chooses.

    Where environments make the prompts, what their `reset` takes stands for the prompt. Rows that are alike
    are told apart by their places.

    Args:
        is_played: whether there is an `environment_factory`, whose environments may make the prompts.
    """
    if "prompt" in dataset.column_names or not is_played:
        return DatasetRows(dataset)
    return DatasetRows([{**row, "prompt": json.dumps(row, sort_keys=True, default=str)} for row in dataset])


def reward_functions(value: Any, args: GRPOConfig) -> list[Any]:
    """The reward functions that a trainer's argument `reward_funcs` has: one, or several of them.

    Raises:
        ConfigError: something else than a function, an object that can be called, a model or its name; or
            another number of weights.
    """
    functions = [] if value is None else [*value] if isinstance(value, list | tuple) else [value]
    for function in functions:
        if not (isinstance(function, str) or callable(function)):
            raise ConfigError(
                f"reward_funcs has {function!r:.50}: a reward is a function, an object that can be called, or"
                " a model"
            )
        if isinstance(function, str):
            try:
                AutoConfig.from_pretrained(function, trust_remote_code=args.trust_remote_code)
            except (OSError, ValueError):
                raise ConfigError(
                    f"reward_funcs has the text {function!r}, and no model with this name can be read: give "
                    "the function itself, or the folder of a reward model"
                ) from None
    weights = args.reward_weights
    if weights is not None and functions and len(weights) != len(functions):
        raise ConfigError(f"reward_weights has {len(weights)} numbers for {len(functions)} reward functions")
    for weight in weights or ():
        if not isinstance(weight, int | float) or not math.isfinite(weight):
            raise ConfigError(f"reward_weights has {weight!r:.50}: a weight is a finite number")
    return functions


def is_model(function: Any) -> bool:
    """Whether a reward is a model or the name of one."""
    return isinstance(function, str) or hasattr(function, "config")


def reward_names(functions: Sequence[Any]) -> list[str]:
    """The names that TRL will give reward functions."""
    inner = map(_unwrapped, functions)
    return [
        model_name(one) if is_model(one) else getattr(one, "__name__", type(one).__name__) for one in inner
    ]


def _unwrapped(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def model_name(model: Any) -> str:
    """The last part of a model's name, by which TRL calls its rewards and the folder of a run."""
    return str(model if isinstance(model, str) else model.config._name_or_path).split("/")[-1]


def check_rows(
    functions: Sequence[Any], args: GRPOConfig, rows: Dataset, held_out: Any, say: Callable[[str], object]
) -> None:
    """Score rows with their own answers before TRL loads the model (`curro.reward.row_checks`).

    Functions of the user's own are called in the main process alone, and models not at all.

    Args:
        functions: from `reward_functions`.
        rows: the data set.
        held_out: TRL's `eval_dataset`; only its columns are looked at.
        say: called with what is to be logged.

    Raises:
        ConfigError: a function cannot be called with the columns of the rows, or a reward of curro's does not
            fit more than 1% of the rows.
        RewardError: a reward of curro's needs columns that the rows lack.
    """
    extra = {
        "completion_ids": [0], "trainer_state": TrainerState(),
        **dict.fromkeys(("log_extra", "log_metric"), lambda *_: None),
    }  # fmt: skip
    if taken := {"prompts", "completions"}.intersection(rows.column_names):
        raise ConfigError(
            f"train_dataset has the columns {', '.join(sorted(taken))}, and TRL gives reward functions "
            "something else by these names: rename them"
        )
    if taken := extra.keys() & rows.column_names:
        say(
            f"train_dataset has the columns {', '.join(sorted(taken))}, and TRL gives reward functions its "
            "own values by these names: rename those that a reward is to read"
        )
    columns = {"train_dataset": rows.column_names} | _evaluated(held_out)
    for function, name in zip(functions, reward_names(functions), strict=True):
        if is_model(function):
            continue
        for data, names in columns.items():
            given = {"prompts", "completions", *extra, *names} - {"prompt", "completion"}
            try:
                inspect.signature(function).bind(**dict.fromkeys(given))
            except (TypeError, ValueError) as error:
                raise ConfigError(
                    f"reward {name!r} cannot be called as TRL calls it, with prompts, completions and every "
                    f"column of the data by name: {error}; {data} has {', '.join(names)}"
                ) from None
        reward = reward_of(function, name, extra)
        is_curros = getattr(function, "reward", None) is reward
        if is_curros:
            refuse_columns(reward, rows.column_names)
        inner = _unwrapped(function)
        is_awaited = any(map(inspect.iscoroutinefunction, (inner, inner.__call__)))
        if not is_awaited and (is_curros or not args.process_index):
            check_before_run(rows, reward, say, "no_check=True")


def _evaluated(held_out: Any) -> dict[str, list[str]]:
    """The columns of TRL's `eval_dataset`, which may be a dict of several, by the names of the sets.

    Raises:
        ConfigError: one has no prompts.
    """
    several = {"eval_dataset": held_out}
    if isinstance(held_out, Mapping):
        several = {f"eval_dataset[{name!r}]": rows for name, rows in held_out.items()}
    columns = {name: getattr(rows, "column_names", None) for name, rows in several.items()}
    for name, names in columns.items():
        if names and "prompt" not in names:
            raise ConfigError(
                f"{name} has no column 'prompt' with the prompts; it has {', '.join(names)}: rename the "
                "column that holds them"
            )
    return {name: names for name, names in columns.items() if names}


def processing_class(given: Mapping[str, Any], args: GRPOConfig) -> Any:
    """The tokenizer or processor, which TRL would read after the model."""
    reader, model = given.get("processing_class"), given["model"]
    if reader is not None:
        return reader
    name = model if isinstance(model, str) else model.config._name_or_path
    try:
        return AutoProcessor.from_pretrained(
            name,
            revision=cast(Any, args.model_init_kwargs or {}).get("revision"),
            truncation_side="left",
            padding_side="left",
            trust_remote_code=args.trust_remote_code,
        )
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"no tokenizer of {name!r} can be read ({str(error).splitlines()[0]}): check the name, or "
            "give a tokenizer as `processing_class`"
        ) from None


def media(dataset: Dataset) -> str:
    """Where the rows have images, video or sound, in words; empty if they have text alone."""
    columns = sorted({"image", "images"}.intersection(dataset.column_names))
    if columns:
        return f"the column {', '.join(columns)}"
    if "prompt" not in dataset.column_names or isinstance(dataset[0]["prompt"], str):
        return ""
    parts = dataset.select_columns(["prompt"]).iter(8192)
    first = first_media(({"prompt": prompt} for part in parts for prompt in part["prompt"]), ())
    return "" if first is None else f"{', '.join(first[1])} in row {first[0]}"


def check_combinations(
    given: Mapping[str, Any], curriculum: Curriculum, when_short: str, update_option: str | None
) -> None:
    """Refuse arguments of TRL that do not go together, or not with this curriculum.

    Args:
        given: TRL's arguments.
        when_short: what the fill does with a batch that stays short.
        update_option: an option that changes optimizer steps, if there is one.
    """
    args, dataset, reader = given["args"], given["train_dataset"], given["processing_class"]
    factory: Any = given.get("environment_factory")
    rows, group = args.generation_batch_size, args.num_generations
    gated, allotted = curriculum.has_admission, curriculum.has_allocation
    first = curriculum.allocation.first
    prompt = dataset[0]["prompt"] if "prompt" in dataset.column_names else ""
    factories = [*factory.values()] if isinstance(factory, Mapping) else [factory] if factory else []
    images, shows_calls = media(dataset), seams.function(*seams.FUNCTIONS[seams.TOOL_CHECK])
    conflicts = (
        (args.num_iterations < 1, f"num_iterations={args.num_iterations}: at least 1 is needed"),
        (args.max_completion_length == 0, "max_completion_length=0: a rollout needs a token at least"),
        (
            args.temperature <= 0,
            f"temperature={args.temperature:g}: the rollouts of a group would be the same; take more than 0",
        ),
        (
            args.eval_strategy != "no" and given.get("eval_dataset") is None,
            "eval_strategy says when to evaluate, and there is no eval_dataset: give one, or leave it out",
        ),
        (
            rows // group > len(dataset),
            f"a batch takes {rows // group} prompts and the data set has {len(dataset)}: lower "
            "per_device_train_batch_size or steps_per_generation, or raise num_generations",
        ),
        (
            gated and when_short == "finish",
            "TRL trains on batches of one size: when a batch stays short, choose when_short="
            '"top-up" or "error"',
        ),
        (
            allotted and not curriculum.has_advantage,
            "TRL's own advantages need groups of one size: give the curriculum an advantage beside its "
            'allocation ("leave-one-out")',
        ),
        (
            allotted and first > rows,
            f"every prompt gets {first} rollouts at first, and a generation has {rows}: raise "
            "per_device_train_batch_size or steps_per_generation, or lower `first`",
        ),
        (
            update_option is not None and bool(args.deepspeed or args.deepspeed_plugin),
            f"DeepSpeed makes its updates itself: leave out {update_option}",
        ),
        (
            getattr(reader, "tokenizer", reader).eos_token_id is None,
            "the tokenizer has no token that ends a completion: set its eos_token",
        ),
        (
            not isinstance(prompt, str) and reader.chat_template is None and not given.get("rollout_func"),
            "train_dataset has messages, and the tokenizer has no chat template: set its chat_template, or "
            "give prompts as text",
        ),
        (
            bool(images) and gated,
            f"admission works with text alone, and train_dataset has {images}: batches of images are not "
            "put together from several rounds; leave the admission out",
        ),
        (
            bool(images) and isinstance(reader, PreTrainedTokenizerBase),
            f"train_dataset has {images}, and a tokenizer reads text alone: give the processor of a model "
            "that reads images as `processing_class`, or take text data",
        ),
        (
            any(inspect.isclass(one) and not callable(getattr(one, "reset", None)) for one in factories),
            "an environment of environment_factory has no method `reset`",
        ),
        (
            bool(given.get("tools") or factories) and shows_calls is not None and not shows_calls(reader),
            "the chat template shows the model no calls of tools: take a model or a template that does",
        ),
    )
    for is_refused, sentence in conflicts:
        if is_refused:
            raise ConfigError(sentence)
