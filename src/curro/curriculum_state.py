"""What a curriculum saves and loads: everything that its next draws depend on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from threading import RLock
from typing import Any

import numpy as np

from curro.allocation.budget_division import BudgetDivision
from curro.draw_requests import LAST_STEP
from curro.errors import CheckpointError
from curro.one_at_a_time import one_at_a_time
from curro.prompts import PromptTable
from curro.saved_state import check_alike, check_origin, require
from curro.selection.base import Selection
from curro.signal_meter import SignalMeter
from curro.storage import checkpoint
from curro.tickets import TicketLedger

FORMAT = 3


class CurriculumState:
    """The part of `Curriculum` that is saved.

    Attributes:
        config: the arguments that the curriculum was built from, plain values.
        step: the training step of the latest `select`.
        admitted: how many groups were admitted.
    """

    config: dict[str, Any]
    rng: np.random.Generator
    table: PromptTable
    ledger: TicketLedger
    selection: Selection
    division: BudgetDivision
    signal: SignalMeter
    step: int
    admitted: int
    _lock: RLock

    @one_at_a_time
    def state_dict(self) -> dict[str, Any]:
        """Everything that the next draws depend on: nested dicts of arrays and plain values."""
        return {
            "format": FORMAT,
            "config": self.config,
            "fingerprint": self.table.fingerprint,
            "step": self.step,
            "signal": self.signal.state_dict(),
            "admitted": self.admitted,
            "rng": self.rng.bit_generator.state,
            "ledger": self.ledger.state_dict(),
            "table": self.table.state_dict(),
            "selection": self.selection.state_dict(),
            "beliefs": self.division.state_dict(),
        }

    @one_at_a_time
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where `state` was taken: the next draws are the draws that would have come.

        Prompts that were in flight still are; `drop(curriculum.ledger.tickets)` frees them where their
        rollouts are lost.

        Raises:
            CheckpointError: the state of another data set, configuration or version; or it is damaged, and
                this curriculum, of which a part may be loaded, is of no more use.
        """
        try:
            here = self.state_dict()
            check_origin(state, here)
            check_alike(state, here)
            self._load(state)
        except CheckpointError:
            raise
        except Exception as error:  # whatever a damaged state makes of the code that reads it
            words = f"{type(error).__name__}: {error}"
            raise CheckpointError(f"the checkpoint lacks what this curriculum needs: {words}") from error

    def _load(self, state: Mapping[str, Any]) -> None:
        self.table.load_state_dict(state["table"])
        require(self.table["last_step"].max() <= state["step"], "table/last_step", "is after the last step")
        self.ledger.load_state_dict(state["ledger"], repeats=self.selection.repeats)
        require(self.ledger.steps.max(initial=0) <= state["step"], "ledger/steps", "is after the last step")
        require(0 <= state["step"] <= LAST_STEP, "step", "is no training step")
        require(0 <= state["admitted"] <= self.ledger.observed, "admitted", "is not from 0 to the observed")
        self.step, self.admitted = state["step"], state["admitted"]
        self.signal.load_state_dict(state["signal"])
        self.rng.bit_generator.state = state["rng"]
        self.selection.load_state_dict(state["selection"])
        self.division.load_state_dict(state["beliefs"])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `state_dict` to one file, atomically."""
        checkpoint.save_state(path, self.state_dict())

    def load(self, path: str | os.PathLike[str]) -> None:
        """Read what `save` wrote; raises CheckpointError as `load_state_dict` does."""
        self.load_state_dict(checkpoint.load_state(path))
