"""What TRL leaves out of its checkpoints: the curriculum, and rollouts that are still to be trained on."""

from __future__ import annotations

import logging
import pickle
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from accelerate import Accelerator
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import TrainerState
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from curro.core.curriculum import Curriculum
from curro.core.errors import CheckpointError

FOLDER, CURRICULUM = "curro", "curriculum.npz"


@dataclass(frozen=True)
class WaitingRollouts:
    """Rollouts of a generation that are still to be trained on: TRL's `_step` and `_buffered_inputs`."""

    step: int
    parts: list[dict[str, torch.Tensor]]


def newest(folder: Path, *, cut_off: Callable[[Path], None] = lambda path: None) -> Path | None:
    """The last complete checkpoint in a folder; `cut_off` hears of later ones that were not saved whole."""
    folders = [
        path for path in folder.glob(f"{PREFIX_CHECKPOINT_DIR}-*") if path.name.split("-")[1].isdecimal()
    ]
    for path in sorted(folders, key=step_of, reverse=True):
        if (path / TRAINER_STATE_NAME).is_file() and (path / FOLDER / CURRICULUM).is_file():
            return path
        cut_off(path)
    return None


def to_resume(checkpoint: str | bool | None, folder: Path) -> str | bool | None:
    """The checkpoint to resume from, checked; True becomes the last one in the folder that was saved whole.

    Raises:
        CheckpointError: its state is not one that TRL wrote.
    """
    last = newest(folder) if checkpoint is True else Path(checkpoint) if checkpoint else None
    if last is None:
        return checkpoint
    if (last / TRAINER_STATE_NAME).is_file():
        check_state(last)
    return str(last)


def warn_of_earlier(folder: Path) -> None:
    """Say in the log that a run begins in an output folder that has the checkpoints of another one.

    A later resume would take the last of them, whichever run it is of.
    """
    if earlier := newest(folder):
        logging.getLogger(__name__).warning(
            "%s is of an earlier run, and this run begins anew: resuming would take the last checkpoint "
            "of the two runs, so remove it or choose another output_dir",
            earlier,
        )


def step_of(checkpoint: Path) -> int:
    """The training step after which it was saved."""
    return int(checkpoint.name.split("-")[1])


@contextmanager
def saving(folder: Path) -> Iterator[None]:
    """Turn any library's error while a folder is written into one sentence, and remove the folder then.

    Raises:
        CheckpointError: in place of the error of the writing.
    """
    try:
        yield
    except Exception as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise CheckpointError(
            f"{folder} could not be saved ({first_line(error)}): what was saved before is still there"
        ) from error


@contextmanager
def reading(checkpoint: Path) -> Iterator[None]:
    """Turn any library's error while a checkpoint is read into one sentence.

    Raises:
        CheckpointError: in place of the error of the reading.
    """
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:
        raise CheckpointError(
            f"the checkpoint {checkpoint} cannot be read ({first_line(error)}): remove that folder, and "
            "resuming goes on from the one before"
        ) from error


def first_line(error: Exception) -> str:
    """What an error says, without some libraries' pages of advice, as PyTorch's to unpickle."""
    if isinstance(error, pickle.UnpicklingError):
        return "it holds something else than tensors and numbers"
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def check_state(checkpoint: Path) -> None:
    """Read the trainer's state as transformers does, which trusts what the file holds.

    Raises:
        CheckpointError: it is no such state, or lacks what resuming needs.
    """
    with reading(checkpoint):
        state = TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME))
        numbers = ("max_steps", "save_steps", "eval_steps", "logging_steps", "train_batch_size", "epoch")
        kinds = {**dict.fromkeys(numbers, int | float), "global_step": int, "log_history": list}
        for name, kind in kinds.items():
            value = getattr(state, name)
            if isinstance(value, bool) or not isinstance(value, kind):
                raise ValueError(f"{name} in {TRAINER_STATE_NAME} is {value!r:.50}")
        if state.global_step != step_of(checkpoint):
            raise ValueError(f"{TRAINER_STATE_NAME} is of step {state.global_step}")


def clear(checkpoint: Path, accelerator: Accelerator) -> None:
    """Before TRL saves a checkpoint: it is not complete, whatever an earlier run left in its place."""
    if accelerator.is_main_process:
        shutil.rmtree(checkpoint / FOLDER, ignore_errors=True)
    accelerator.wait_for_everyone()


def save(
    checkpoint: Path, accelerator: Accelerator, curriculum: Curriculum, rollouts: WaitingRollouts | None
) -> None:
    """Write the unused rollouts (by each process), then the curriculum (by its owner) into the checkpoint.

    The curriculum's file appears whole, as the last of all: a checkpoint that has it is complete.
    """
    folder = checkpoint / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    if rollouts is not None:
        tensors = {
            f"{part}/{name}": value.contiguous().clone()
            for part, inputs in enumerate(rollouts.parts)
            for name, value in inputs.items()
            if isinstance(value, torch.Tensor)
        }
        save_file(tensors, _rollouts(folder, accelerator), metadata={"step": str(rollouts.step)})
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        curriculum.save(folder / CURRICULUM)


def load(
    checkpoint: Path, accelerator: Accelerator, curriculum: Curriculum, parts: int
) -> WaitingRollouts | None:
    """Restore what `save` wrote; the owner frees prompts whose rollouts are lost.

    Args:
        parts: how many parts TRL divides a generation into.

    Returns:
        this process's unused rollouts, if there are any.
    """
    folder = checkpoint / FOLDER
    if accelerator.is_main_process:
        curriculum.load(folder / CURRICULUM)
        curriculum.drop(curriculum.ledger.tickets)
    path = _rollouts(folder, accelerator)
    if not path.exists():
        return None
    waiting: list[dict[str, torch.Tensor]] = [{} for _ in range(parts)]
    with safe_open(path, framework="pt", device=str(accelerator.device)) as file:
        step = int(file.metadata()["step"])
        for key in file.keys():  # noqa: SIM118 - a safetensors file is no mapping
            part, name = key.split("/")
            waiting[int(part)][name] = file.get_tensor(key)
    return WaitingRollouts(step, waiting)


def _rollouts(folder: Path, accelerator: Accelerator) -> Path:
    return folder / f"rollouts-{accelerator.process_index}.safetensors"
