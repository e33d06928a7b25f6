"""What TRL leaves out of its checkpoints: the curriculum, and rollouts that are still to be trained on."""

from __future__ import annotations

import logging
import pickle
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import TrainerState
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from trl import GRPOConfig

from curro.core.curriculum import Curriculum
from curro.core.errors import CheckpointError

FOLDER, CURRICULUM, ROLLOUTS = "curro", "curriculum.npz", "rollouts-{}.safetensors"


WaitingRollouts = tuple[int, list[dict[str, torch.Tensor]]]
"""Rollouts of a generation that are still to be trained on: TRL's `_step` and `_buffered_inputs`."""


def newest(folder: Path, *, cut_off: Callable[[Path], None] = lambda path: None) -> Path | None:
    """Find the last complete checkpoint in a folder; call `cut_off` with later ones that are not whole."""
    folders = [
        path for path in folder.glob(f"{PREFIX_CHECKPOINT_DIR}-*") if path.name.split("-")[1].isdecimal()
    ]
    for path in sorted(folders, key=step_of, reverse=True):
        if (path / TRAINER_STATE_NAME).is_file() and (path / FOLDER / CURRICULUM).is_file():
            return path
        cut_off(path)
    return None


def to_resume(checkpoint: str | bool | None, folder: Path, *, is_main: bool) -> str | bool | None:
    """The checkpoint to resume from, checked; True becomes the last one in the folder that was saved whole.

    A run that begins beside another run's checkpoints is warned of: a resume takes the last of all.

    Raises:
        CheckpointError: there is none, or its state is not one that TRL wrote.
    """
    last = newest(folder) if checkpoint in (True, None, False) else Path(str(checkpoint))
    if not checkpoint and last is not None and is_main:
        logging.getLogger(__name__).warning(
            "%s is of an earlier run, and this run begins anew: resuming would take the last checkpoint "
            "of the two runs, so remove it or choose another output_dir",
            last,
        )
    if not checkpoint or last is None:
        return checkpoint
    if not last.is_dir():
        raise CheckpointError(
            f"there is no checkpoint {last}: name a folder such as {folder / PREFIX_CHECKPOINT_DIR}-100, or "
            "True for the last one"
        )
    if (last / TRAINER_STATE_NAME).is_file():
        check_state(last)
    return str(last)


def step_of(checkpoint: Path) -> int:
    """The training step after which it was saved."""
    return int(checkpoint.name.split("-")[1])


@contextmanager
def saving(folder: Path) -> Iterator[None]:
    """Turn any error while a folder is written into a `CheckpointError`, and remove the folder then."""
    try:
        yield
    except Exception as error:
        # PyTorch says of a full disk only that a position is unexpected
        parent = next(parent for parent in folder.absolute().parents if parent.exists())
        is_full = shutil.disk_usage(parent).free < 1_000_000
        shutil.rmtree(folder, ignore_errors=True)
        reason = "the disk is full" if is_full else first_line(error)
        raise CheckpointError(
            f"{folder} could not be saved ({reason}): what was saved before is still there"
        ) from error


@contextmanager
def reading(checkpoint: Path) -> Iterator[None]:
    """Turn any error while a checkpoint is read into a `CheckpointError`."""
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:
        raise CheckpointError(
            f"the checkpoint {checkpoint} cannot be read ({first_line(error)}): resume with the model and "
            "the options that saved it, or, if it is damaged, remove that folder, and resuming goes on from "
            "the one before"
        ) from error


