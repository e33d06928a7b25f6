"""Every name of TRL on which this host stands, and what is lost if a newer TRL has changed it.

TRL has a new version about every two weeks, and its trainer has no public hooks for a curriculum. This table
is compared with the installed TRL before a model is loaded: a change that would make the curriculum wrong
stops the run, any other switches something off, in one sentence.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from textwrap import dedent
from types import CodeType
from typing import Any, cast

import trl
from packaging.version import Version

from curro.core.errors import ConfigError

FIRST, NEWEST = "1.9.0", "1.16.0"
"""The oldest and the newest TRL tested; all names below but `UNEVEN` were seen in both."""

UNEVEN = {
    "eos_token_ids": "from 1.15", "trainer.utils.add_fused_lm_head": "from 1.15",
    "compute_liger_loss": "up to 1.12",
}  # fmt: skip
"""What is used where a version has it, and the versions in which it was seen."""

CURRICULUM = ""
ACCELERATIONS = "the accelerations"
LOG = "the curriculum's numbers in TRL's log"
SECOND_LOSS = "methods that train the policy's judgments (metis)"
EPISODES = "curro's environments and methods that ask the policy"
TOOL_CHECK = "the early check that a chat template shows calls of tools"
ROUNDS = "gates and allocations that look first"

WRAPPED: dict[str, dict[str, tuple[str, ...]]] = {
    CURRICULUM: {
        "_generate_and_score_completions": ("inputs",),
        "_calculate_rewards": ("inputs", "prompts", "completions", "completion_ids_list"),
        "_prepare_inputs": ("generation_batch",),
        "_save_checkpoint": ("model", "trial"),
        "_load_from_checkpoint": ("resume_from_checkpoint", "model"),
        "_load_rng_state": ("checkpoint",),
        "_load_optimizer_and_scheduler": ("checkpoint",),
        "train": ("resume_from_checkpoint",),
        "evaluate": ("eval_dataset", "ignore_keys", "metric_key_prefix"),
    },
    SECOND_LOSS: {
        "_compute_loss": ("model", "inputs"),
        "_get_per_token_logps_and_entropies": (
            "model", "input_ids", "attention_mask", "logits_to_keep", "batch_size", "compute_entropy",
        ),
    },
    ROUNDS: {"_generate": ("prompts",)},
    ACCELERATIONS: {"_generate_single_turn": ("prompt_ids", "images", "multimodal_fields")},
}  # fmt: skip
"""The methods that are wrapped, by what is switched off without them; without `CURRICULUM` nothing works.

Each calls TRL's own once and edits what goes in or comes out. Its parameters here are the ones passed. A
private one that no method calls is lost: Unsloth leaves `_compute_loss` and computes the loss elsewhere.
"""

READ: dict[str, tuple[str, ...]] = {
    CURRICULUM: (
        "accelerator", "add_callback", "args", "current_gradient_accumulation_steps", "eval_dataset",
        "is_deepspeed_enabled", "is_fsdp_enabled", "is_in_train", "loss_type", "max_completion_length",
        "min_p", "model", "model_wrapped", "multi_objective_aggregation", "num_generations",
        "num_generations_eval", "num_iterations", "processing_class", "repetition_penalty",
        "reward_func_names", "reward_weights", "rollout_func", "state", "temperature", "top_k", "top_p",
        "train_dataset", "_buffered_inputs", "_get_output_dir", "_step", "_tokenizer",
    ),
    LOG: ("_metrics", "_logs"),
    EPISODES: ("chat_template", "chat_template_kwargs", "_generate_single_turn", "_tokenize_prompts"),
    ROUNDS: ("environment_factories", "environments", "tools", "_pending_extra_logs"),
    ACCELERATIONS: (
        "aux_loss_enabled", "beta", "generation_config", "top_entropy_quantile",
        "use_transformers_continuous_batching", "use_vllm", "_entropy_bonus_enabled",
    ),
}  # fmt: skip
"""What is read, likewise: public attributes, and private ones that begin with an underscore."""

CONFIG = (
    "beta", "generation_batch_size", "max_completion_length", "model_init_kwargs", "num_generations",
    "num_iterations", "reward_weights", "shuffle_dataset", "steps_per_generation", "temperature",
    "trust_remote_code", "use_vllm", "vllm_importance_sampling_correction",
)  # fmt: skip
"""What `CURRICULUM` reads of GRPOConfig, beside what that has of transformers' TrainingArguments."""

FUNCTIONS = {
    TOOL_CHECK: ("chat_template_utils.supports_tool_calling",),
    ACCELERATIONS: ("trainer.utils.selective_log_softmax", "trainer.utils.entropy_from_logits"),
}
"""Functions of TRL's modules, likewise."""

RETURNED = {
    "_generate": 8, "_generate_single_turn": 2, "_tokenize_prompts": 3,
    "_get_per_token_logps_and_entropies": 3,
}  # fmt: skip
"""How many values a method returns whose values are told apart by their places."""


def function(name: str) -> Any:
    """The function of this name in one of TRL's modules; None where TRL does not have it there."""
    module, _, name = name.rpartition(".")
    with suppress(ImportError):
        return getattr(import_module(f"trl.{module}"), name, None)


