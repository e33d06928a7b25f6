"""The ledger of prompts in flight: every selected prompt carries a ticket that is settled exactly once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from curro.errors import TicketError

_COUNTS = ("selected", "observed", "dropped")
_COLUMNS = ("tickets", "prompts", "steps", "weights")


class TicketLedger:
    """Tickets count up from 0, so the open ones stay sorted and are found by bisection.

    `selected == observed + dropped + len(ledger)` at all times.
    """

    def __init__(self) -> None:
        self.selected = self.observed = self.dropped = 0
        self.tickets = np.empty(0, np.int64)
        self.prompts = np.empty(0, np.int64)
        self.steps = np.empty(0, np.int64)
        self.weights = np.empty(0)

    def __len__(self) -> int:
        return len(self.tickets)

    def open(self, prompts: np.ndarray, step: int, weights: np.ndarray) -> np.ndarray:
        """Give out a ticket for each prompt, drawn with these importance weights; returns the tickets."""
        tickets = np.arange(self.selected, self.selected + len(prompts))
        self.selected += len(prompts)
        self.tickets = np.concatenate([self.tickets, tickets])
        self.prompts = np.concatenate([self.prompts, prompts])
        self.steps = np.concatenate([self.steps, np.full(len(prompts), step)])
        self.weights = np.concatenate([self.weights, weights])
        return tickets

    def find(self, tickets: ArrayLike) -> np.ndarray:
        """The rows of open tickets.

        Raises:
            TicketError: a ticket that is not open, or stands twice in `tickets`.
        """
        wanted = np.atleast_1d(np.asarray(tickets))
        if wanted.dtype.kind not in "iu" and wanted.size:
            raise TicketError(f"tickets are whole numbers, not {wanted.dtype}: pass draw.tickets")
        if wanted.ndim != 1:
            raise TicketError(f"tickets have shape (P,), not {wanted.shape}")
        rows = np.searchsorted(self.tickets, wanted)
        known = rows < len(self.tickets)
        known[known] = self.tickets[rows[known]] == wanted[known]
        if not known.all():
            ticket = int(wanted[~known][0])
            why = "settled before" if 0 <= ticket < self.selected else "never given out"
            raise TicketError(
                f"ticket {ticket} was {why}: settle each ticket of a draw once, by observe or drop"
            )
        ordered = np.sort(rows)
        if (ordered[1:] == ordered[:-1]).any():
            raise TicketError("a ticket stands twice in one call: settle each ticket once")
        return rows

    def settle(self, rows: np.ndarray, *, observed: bool) -> None:
        """Close the tickets at `rows`."""
        keep = np.ones(len(self.tickets), np.bool_)
        keep[rows] = False
        for name in _COLUMNS:
            setattr(self, name, getattr(self, name)[keep])
        if observed:
            self.observed += len(rows)
        else:
            self.dropped += len(rows)

    def state_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in (*_COUNTS, *_COLUMNS)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name in _COUNTS:
            setattr(self, name, state[name])
        for name in _COLUMNS:
            setattr(self, name, state[name].copy())
