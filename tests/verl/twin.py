"""The same curriculum without verl, told what became of the groups of a run."""

from __future__ import annotations

from typing import Any

import numpy as np

import curro
from curro.curriculum import Verdict
from curro.hosts.verl.identity import RowIdentity
from curro.hosts.verl.settings import VerlSettings


class Twin:
    """Draws what the run must have drawn, step by step.

    Attributes:
        draws: (step, prompts) of every draw.
        credit: advantage times importance weight of every rollout, by the group's uid.
        admitted: whether each group is trained on, by the group's uid.
    """

    def __init__(self, run: Any) -> None:
        self.curriculum = curro.Curriculum.from_config(
            VerlSettings.read(run.trainer.config.curro).curriculum, RowIdentity(run.trainer.train_dataset)
        )
        self.rewards = run.engine.rewards
        self.draws: list[tuple[int, list[int]]] = []
        self.credit: dict[str, np.ndarray] = {}
        self.admitted: dict[str, bool] = {}

    def step(self, step: int, wanted: int) -> None:
        """Draw and observe until `wanted` groups are admitted."""
        missing = wanted
        while missing:
            draw = self.curriculum.select(missing, step=step)
            self.draws.append((step, draw.prompts.tolist()))
            uids = [f"ticket-{ticket}" for ticket in draw.tickets]
            rewards = [self.rewards[uid] for uid in uids]
            named = {"acc": rewards, "form": np.full(np.shape(rewards), 0.5)}
            verdict = self.curriculum.observe(draw.tickets, rewards, named=named)
            self._note(uids, verdict)
            missing -= int(verdict.admitted.sum())

    def _note(self, uids: list[str], verdict: Verdict) -> None:
        for row, uid in enumerate(uids):
            self.credit[uid] = verdict.advantages[row] * verdict.weights[row]
            self.admitted[uid] = bool(verdict.admitted[row])

    @property
    def asked(self) -> list[tuple[int, int]]:
        return [(step, prompt) for step, prompts in self.draws for prompt in prompts]