def end_tokens(trainer: Any) -> list[int]:
    """The tokens that end a completion: TRL knows several from 1.15 on, before that the tokenizer's alone."""
    return getattr(trainer, "eos_token_ids", None) or [trainer._tokenizer.eos_token_id]


@contextmanager
def single_completions(trainer: Any) -> Iterator[list[int]]:
    """Let `_generate_single_turn` ask a vLLM server for one completion a prompt.

    TRL takes their number as an argument, which is yielded, from 1.14 on, and before that from attributes.
    """
    takes = inspect.signature(trl.GRPOTrainer._generate_single_turn).parameters
    with replaced(trainer, num_generations=1, num_generations_eval=1):
        yield [1] if "num_generations" in takes else []


@contextmanager
def replaced(owner: Any, **attributes: Any) -> Iterator[None]:
    """Give an object other attributes for a while."""
    usual = {name: getattr(owner, name) for name in attributes}
    vars(owner).update(attributes)
    try:
        yield
    finally:
        vars(owner).update(usual)


def check_contract(trainer: type[Any]) -> dict[str, str]:
    """Compare the installed trainer with `WRAPPED` and `READ`.

    Returns:
        what is switched off, and why, in words.

    Raises:
        ConfigError: what the curriculum stands on has changed, or TRL is older than `FIRST`.
    """
    if Version(trl.__version__) < Version(FIRST):
        raise ConfigError(f"TRL {trl.__version__} is older than {FIRST}: pip install -U trl")
    used = _names(cast(Hashable, trainer))
    author = f"TRL {trl.__version__}" if _is_trls(trainer) else trainer.__module__
    reasons: dict[str, str] = {}
    fields = trl.GRPOConfig.__dataclass_fields__
    for serves in dict.fromkeys([*WRAPPED, *READ, *FUNCTIONS]):
        wrapped, read = WRAPPED.get(serves, {}), READ.get(serves, ())
        lacks = [name for name in wrapped if not _takes(trainer, name, wrapped[name], used)]
        lacks += [name for name in read if not hasattr(trainer, name) and name not in used]
        placed = [name for name in RETURNED if name in {*wrapped, *read} - {*lacks}]
        lacks += [name for name in placed if not _returns(getattr(trainer, name), RETURNED[name])]
        changed = [f"GRPOTrainer.{name}" for name in lacks]
        changed += [name for name in FUNCTIONS.get(serves, ()) if function(name) is None]
        if serves == CURRICULUM:
            changed += [f"GRPOConfig.{name}" for name in CONFIG if name not in fields]
        if changed:
            reasons[serves] = f"{author} has changed {' and '.join(changed)}"
    if CURRICULUM in reasons:
        raise ConfigError(
            f"{reasons[CURRICULUM]}, and a curriculum would go wrong: pip install 'trl<={NEWEST}', the newest"
            " with which this version of curro was tested"
        )
    return reasons


def unaccelerated(trainer: type[Any], args: Any, lost: dict[str, str]) -> str:
    """Why the accelerations are left out; empty if they are not.

    Args:
        trainer: the class that is derived from; another library's in the place of TRL's is left alone.
        lost: from `check_contract`.
    """
    if ACCELERATIONS in lost or SECOND_LOSS in lost:
        return lost.get(ACCELERATIONS) or lost[SECOND_LOSS]
    if not _is_trls(trainer):
        return f"GRPOTrainer is {trainer.__module__}'s and not TRL's"
    if getattr(args, "use_liger_kernel", False) and "compute_liger_loss" in vars(trainer):
        return "use_liger_kernel computes the loss in another way"
    return ""


def _is_trls(trainer: type[Any]) -> bool:
    return trainer.__module__.startswith("trl.")


def _takes(trainer: type[Any], name: str, parameters: tuple[str, ...], used: set[str]) -> bool:
    """Whether a method is called by a trainer, if it is a private one, and takes these parameters."""
    method = getattr(trainer, name, None)
    if not callable(method) or (name.startswith("_") and name not in used):
        return False
    known = inspect.signature(method).parameters
    return set(parameters) <= set(known) or any(p.kind is p.VAR_KEYWORD for p in known.values())


@cache
def _returns(method: Any, number: int) -> bool:
    """Whether a method returns so many values, as far as its source tells."""
    sizes = []
    with suppress(OSError):  # there is no source
        tree = ast.walk(ast.parse(dedent(inspect.getsource(inspect.unwrap(method)))))
        returned = [node.value for node in tree if isinstance(node, ast.Return)]
        sizes = [len(value.elts) for value in returned if isinstance(value, ast.Tuple)]
    return number in sizes or not sizes


@cache
def _names(trainer: Any) -> set[str]:
    """All names that the methods of a class use, its attributes among them."""
    methods = [method for base in trainer.__mro__ for method in vars(base).values()]
    codes: list[Any] = [inspect.unwrap(method).__code__ for method in methods if inspect.isfunction(method)]
    names: set[str] = set()
    while codes:
        code = codes.pop()
        names.update(code.co_names)
        codes += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
    return names
