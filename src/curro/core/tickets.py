"""The ledger of prompts in flight: every selected prompt carries a ticket that is settled exactly once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from curro.core.checkpoint import check_state
from curro.core.errors import ConfigError, TicketError
from curro.core.prompts import PromptTable

_COUNTS = ("selected", "observed", "dropped")
_COLUMNS = ("tickets", "prompts", "steps", "rollouts")
OpenTickets = tuple[np.ndarray, np.ndarray, int, int]
"""The columns and the weights of open tickets; how many tickets were observed, and how many dropped."""


class TicketLedger:
    """Tickets count up from 0, so the open ones stay sorted and are found by bisection.

    `selected == observed + dropped + len(ledger)` at all times, and the prompts of open tickets are those
    that the table has in flight.
    """

    def __init__(self, table: PromptTable) -> None:
        self.table = table
        self.selected = self.observed = self.dropped = 0
        self._keep(np.empty((len(_COLUMNS), 0), np.int64), np.empty(0))

    def _keep(self, rows: np.ndarray, weights: np.ndarray) -> None:
        """These tickets are open."""
        self._rows, self.weights = rows, weights
        self.tickets, self.prompts, self.steps, self.rollouts = rows
        self.table.prompts_in_flight = self.prompts

    def __len__(self) -> int:
        return len(self.tickets)

    def open(
        self, prompts: np.ndarray, step: int, weights: np.ndarray, rollouts: np.ndarray | int = 0
    ) -> np.ndarray:
        """Give out a ticket for each prompt, drawn with these importance weights; returns the tickets.

        `rollouts` is how many each prompt gets, 0 where the host decides.

        Raises:
            ConfigError: a number that is not a prompt's, or one twice or in flight.
        """
        in_flight, known = self.table["in_flight"], f"0..{self.table.size - 1}"
        numbers, count = np.unique(prompts, return_counts=True)
        is_known = (numbers >= 0) & (numbers < self.table.size)
        inside = numbers[is_known]
        for wrong, problem in (
            (numbers[~is_known], f", which is no prompt of {known}"),
            (numbers[count > 1], " twice"),
            (inside[in_flight[inside]], ", which is in flight"),
        ):
            if len(wrong):
                raise ConfigError(
                    f"the selection chose {wrong[0]}{problem}: choose distinct prompts of {known} that are "
                    "not in flight"
                )
        in_flight[prompts] = True
        tickets = np.arange(self.selected, self.selected + len(prompts))
        opened = np.stack(np.broadcast_arrays(tickets, prompts, step, rollouts))
        self._keep(np.hstack([self._rows, opened]), np.concatenate([self.weights, weights]))
        self.selected += len(prompts)
        return tickets

    def find(self, tickets: ArrayLike) -> np.ndarray:
        """The rows of open tickets.

        Raises:
            TicketError: a ticket that is not open, or stands twice in `tickets`.
        """
        wanted = np.array(tickets, ndmin=1)
        if wanted.dtype.kind not in "iu" and wanted.size:
            raise TicketError(f"tickets are whole numbers, not {wanted.dtype}: pass draw.tickets")
        if wanted.ndim != 1:
            raise TicketError(f"tickets have shape (P,), not {wanted.shape}")
        rows = np.searchsorted(self.tickets, wanted)
        is_open = rows < len(self)
        is_open[is_open] = self.tickets[rows[is_open]] == wanted[is_open]
        if not is_open.all():
            ticket = int(wanted[is_open.argmin()])
            why = "settled before" if 0 <= ticket < self.selected else "never given out"
            raise TicketError(
                f"ticket {ticket} was {why}: settle each ticket of a draw once, by observe or drop"
            )
        if len(np.unique(rows)) < len(rows):
            raise TicketError("a ticket stands twice in one call: settle each ticket once")
        return rows

    def prompts_of(self, tickets: ArrayLike) -> np.ndarray:
        """The prompts of open tickets; errors as of `find`."""
        return self.prompts[self.find(tickets)]

    def settle(self, rows: np.ndarray, *, observed: bool) -> None:
        """Close the tickets at `rows`."""
        self.table["in_flight"][self.prompts[rows]] = False
        self._keep(np.delete(self._rows, rows, axis=1), np.delete(self.weights, rows))
        if observed:
            self.observed += len(rows)
        else:
            self.dropped += len(rows)

    @property
    def open_tickets(self) -> OpenTickets:
        """What `reopen` restores."""
        return self._rows, self.weights, self.observed, self.dropped

    def reopen(self, before: OpenTickets) -> None:
        """Undo what was settled since `open_tickets` gave `before`; no ticket was opened since then."""
        rows, weights, self.observed, self.dropped = before
        self._keep(rows, weights)
        self.table["in_flight"][self.prompts] = True

    def state_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in (*_COUNTS, *_COLUMNS, "weights")}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore `state_dict`, whose prompts in flight must be the table's, restored before.

        Raises:
            CheckpointError: the counts do not add up, or the columns do not fit them or the table.
        """
        rows = np.array([state[name] for name in _COLUMNS], np.int64)
        weights, selected = state["weights"], state["selected"]
        tickets, prompts = rows[:2]
        are_counts = min(state["observed"], state["dropped"]) >= 0 and selected < 2**62
        adds_up = selected == state["observed"] + state["dropped"] + len(tickets)
        check_state(are_counts and adds_up, "ledger", "has counts that do not add up")
        are_weights = weights.shape == tickets.shape and ((weights >= 0) & np.isfinite(weights)).all()
        check_state(are_weights, "ledger/weights")
        in_order = (np.diff(tickets) > 0).all() and tickets.max(initial=-1) < selected
        check_state(in_order and rows.min(initial=0) >= 0, "ledger/tickets")
        same = np.array_equal(np.sort(prompts), np.flatnonzero(self.table["in_flight"]))
        check_state(same, "table/in_flight", "is not of the prompts of the open tickets")
        for name in _COUNTS:
            setattr(self, name, state[name])
        self._keep(rows, weights.copy())
