"""The run folder of a curriculum that is served."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from curro.curriculum import Curriculum
from curro.draws import Draw
from curro.ticket_writer import TicketWriter
from curro.verdicts import Verdict


class ServedRun:
    """Writes down what clients ask and report.

    A step's line is written when a client asks for prompts of a later step, and when the service ends.

    Args:
        curriculum: brought to where the service's folder is.
        output: `curro watch` takes it.
    """

    def __init__(self, curriculum: Curriculum, output: Path) -> None:
        self.curriculum = curriculum
        is_new = not curriculum.metrics()["selected"]
        self.step = curriculum.step + 1
        config = {"curriculum": curriculum.config}
        self.writer = TicketWriter.of_host(output, config, curriculum.table, 0 if is_new else self.step)

    def record(self, question: str, given: Mapping[str, Any], answer: Any) -> None:
        """A call was carried out: its arguments as the port takes them, and what the port returned."""
        if isinstance(answer, tuple):
            verdict, draw = answer
            self.record("observe", given, verdict)
            if draw is not None:
                self.record("select", given, draw)
        elif isinstance(answer, Draw):
            if answer.step + 1 > self.step:
                self.end_step()
                self.step = answer.step + 1
            self.writer.drawn(answer)
        elif isinstance(answer, Verdict) and len(answer.prompts):
            rewards_PG = np.asarray(given["rewards"], np.float64)
            scored_PG = np.ones(rewards_PG.shape, np.bool_)
            if given.get("scored") is not None:
                scored_PG = np.asarray(given["scored"], np.bool_)
            sizes_P = scored_PG.sum(axis=1)
            rewards_PG = np.where(scored_PG, rewards_PG, np.nan)
            self.writer.observed(self.step, given["tickets"], rewards_PG, answer, sizes_P)
        else:
            self.writer.dropped(given["tickets"])

    def resume(self) -> None:
        """The curriculum was loaded from a checkpoint: forget what came after it."""
        self.end_step()
        self.step = self.curriculum.step + 1
        self.writer.resume(self.step)

    def end_step(self) -> None:
        """Write the step's line, if groups have come since the last one."""
        if self.writer.signal:
            self.writer.step(self.step, self.curriculum.metrics())
