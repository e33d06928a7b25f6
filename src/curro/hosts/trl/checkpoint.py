"""What TRL leaves out of its checkpoints: the curriculum, and rollouts that are still to be trained on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch
from safetensors import safe_open
from safetensors.torch import save_file

if TYPE_CHECKING:
    from curro.hosts.trl.trainer import CurriculumGRPOTrainer

FOLDER = "curro"


def save(trainer: CurriculumGRPOTrainer, checkpoint: Path) -> None:
    """Write the curriculum (by its owner) and the unused rollouts (by each process) into the checkpoint."""
    folder = checkpoint / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    if trainer.accelerator.is_main_process:
        trainer.curriculum.save(folder / "curriculum.npz")
    split = cast(int, trainer.args.steps_per_generation)
    if trainer._step % (split * trainer.num_iterations) and trainer._buffered_inputs is not None:
        tensors = {
            f"{part}/{name}": value.contiguous().clone()
            for part, inputs in enumerate(trainer._buffered_inputs)
            for name, value in inputs.items()
            if isinstance(value, torch.Tensor)
        }
        save_file(tensors, _rollouts(trainer, folder), metadata={"step": str(trainer._step)})


def load(trainer: CurriculumGRPOTrainer, checkpoint: Path) -> None:
    """Restore what `save` wrote; the owner frees prompts whose rollouts are lost."""
    folder = checkpoint / FOLDER
    if trainer.accelerator.is_main_process:
        trainer.curriculum.load(folder / "curriculum.npz")
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
