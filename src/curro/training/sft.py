"""Supervised training on worked answers, with TRL's SFTTrainer: what `curro sft` does.

It gives a model the form of answers before reinforcement learning starts, as "Online Difficulty Filtering for
Reasoning Oriented RL", appendix D, does with 1,107 worked answers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PrinterCallback, ProgressCallback, TrainerCallback
from trl import SFTConfig, SFTTrainer

from curro.core.errors import ConfigError
from curro.data import DataError, PromptSet, load_prompts
from curro.rollout.engines.models import compute_with, load_model
from curro.rollout.engines.plain_generation import end_ids
from curro.training.saved_model import lora_config, save_model
from curro.training.settings import TrainSettings
from curro.training.trl_arguments import device_arguments

_WORKED = ("solution", "response", "completion")
"""Columns of worked answers, in the order they are looked for; then the answer's."""


@dataclass(frozen=True)
class SFTSettings:
    """What supervised training needs beside the settings that it shares with `curro train`.

    Attributes:
        answer_column: of the worked answers; None finds it.
        epochs: passes over the data.
        batch: examples of a step.
        learning_rate: the highest; it falls to 0 along a cosine.
        max_length: tokens of an example; longer ones are cut.
    """

    answer_column: str | None
    epochs: float
    batch: int
    learning_rate: float
    max_length: int

    def __post_init__(self) -> None:
        for name in ("epochs", "learning_rate"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigError(f"{name} must be a finite number above 0, not {getattr(self, name)}")


def train_on_answers(
    shared: TrainSettings, settings: SFTSettings, out: Path, on_step: Callable[[int, int, float], None]
) -> None:
    """Train the model to write each prompt's worked answer, and save it with its tokenizer in `out`.

    The loss is of the answers' tokens alone, and of the end of sequence after them. Texts are trained on as
    they stand; of messages the answer is the assistant's, in the model's chat template.

    Args:
        out: the model's folder, new or empty.
        on_step: hears the step, the number of steps and the loss.

    Raises:
        CurroError: the data or the model cannot be loaded, the answers have no end at which the model stops,
            or the folder is in use.
    """
    if settings.batch % (shared.device_batch or settings.batch):
        raise ConfigError(f"device_batch {shared.device_batch} does not divide the batch of {settings.batch}")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} exists and is not an empty folder: choose another one with --out")
    examples = _worked_answers(shared, settings.answer_column)
    model, tokenizer = load_model(shared.model or f"lab:{shared.family}")
    _check_ends(model, tokenizer, examples)
    compute_with(shared.threads)
    steps = math.ceil(settings.epochs * math.ceil(len(examples) / settings.batch))
    trainer = SFTTrainer(
        model=model,
        processing_class=tokenizer,
        train_dataset=_data_set(examples),
        args=SFTConfig(
            **device_arguments(SFTConfig, settings.batch, shared.device_batch),
            output_dir=str(out),
            num_train_epochs=settings.epochs,
            learning_rate=settings.learning_rate,
            lr_scheduler_type="cosine",
            warmup_steps=math.ceil(0.03 * steps),
            max_length=settings.max_length,
            completion_only_loss=True,
            seed=shared.seed,
            save_strategy="no",
            logging_steps=1,
            report_to=[],
        ),
        peft_config=lora_config(shared.lora_rank),
        callbacks=[_Reporter(on_step)],
    )
    trainer.remove_callback(ProgressCallback)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    save_model(trainer, out)


class _Reporter(TrainerCallback):
    def __init__(self, on_step: Callable[[int, int, float], None]) -> None:
        self.on_step = on_step

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if logs and "loss" in logs:
            self.on_step(state.global_step, state.max_steps, float(logs["loss"]))


def _worked_answers(shared: TrainSettings, answer_column: str | None) -> PromptSet:
    """The examples; `answer` is the worked answer."""
    columns = shared.columns | ({"answer_column": answer_column} if answer_column else {})
    prompts = load_prompts(shared.data, limit=shared.limit, **columns)
    if answer_column is None:
        column = next((name for name in _WORKED if any(row.get(name) for row in prompts)), None)
        if column is not None:
            prompts = load_prompts(shared.data, limit=shared.limit, **columns, answer_column=column)
    for i, row in enumerate(prompts):
        if not row["answer"]:
            raise DataError(
                f"row {i} of {shared.data} has no worked answer: name its column with --answer-column; the "
                f"columns are {', '.join(row)}"
            )
    return prompts


_END = re.compile(r"(<\|[^<>|\s]{1,40}\|>|</s>|<eos>|<end_of_turn>)\s*\Z")
"""What ends a sequence in the usual chat templates, at the end of a text."""


def _check_ends(model: Any, tokenizer: Any, examples: PromptSet) -> None:
    """Refuse worked answers after which the trained model would not stop.

    Training writes the end of sequence after every answer, and rollouts stop at the tokens of `end_ids`. An
    answer that brings an end of its own is trained to be followed by a second one, and if it is another
    model's, rollouts run past it to the length limit.
    """
    for i, row in enumerate(examples):
        if own := _END.search(row["answer"]):
            raise DataError(
                f"the worked answer of row {i} of {examples.source} ends with {own[1]}: leave it out, since "
                "training writes the end of sequence that rollouts stop at"
            )
    prompt = examples[0]["prompt"]
    if isinstance(prompt, str):
        return  # TRL appends the tokenizer's end of sequence, which is one of `end_ids`
    messages = [*prompt, {"role": "assistant", "content": examples[0]["answer"]}]
    ids = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=True)["input_ids"]
    text = tokenizer.decode(ids).rstrip()
    stops = [tokenizer.decode([token]) for token in end_ids(model, tokenizer)]
    if not text.endswith(tuple(stops)):
        raise ConfigError(
            f"the chat template ends an answer with {text[-20:]!r}, and the model stops at "
            f"{' or '.join(map(repr, stops))}: set eos_token_id in its generation_config.json, or take "
            "another chat template"
        )


def _data_set(examples: PromptSet) -> Any:
    import datasets

    if isinstance(examples[0]["prompt"], str):
        completions: list[Any] = [row["answer"] for row in examples]
    else:
        completions = [[{"role": "assistant", "content": row["answer"]}] for row in examples]
    prompts = [row["prompt"] for row in examples]
    return datasets.Dataset.from_dict({"prompt": prompts, "completion": completions})
