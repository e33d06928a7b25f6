"""Trained models on disk: LoRA merged into the weights, folders that appear whole, the best evaluation."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from peft import LoraConfig, PeftModel

from curro.core.files import sync
from curro.hosts.trl.checkpoint import saving
from curro.runs.folder import RunFolder


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


def write_model(trainer: Any, target: Path, evaluation: Mapping[str, Any] | None = None) -> None:
    """Save the model in a new folder, which appears whole, with its evaluation beside the weights.

    The disk has it when this returns: what it replaces may be removed.

    Raises:
        CheckpointError: it cannot be written.
    """
    part = target.with_name(f".{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    with saving(part):
        part.mkdir(parents=True)
        save_model(trainer, part)
        if evaluation is not None:
            (part / EVALUATION).write_text(json.dumps(evaluation) + "\n", encoding="utf-8")
        for path in (*part.rglob("*"), part):
            sync(path)
        part.rename(target)
        sync(target.parent)


EVALUATION = "evaluation.json"
"""In the folder of the best model: `step`, `pass@1` and `reward` of its evaluation."""


def best_models(folder: RunFolder) -> list[tuple[tuple[float, float], Path]]:
    """The scores (pass@1, then reward) and the folders of the best models, the best one last.

    There are two only where a process was killed between saving the second and removing the first.
    """
    evaluations = [
        (path, json.loads((path / EVALUATION).read_bytes()))
        for path in _kept(folder)
        if (path / EVALUATION).is_file()
    ]
    return sorted(((saved["pass@1"], saved["reward"]), path) for path, saved in evaluations)


def _kept(folder: RunFolder) -> list[Path]:
    """`step-N` of the best models; what a kill left half removed has no evaluation. Others are the user's."""
    return [path for path in folder.best.glob("step-*") if path.name.removeprefix("step-").isdecimal()]


def keep_best(trainer: Any, folder: RunFolder, line: Mapping[str, Any], say: Callable[[str], None]) -> None:
    """Save the model as `best/step-N` if no saved one scored as much, and remove the others.

    The score is compared with the saved model's, so that a resumed run goes on as it should.
    """
    score = {"step": line["step"], "pass@1": line["eval/pass@1"], "reward": line["eval/reward"]}
    saved = best_models(folder)
    if saved and (score["pass@1"], score["reward"]) <= saved[-1][0]:
        best = saved[-1][1]
    else:
        best = folder.best / f"step-{score['step']}"
        shutil.rmtree(best, ignore_errors=True)
        write_model(trainer, best, score)
        say(f"the best model so far, of step {score['step']}, is in {best}")
    for path in _kept(folder):
        if path != best:
            shutil.rmtree(path)
