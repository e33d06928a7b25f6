"""The report's pictures in the logger of a run."""

from __future__ import annotations

import importlib
import time
from typing import Any

import numpy as np
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.integrations import TensorBoardCallback
from transformers.trainer_callback import CallbackHandler

from curro.report.charts import Chart
from curro.report.images import pixels
from curro.report.run_reader import RunReader
from curro.report.sections import sections
from curro.storage.run_folder import RunFolder

SHARE = 0.05
"""The most of the time that drawing may take."""


class LoggedPictures(TrainerCallback):
    """Sends the pictures, as `curriculum/pictures/<name>`, with the checkpoints; always with a run's last.

    They are drawn from the run folder, so the step's lines have to be written before.

    Args:
        folder: of the run.
        log: "trackio", "wandb" or "tensorboard", in which TRL has begun a run of its own.
        handler: the trainer's, which knows the logger's own callback.
    """

    def __init__(self, folder: RunFolder, log: str, handler: CallbackHandler) -> None:
        self._reader, self._log, self._handler = RunReader(folder), log, handler
        self._not_before = 0.0

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        begun = time.perf_counter()
        if begun < self._not_before and not control.should_training_stop:
            return
        while self._reader.advance():
            pass
        charts = [chart for _, found in sections(self._reader.history()) for chart in found]
        self._send([(chart, pixels(chart)) for chart in charts], state.global_step)
        now = time.perf_counter()
        self._not_before = now + (now - begun) / SHARE

    def _send(self, pictures: list[tuple[Chart, np.ndarray]], step: int) -> None:
        if self._log == "tensorboard":
            (board,) = [one for one in self._handler.callbacks if isinstance(one, TensorBoardCallback)]
            for chart, image in pictures:
                board.tb_writer.add_image(_name(chart), image, step, dataformats="HWC")
            return
        logger = importlib.import_module(self._log)
        found = {_name(chart): logger.Image(image, caption=chart.caption) for chart, image in pictures}
        logger.log({**found, "train/global_step": step})


def _name(chart: Chart) -> str:
    return f"curriculum/pictures/{chart.name}"
