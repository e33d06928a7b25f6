"""Writes a run down whose groups come back by their tickets: of hosts that roll out elsewhere, or later."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from curro.draws import Draw
from curro.run_writer import Completion, RunWriter
from curro.selection.base import Reason
from curro.verdicts import Verdict


class TicketWriter(RunWriter):
    """A `RunWriter` that remembers why the prompts in flight were drawn.

    After a resume nothing is known of those that were in flight before; they count as drawn by priority.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._reasons: dict[int, int] = {}

    def drawn(self, draw: Draw) -> None:
        """Note what is in flight now."""
        self._reasons |= dict(zip(draw.tickets.tolist(), draw.reasons.tolist(), strict=True))

    def dropped(self, tickets: Iterable[int]) -> None:
        """Forget tickets that were settled without an outcome."""
        for ticket in tickets:
            self._reasons.pop(int(ticket), None)

    def observed(
        self,
        step: int,
        tickets: Sequence[int] | np.ndarray,
        rewards_PG: np.ndarray,
        verdict: Verdict,
        sizes_P: np.ndarray,
        completions: Sequence[Sequence[Completion]] = (),
    ) -> None:
        """Write down the finished groups of these tickets; the rest as `RunWriter.groups` takes it."""
        reasons_P = np.array([self._reasons.pop(int(one), Reason.PRIORITY) for one in tickets], np.int64)
        self.groups(step, reasons_P, rewards_PG, verdict, sizes_P, completions)
