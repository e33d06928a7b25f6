"""What TRL leaves out of its checkpoints: the curriculum, and rollouts that are still to be trained on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

if TYPE_CHECKING:
    from curro.hosts.trl.trainer import CurriculumGRPOTrainer

FOLDER, CURRICULUM = "curro", "curriculum.npz"


def newest(folder: Path, *, cut_off: Callable[[Path], None] = lambda path: None) -> Path | None:
    """The last complete checkpoint in a folder, if there is one.

    Args:
        cut_off: hears of later ones whose saving did not come to its end.
    """
    found = [
        path for path in folder.glob(f"{PREFIX_CHECKPOINT_DIR}-*") if path.name.split("-")[1].isdecimal()
    ]
    for path in sorted(found, key=step_of, reverse=True):
        if (path / TRAINER_STATE_NAME).is_file() and (path / FOLDER / CURRICULUM).is_file():
            return path
        cut_off(path)
    return None


def step_of(checkpoint: Path) -> int:
    """The training step after which it was saved."""
    return int(checkpoint.name.split("-")[1])


def clear(trainer: CurriculumGRPOTrainer, checkpoint: Path) -> None:
    """Before TRL saves a checkpoint: it is not complete, whatever an earlier run left in its place."""
    if trainer.accelerator.is_main_process:
        shutil.rmtree(checkpoint / FOLDER, ignore_errors=True)
    trainer.accelerator.wait_for_everyone()


def save(trainer: CurriculumGRPOTrainer, checkpoint: Path) -> None:
    """Write the unused rollouts (by each process), then the curriculum (by its owner) into the checkpoint.

    The curriculum's file appears whole, as the last of all: a checkpoint that has it is complete.
    """
    folder = checkpoint / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    split = cast(int, trainer.args.steps_per_generation)
    if trainer._step % (split * trainer.num_iterations) and trainer._buffered_inputs is not None:
        tensors = {
            f"{part}/{name}": value.contiguous().clone()
            for part, inputs in enumerate(trainer._buffered_inputs)
            for name, value in inputs.items()
            if isinstance(value, torch.Tensor)
        }
        save_file(tensors, _rollouts(trainer, folder), metadata={"step": str(trainer._step)})
    trainer.accelerator.wait_for_everyone()
    if trainer.accelerator.is_main_process:
        trainer.curriculum.save(folder / CURRICULUM)


def load(trainer: CurriculumGRPOTrainer, checkpoint: Path) -> None:
    """Restore what `save` wrote; the owner frees prompts whose rollouts are lost."""
    folder = checkpoint / FOLDER
    if trainer.accelerator.is_main_process:
        trainer.curriculum.load(folder / CURRICULUM)
        trainer.curriculum.drop(trainer.curriculum.ledger.tickets)
    path = _rollouts(trainer, folder)
    if path.exists():
        parts: list[dict[str, torch.Tensor]] = [
            {} for _ in range(cast(int, trainer.args.steps_per_generation))
        ]
        with safe_open(path, framework="pt", device=str(trainer.accelerator.device)) as file:
            trainer._step = int(file.metadata()["step"])
            for key in file.keys():  # noqa: SIM118 - a safetensors file is no mapping
                part, name = key.split("/")
                parts[int(part)][name] = file.get_tensor(key)
        trainer._buffered_inputs = parts


def _rollouts(trainer: CurriculumGRPOTrainer, folder: Path) -> Path:
    return folder / f"rollouts-{trainer.accelerator.process_index}.safetensors"
