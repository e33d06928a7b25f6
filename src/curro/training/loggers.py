"""What a run logs besides its own folder: pictures and rollouts for trackio, wandb and TensorBoard."""

from __future__ import annotations

import importlib
import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.integrations import TensorBoardCallback
from transformers.trainer_callback import CallbackHandler

from curro.runs.folder import RunFolder
from curro.runs.json_lines import GrowingFile, as_object
from curro.runs.reader import RunReader
from curro.runs.report.figures import Picture, run_figures


@contextmanager
def wandb_project(project: str | None, default: str) -> Iterator[None]:
    """Let transformers name this project to wandb, which it does by an environment variable alone.

    Args:
        project: as the user named it.
        default: what it is called where neither the user nor the environment names it.
    """
    before = os.environ.get("WANDB_PROJECT")
    os.environ["WANDB_PROJECT"] = project or before or default
    try:
        yield
    finally:
        if before is None:
            del os.environ["WANDB_PROJECT"]
        else:
            os.environ["WANDB_PROJECT"] = before


MAX_DRAWING_SHARE = 0.05
"""The largest share of the time that drawing may take."""


ROWS = 200
"""Rollouts in a table, at most: the latest."""


class LoggedPictures(TrainerCallback):
    """Sends pictures and rollouts with the checkpoints; the pictures always with a run's last.

    The pictures are called `curriculum/pictures/<name>`. The rollouts kept since the last checkpoint are the
    table `curriculum/rollouts`, in loggers that have tables. Both are made from the run folder, so the step's
    lines have to be written before.

    Args:
        folder: of the run.
        log: "trackio", "wandb" or "tensorboard", in which TRL has begun a run of its own.
        handler: the trainer's, which knows the logger's own callback.
    """

    def __init__(self, folder: RunFolder, log: str, handler: CallbackHandler) -> None:
        self._reader, self._log, self._handler = RunReader(folder), log, handler
        self._not_before = 0.0
        self._kept = GrowingFile(folder.rollouts_file)

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if self._log != "tensorboard":
            self._send_rollouts(state.global_step)
        begun = time.perf_counter()
        if begun < self._not_before and not control.should_training_stop:
            return
        while self._reader.advance():
            pass
        self._send(run_figures(self._reader.history()), state.global_step)
        now = time.perf_counter()
        self._not_before = now + (now - begun) / MAX_DRAWING_SHARE

    def _send_rollouts(self, step: int) -> None:
        rows: deque[list[Any]] = deque(maxlen=ROWS)
        while (block := self._kept.read()).data:
            for line in block.data.splitlines():
                group = as_object(line)
                rows.extend(
                    [
                        group["step"],
                        self._shown(group["text"]),
                        rollout["reward"],
                        self._shown(rollout["text"]),
                    ]
                    for rollout in group["rollouts"]
                )
        if rows:
            logger = importlib.import_module(self._log)
            table = logger.Table(columns=["step", "prompt", "reward", "completion"], data=list(rows))
            logger.log({"curriculum/rollouts": table, "train/global_step": step})

    def _shown(self, text: str) -> str:
        """A text that a model wrote, for a table: trackio reads cells as Markdown with HTML in it."""
        if self._log != "trackio":
            return text
        return escape(text).replace("[", "&#91;")

    def _send(self, pictures: list[Picture], step: int) -> None:
        if self._log == "tensorboard":
            (board,) = [
                callback for callback in self._handler.callbacks if isinstance(callback, TensorBoardCallback)
            ]
            for picture in pictures:
                board.tb_writer.add_image(_name(picture), picture.pixels(), step, dataformats="HWC")
            return
        logger = importlib.import_module(self._log)
        images = {
            _name(picture): logger.Image(picture.pixels(), caption=picture.caption) for picture in pictures
        }
        logger.log({**images, "train/global_step": step})


def _name(picture: Picture) -> str:
    return f"curriculum/pictures/{picture.name}"
