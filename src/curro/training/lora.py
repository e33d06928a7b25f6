"""LoRA: training small matrices beside the model's own, which are merged into it when training is over."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from peft import LoraConfig, PeftModel


def lora_config(rank: int | None) -> LoraConfig | None:
    """What TRL's trainers take as `peft_config`: all linear layers, scaled by 2; None without a rank.

    Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models" (2021).
    """
    if rank is None:
        return None
    return LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM")


def save_model(trainer: Any, folder: Path) -> None:
    """Save what one of TRL's trainers has trained as a plain model with its tokenizer.

    A copy is merged: merging takes the adapters out of the model, which may be in training still.
    """
    model = trainer.accelerator.unwrap_model(trainer.model)
    if isinstance(model, PeftModel):
        model = copy.deepcopy(model).merge_and_unload()
    model.save_pretrained(folder)
    trainer.processing_class.save_pretrained(folder)
