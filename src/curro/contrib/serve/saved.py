"""A curriculum whose state is written into a folder at the end of each step."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
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
from curro.runs.writer import RunWriter

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
        run_folder: where groups and metrics are written to, for `curro watch`; None for nowhere.

    Attributes:
        start: how often the curriculum was started or loaded before, and so the tickets given out till then
            were dropped.

    Raises:
        CheckpointError: the folder's state is another curriculum's, or damaged.
        LockedError: another process uses the folder.
    """

    def __init__(self, curriculum: Curriculum, folder: Path, *, run_folder: Path | None = None) -> None:
        self.curriculum, self.folder = curriculum, folder
        self.start = 0
        self._lock = RLock()
        self._writer = None if run_folder is None else RunWriter.of_host(run_folder, curriculum)
        self._rollouts: dict[int, int] = {}
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as opened:
            opened.enter_context(only_process(folder))
            for left in folder.glob(f".{STATE}.*.part"):  # left by a process that was killed while it wrote
                left.unlink()
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
        """Write the state with the number of this start, drop what is in flight, and open the run folder."""
        selected, in_flight = self.curriculum.ledger.selected, set(self.curriculum.ledger.tickets.tolist())

        def is_lost(ticket: Any) -> bool:
            """Whether a group ended after the state was saved, which may be in the middle of a step."""
            return isinstance(ticket, int) and (ticket >= selected or ticket in in_flight)

        self._rollouts.clear()
        self.step = 1 + (self.curriculum.step + 1 if selected else 0)
        try:  # with what is in flight: a start that is killed below is repeated by the next one
            self._save()
        finally:
            self.curriculum.drop(self.curriculum.ledger.tickets)
        if self._writer is not None:
            self._writer.take_means()  # forget groups whose lines are taken back
            self._writer.begin(self.step - 1, is_lost)

    def _save(self) -> None:
        state = {"curriculum": self.curriculum.state_dict(), "start": self.start}
        checkpoint.save_state(self.folder / STATE, state)

    def select(self, n: int, step: int, rollouts: int | None = None) -> Draw:
        """`Curriculum.select`; the first one of a later step writes the state of the step before."""
        with self._lock:
            n, step, rollouts = self.curriculum.read_request(n, step, rollouts)
            if step > self.curriculum.step:  # a draw that is refused begins no step
                self._end_step()
                self._save()
                self.step = max(self.step, step + 1)
            draw = self.curriculum.select(n, step=step, rollouts=rollouts)
            if self._writer is not None:
                self._writer.drawn(draw)
                counts = zip(draw.tickets.tolist(), draw.rollouts.tolist(), strict=True)
                self._rollouts |= {ticket: count for ticket, count in counts if count}
            shifted = draw.tickets + (self.start << SHIFT)
            return Draw(**vars(draw) | {"tickets": shifted})

    def observe(
        self,
        tickets: np.ndarray,
        rewards: np.ndarray,
        *,
        named: Mapping[str, ArrayLike] | None = None,
        sizes: np.ndarray | None = None,
    ) -> Verdict:
        """`Curriculum.observe`; groups of an earlier start are not admitted and have no mean.

        Args:
            tickets, rewards, named: as `Curriculum.observe` takes them.
            sizes: int64 (P,), how many rollouts each group had, where the caller knows it.
        """
        with self._lock:
            known_P = self._is_known(tickets)
            if known_P.all():
                return self._observe(self._own(tickets), rewards, named, sizes)
            feedback = Feedback.read(tickets, rewards, named)
            rows = np.flatnonzero(known_P)
            verdict = self._observe(
                self._own(tickets[rows]),
                feedback.rewards[rows],
                {name: part_PG[rows] for name, part_PG in feedback.named.items()},
                None if sizes is None else sizes[rows],
            )
            return _spread(verdict, rows, feedback.rewards.shape)

    def _observe(
        self,
        tickets: np.ndarray,
        rewards: np.ndarray,
        named: Mapping[str, ArrayLike] | None,
        sizes: np.ndarray | None,
    ) -> Verdict:
        prompts = self.curriculum.ledger.prompts_of(tickets)
        verdict = self.curriculum.observe(tickets, rewards, named=named)
        if self._writer is not None and len(tickets):
            rewards_PG = np.asarray(rewards, np.float64)
            sizes_P = self._sizes(tickets, rewards_PG) if sizes is None else sizes
            try:
                self._writer.groups(self.step, tickets, prompts, rewards_PG, verdict, sizes_P)
            except (OSError, CurroError) as error:  # the groups are observed, and their verdict must arrive
                warnings.warn(f"the run folder gets no further lines: {error}", UserWarning, stacklevel=2)
                self._writer = None
        return verdict

    def drop(self, tickets: np.ndarray) -> None:
        """`Curriculum.drop`; tickets of an earlier start were dropped when this one began."""
        with self._lock:
            own = self._own(tickets[self._is_known(tickets)])
            self.curriculum.drop(own)
            if self._writer is not None:
                self._writer.dropped(own)

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

    def _sizes(self, tickets: np.ndarray, rewards_PG: np.ndarray) -> np.ndarray:
        """How many rollouts each group had, int64 (P,), scored or not: as many as it was drawn with.

        Where the host decides how many they are, all groups had the same number. A group had more where a
        later one was scored.
        """
        longest = rewards_PG.shape[1]
        drawn_P = np.array([self._rollouts.pop(ticket, longest) for ticket in tickets.tolist()], np.int64)
        last_P = np.where(np.isnan(rewards_PG), 0, np.arange(1, longest + 1)).max(axis=1, initial=0)
        return np.clip(drawn_P, last_P, longest)

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
        """
        with self._lock:
            before = self.curriculum.state_dict()
            try:
                self.curriculum.load(self._checkpoint(name))
            except CheckpointError:
                self.curriculum.load_state_dict(before)
                raise
            self.start += 1
            self._begin()

    def _end_step(self) -> None:
        """Write the step's line, if groups have come since the last one."""
        if self._writer is not None and self._writer.signal:
            self._writer.step(self.step, self.curriculum.metrics())

    def close(self) -> None:
        """Write the state as it is, and let others use the folder."""
        with self._lock, self._opened:
            self._end_step()
            self._save()


def _spread(verdict: Verdict, rows: Sequence[int] | np.ndarray, shape: tuple[int, ...]) -> Verdict:
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