def first_line(error: Exception) -> str:
    """What an error says, without some libraries' pages of advice, as PyTorch's to unpickle."""
    if isinstance(error, pickle.UnpicklingError):
        return "it holds something else than tensors and numbers"
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def check_state(checkpoint: Path) -> None:
    """Read the trainer's state as transformers does, which trusts what the file holds.

    Raises:
        CheckpointError: it is not such a state, or lacks what resuming needs.
    """
    with reading(checkpoint):
        state = TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME))
        numbers = ("max_steps", "save_steps", "eval_steps", "logging_steps", "train_batch_size", "epoch")
        counts = ("total_flos", "num_input_tokens_seen", "num_train_epochs")
        kinds: dict[str, Any] = {
            **dict.fromkeys((*numbers, *counts), int | float), "global_step": int, "log_history": list,
            "stateful_callbacks": dict, "best_metric": int | float | None, "best_global_step": int | None,
            "best_model_checkpoint": str | None,
        }  # fmt: skip
        for name, kind in kinds.items():
            value = getattr(state, name)
            if isinstance(value, bool) or not isinstance(value, kind):
                raise ValueError(f"{name} in {TRAINER_STATE_NAME} is {value!r:.50}")
        if "TrainerControl" not in state.stateful_callbacks:  # else the next save is a KeyError
            raise ValueError(f"stateful_callbacks in {TRAINER_STATE_NAME} lacks 'TrainerControl'")
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
    """Write the unused rollouts (each process its own), then the curriculum (the main process).

    The curriculum's file appears whole, as the last of all: a checkpoint that has it is complete.
    """
    folder = checkpoint / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    if rollouts is not None:
        step, parts = rollouts
        tensors = {
            f"{part}/{name}": value.contiguous().clone()
            for part, inputs in enumerate(parts)
            for name, value in inputs.items()
            if isinstance(value, torch.Tensor)
        }
        path = folder / ROLLOUTS.format(accelerator.process_index)
        save_file(tensors, path, metadata={"step": str(step)})
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        curriculum.save(folder / CURRICULUM)


def load(
    checkpoint: Path, accelerator: Accelerator, curriculum: Curriculum, args: GRPOConfig
) -> WaitingRollouts | None:
    """Restore what `save` wrote; prompts whose rollouts are lost are free again.

    Rollouts that do not fit this run's micro-batches, processes or loss are left out, with a warning.

    Returns:
        this process's unused rollouts, if there are any.
    """
    folder = checkpoint / FOLDER
    if not (folder / CURRICULUM).is_file():
        raise CheckpointError(
            f"no saved curriculum at {folder / CURRICULUM}, as TRL's own trainer saves none: start a new run "
            f"with {checkpoint} as its model"
        )
    if accelerator.is_main_process:
        curriculum.load(folder / CURRICULUM)
        curriculum.drop(curriculum.ledger.tickets)
    processes = len(list(folder.glob(ROLLOUTS.format("*"))))
    if not processes:
        return None
    waiting: dict[int, dict[str, torch.Tensor]] = {}
    path = folder / ROLLOUTS.format(accelerator.process_index % processes)
    # safetensors does not know "cpu:0", which is the device of one of several processes
    with safe_open(path, framework="pt") as file:
        step = int(file.metadata()["step"])
        for key in file.keys():  # noqa: SIM118 - a safetensors file is no mapping
            part, name = key.split("/")
            waiting.setdefault(int(part), {})[name] = file.get_tensor(key).to(accelerator.device)
    saved = [waiting[part] for part in sorted(waiting)]
    size = args.steps_per_generation, args.per_device_train_batch_size
    corrects_vllm = args.use_vllm and args.vllm_importance_sampling_correction
    needed = {"ref_per_token_logps": args.beta != 0, "importance_sampling_ratio": corrects_vllm}
    lacks = [name for name, is_needed in needed.items() if is_needed and name not in saved[0]]
    if processes != accelerator.num_processes or lacks or (len(saved), len(saved[0]["prompt_ids"])) != size:
        if accelerator.is_main_process:
            logging.getLogger(__name__).warning(
                "%s was saved between a generation and its last update, and its rollouts do not fit this "
                "run's micro-batches, processes or loss: they are left out, and training draws new ones",
                checkpoint,
            )
        return None
    return step, saved
