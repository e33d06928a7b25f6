"""A curriculum whose state is written into a folder at the end of each step."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from curro.core import checkpoint
from curro.core.curriculum import Curriculum
from curro.core.errors import CheckpointError, CurroError, TicketError
from curro.core.groups import Feedback
from curro.core.verdicts import Draw, Verdict
from curro.runs.lock import only_process

STATE = "state.npz"

SHIFT = 32
"""A ticket's number is the number of the start times 2**32, plus the curriculum's own number."""


class SavedCurriculum:
    """A curriculum that several trainers use, which goes on from its last complete step when it is killed.

    The state is written whole, to one file, when the first prompts of a later step are asked for, and at
    `close`. Every start, and every `load`, drops all tickets that were given out before. Each has a number,
    which its tickets carry, so that a group of an earlier start is told apart from a newer group of the same
    number: it counts as dropped, and teaches nothing.

    Several threads may call it: every call waits for the one before.

    Args:
        curriculum: as new; it is brought to where the folder is.
        folder: made if there is none. One process at a time may use it.

    Attributes:
        start: how often the curriculum was started or loaded before, and so the tickets given out till then
            were dropped.

    Raises:
        CheckpointError: the folder's state is another curriculum's, or damaged.
        LockedError: another process uses the folder.
    """

    def __init__(self, curriculum: Curriculum, folder: Path) -> None:
        self.curriculum, self.folder = curriculum, folder
        self.start = 0
        self._lock = RLock()
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as opened:
            opened.enter_context(only_process(folder))
            state = self._read_state()
            if state is not None:
                self.curriculum.load_state_dict(state["curriculum"])
                self.start = state["start"] + 1
            self._begin()
            self._opened = opened.pop_all()

    def _read_state(self) -> dict[str, Any] | None:
        path = self.folder / STATE
        if not path.exists():
            return None
        state = checkpoint.load_state(path)
        start = state.get("start")
        if set(state) != {"curriculum", "start"} or type(start) is not int or not 0 <= start < 1 << 30:
            raise CheckpointError(f"{path} is not the state of a service: choose another folder")
        return state

    def _begin(self) -> None:
        """Write the state with the number of this start, then drop what is in flight.

        Another start would take a number that is not written, so no ticket may be given out under it.
        """
        self._save()  # with what is in flight: a start that is killed below is repeated by the next one
        self.curriculum.drop(self.curriculum.ledger.tickets)

    def _save(self) -> None:
        state = {"curriculum": self.curriculum.state_dict(), "start": self.start}
        checkpoint.save_state(self.folder / STATE, state)

    def select(self, n: int, step: int, rollouts: int | None = None) -> Draw:
        """`Curriculum.select`; the first one of a later step writes the state of the step before."""
        with self._lock:
            n, step, rollouts = self.curriculum.read_request(n, step, rollouts)
            if step > self.curriculum.step:  # a draw that is refused begins no step
                self._save()
            draw = self.curriculum.select(n, step=step, rollouts=rollouts)
            return replace(draw, tickets=draw.tickets + (self.start << SHIFT))

    def observe(
        self, tickets: np.ndarray, rewards: np.ndarray, *, named: Mapping[str, ArrayLike] | None = None
    ) -> Verdict:
        """`Curriculum.observe`; groups of an earlier start are not admitted and have no mean."""
        with self._lock:
            known_P = self._is_known(tickets)
            feedback = Feedback.read(tickets, rewards, named)
            if known_P.all() or feedback.rewards.shape[:1] != tickets.shape:  # which the port refuses
                return self.curriculum.observe(self._own(tickets), rewards, named=named)
            rows = np.flatnonzero(known_P)
            verdict = self.curriculum.observe(
                self._own(tickets[rows]),
                feedback.rewards[rows],
                named={name: part_PG[rows] for name, part_PG in feedback.named.items()},
            )
            return _spread(verdict, rows, feedback.rewards.shape)

    def drop(self, tickets: np.ndarray) -> None:
        """`Curriculum.drop`; tickets of an earlier start were dropped when this one began."""
        with self._lock:
            self.curriculum.drop(self._own(tickets[self._is_known(tickets)]))

    def _is_known(self, tickets: np.ndarray) -> np.ndarray:
        """Which tickets this start gave out, bool (P,); False for tickets of earlier starts.

        Raises:
            TicketError: a ticket that no start gave out.
        """
        starts = tickets >> SHIFT
        if ((starts < 0) | (starts > self.start)).any():
            raise TicketError("a ticket was never given out: settle each ticket of a draw once")
        return starts == self.start

    def _own(self, tickets: np.ndarray) -> np.ndarray:
        return tickets & ((1 << SHIFT) - 1)

    def _checkpoint(self, name: str) -> Path:
        return self.folder / "checkpoints" / f"{name}.npz"

    def save(self, name: str) -> Path:
        """Write a checkpoint of this name; returns its path."""
        path = self._checkpoint(name)
        if path.parent.is_symlink():
            raise CurroError(f"{path.parent} is a link, and nothing is written through one: remove it")
        self.curriculum.save(path)
        return path

    def load(self, name: str) -> None:
        """Go on from the checkpoint of this name; everything in flight is dropped.

        Raises:
            CheckpointError: as `Curriculum.load` does; then the curriculum goes on as it was.
            OSError: the state cannot be written, because the disk is full; the same holds.
        """
        with self._lock:
            state, start = self.curriculum.state_dict(), self.start
            try:
                self.curriculum.load(self._checkpoint(name))
                self.start += 1
                self._begin()
            except (CheckpointError, OSError):
                self.curriculum.load_state_dict(state)
                self.start = start
                raise

    def close(self) -> None:
        """Write the state as it is, and let others use the folder."""
        with self._lock, self._opened:
            self._save()


def _spread(verdict: Verdict, rows: np.ndarray, shape: tuple[int, ...]) -> Verdict:
    """A verdict on P groups, of which those at `rows` were judged and the others count as dropped.

    Args:
        shape: of the rewards, (P, G).
    """
    spread: dict[str, Any] = {}
    for name, values in vars(verdict).items():
        if not isinstance(values, np.ndarray):
            continue
        whole = np.zeros((shape[0], *values.shape[1:]), values.dtype)
        whole[rows] = values
        spread[name] = whole
    others = np.setdiff1d(np.arange(shape[0]), rows)
    spread["mean"][others] = np.nan
    return Verdict(**spread)
