"""How a training run ends: with a model, by an interrupt, or with an error that leaves something behind."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from curro.errors import CurroError
from curro.hosts.trl import checkpoint as checkpoints
from curro.hosts.trl.trainer import CurriculumGRPOTrainer
from curro.storage.run_folder import RunFolder
from curro.training.lora import save_model
from curro.training.recorder import Recorder


@contextmanager
def stopping_cleanly(recorder: Recorder, say: Callable[[str], None]) -> Iterator[None]:
    """The first Ctrl-C (or SIGTERM) ends the run after this step with a checkpoint, the second at once."""

    def stop(number: int, frame: Any) -> None:
        if recorder.stopping:
            raise KeyboardInterrupt
        recorder.stopping = True
        say("stopping after this step; a second Ctrl-C stops at once")

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def leaving_something(
    trainer: CurriculumGRPOTrainer, recorder: Recorder, say: Callable[[str], None]
) -> Iterator[None]:
    """An error saves the last finished step, and what ends the run too early says where it can go on.

    Raises:
        CurroError: something, a reward of the user's for instance, tried to end the process.
    """
    try:
        yield
    except BaseException as error:
        if not isinstance(error, KeyboardInterrupt):
            _save(trainer, recorder, say)
        last = checkpoints.newest(recorder.folder.checkpoints)
        step = 0 if last is None else checkpoints.step_of(last)
        say(f"the run stopped; curro train --resume {recorder.folder.path} goes on after step {step}")
        if isinstance(error, SystemExit):
            raise CurroError(
                f"something in the run, such as a reward or an environment, called sys.exit({error.code!r}): "
                "it must return, or raise an error"
            ) from error
        raise


def _save(trainer: CurriculumGRPOTrainer, recorder: Recorder, say: Callable[[str], None]) -> None:
    """The prompt table, and a checkpoint if nothing was observed since the last finished step."""
    folder = recorder.folder
    try:
        folder.write_table(recorder.curriculum.table)
        last = checkpoints.newest(folder.checkpoints)
        if recorder.between_steps and (last is None or checkpoints.step_of(last) < recorder.step):
            trainer.save_checkpoint()
    except Exception as error:
        say(f"what the run had reached could not be saved: {error}")


def write_model(trainer: CurriculumGRPOTrainer, folder: RunFolder) -> None:
    """Save the model; its folder appears whole, and a run that has it is complete.

    Raises:
        CheckpointError: it cannot be written.
    """
    part = folder.path / ".model.part"
    shutil.rmtree(part, ignore_errors=True)
    with checkpoints.saving(part):
        save_model(trainer, part)
        part.rename(folder.model)
