"""A run folder that is written from the calls of a curriculum, and taken back with them after a kill."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from curro.curriculum import Curriculum
from curro.durable.replies import CallReply
from curro.groups import mark_missing
from curro.runs.writer import RunWriter
from curro.verdicts import Draw, Verdict


class RecordedRun:
    """Writes down what clients ask and report of a `DurableCurriculum`.

    A step's line is written when a client asks for prompts of a later step, and when the curriculum is
    closed. The state belongs to the snapshots of the calls. After a kill it is taken back to the latest
    snapshot, and every call since is recorded once more: the lines are then those of the calls in the
    journal, each once.
    """

    writer: RunWriter
    step: int

    def __init__(self, curriculum: Curriculum, output: Path) -> None:
        self.curriculum, self.output = curriculum, output

    def begin(self, state: Mapping[str, Any] | None, *, is_new: bool) -> None:
        """Be as at the snapshot that has this state; None where there is no snapshot, or it has no state."""
        is_replayed = state is not None or not self.curriculum.ledger.selected
        self.step = self.curriculum.step + 1
        self.writer = RunWriter.of_host(self.output, self.curriculum)
        self.writer.begin(0 if is_new else 2**62 if is_replayed else self.step)
        if is_replayed and not is_new:
            self.writer.load_state_dict({} if state is None else state["writer"])
        if state is not None:
            self.step = state["step"]

    def state_dict(self) -> dict[str, Any]:
        """What `begin` takes."""
        return {"step": self.step, "writer": self.writer.state_dict()}

    def record(self, name: str, arguments: Mapping[str, Any], reply: CallReply) -> None:
        """A call was carried out: its name, its arguments as the port takes them, and what that returned."""
        if isinstance(reply, tuple):
            verdict, draw = reply
            self.record("observe", arguments, verdict)
            if draw is not None:
                self.record("select", arguments, draw)
        elif isinstance(reply, Draw):
            if reply.step + 1 > self.step:
                self.end_step()
                self.step = reply.step + 1
            self.writer.drawn(reply)
        elif isinstance(reply, Verdict) and len(reply.prompts):
            rewards_PG = np.asarray(arguments["rewards"], np.float64)
            if arguments.get("scored") is not None:
                rewards_PG = mark_missing(rewards_PG, arguments["scored"])
            sizes_P = np.isfinite(rewards_PG).sum(axis=1)
            self.writer.groups(self.step, arguments["tickets"], rewards_PG, reply, sizes_P)
        else:
            self.writer.dropped(arguments["tickets"])

    def resume(self) -> None:
        """The curriculum was loaded from a checkpoint: forget what came after it."""
        self.end_step()
        self.step = self.curriculum.step + 1
        self.writer.resume(self.step)

    def end_step(self) -> None:
        """Write the step's line, if groups have come since the last one."""
        if self.writer.signal:
            self.writer.step(self.step, self.curriculum.metrics())
