"""A run folder that is written from the calls of a curriculum, and taken back with them after a kill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from curro.core.curriculum import Curriculum
from curro.core.verdicts import Draw, Verdict
from curro.durable.replies import CallReply
from curro.runs.writer import RunWriter


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
        self._drawn: dict[int, int] = {}

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
            self._drawn = dict(state["drawn"].tolist()) if "drawn" in state else {}

    def state_dict(self) -> dict[str, Any]:
        """What `begin` takes."""
        drawn = np.array(list(self._drawn.items()), np.int64).reshape(-1, 2)
        return {"step": self.step, "writer": self.writer.state_dict(), "drawn": drawn}

    def record(self, name: str, arguments: Mapping[str, Any], reply: CallReply) -> None:
        """A call was carried out.

        Args:
            name: of the call.
            arguments: as the port takes them, and `sizes` where groups of different size came as lists.
            reply: what it returned.
        """
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
            rollouts = zip(reply.tickets.tolist(), reply.rollouts.tolist(), strict=True)
            self._drawn |= {ticket: number for ticket, number in rollouts if number}
        elif isinstance(reply, Verdict) and len(reply.prompts):
            rewards_PG = np.asarray(arguments["rewards"], np.float64)
            sizes_P = self._sizes(arguments["tickets"], rewards_PG)
            if arguments.get("sizes") is not None:
                sizes_P = arguments["sizes"]
            self.writer.groups(self.step, arguments["tickets"], rewards_PG, reply, sizes_P)
        else:
            for ticket in arguments["tickets"]:
                self._drawn.pop(int(ticket), None)
            self.writer.dropped(arguments["tickets"])

    def _sizes(self, tickets: Sequence[int] | np.ndarray, rewards_PG: np.ndarray) -> np.ndarray:
        """How many rollouts each group had, int64 (P,), whether or not they were scored.

        NaN is the reward of a rollout that was not scored, and fills the rows of smaller groups. So a group
        had as many rollouts as it was drawn with, and more where a later one was scored. Where the host
        decides how many they are, all groups had the same number.
        """
        longest = rewards_PG.shape[1]
        drawn_P = np.array([self._drawn.pop(int(ticket), longest) for ticket in tickets], np.int64)
        last_P = np.where(np.isnan(rewards_PG), 0, np.arange(1, longest + 1)).max(axis=1, initial=0)
        return np.clip(drawn_P, last_P, longest)

    def resume(self) -> None:
        """The curriculum was loaded from a checkpoint: forget what came after it."""
        self.end_step()
        self.step = self.curriculum.step + 1
        self.writer.resume(self.step)

    def end_step(self) -> None:
        """Write the step's line, if groups have come since the last one."""
        if self.writer.signal:
            self.writer.step(self.step, self.curriculum.metrics())
