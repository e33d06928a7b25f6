"""The same curriculum without verl, told what became of the groups of a run."""

from __future__ import annotations

from typing import Any

import numpy as np

import curro
from curro.curriculum import Verdict
from curro.hosts.fresh_draws import FreshDraws
from curro.hosts.verl.identity import RowIdentity
from curro.hosts.verl.settings import VerlSettings


class Twin:
    """Draws what the run must have drawn, step by step.

    Attributes:
        draws: (step, prompts) of every draw.
        credit: advantage times factor in the loss of every rollout that is trained on, by the group's uid.
        repeats: draws of prompts that a batch had had already.
        admitted: whether each group is trained on, by the group's uid.
    """

    def __init__(self, run: Any) -> None:
        self.curriculum = curro.Curriculum.from_config(
            VerlSettings.read(run.trainer.config.curro).curriculum, RowIdentity(run.trainer.train_dataset)
        )
        self.rewards = run.engine.rewards
        self.draws: list[tuple[int, list[int]]] = []
        self.fresh = FreshDraws(
            self.curriculum, self.curriculum.table.size, may_repeat=self.curriculum.selection.repeats
        )
        self.repeats = 0
        self.credit: dict[str, np.ndarray] = {}
        self.admitted: dict[str, bool] = {}

    def step(self, step: int, wanted: int) -> None:
        """Draw and observe until `wanted` groups are admitted."""
        self.fresh.begin()
        missing, verdicts, names = wanted, [], []
        while missing:
            draw = self.fresh.select(missing, step=step)
            self.draws.append((step, draw.prompts.tolist()))
            uids = [f"ticket-{ticket}" for ticket in draw.tickets]
            rewards = [self.rewards[uid] for uid in uids]
            named = {"acc": rewards}
            verdict = self.curriculum.observe(draw.tickets, rewards, named=named)
            missing -= int(verdict.admitted.sum())
            self.admitted |= zip(uids, verdict.admitted.tolist(), strict=True)
            verdicts.append(verdict)
            names += uids
        self.fresh.end()
        self.repeats += self.fresh.repeats
        self._note(names, verdicts)

    def _note(self, uids: list[str], verdicts: list[Verdict]) -> None:
        admitted_P = np.concatenate([verdict.admitted for verdict in verdicts])
        weights_P = np.concatenate([verdict.weights for verdict in verdicts])[admitted_P]
        credit_PG = np.concatenate([verdict.advantages for verdict in verdicts])[admitted_P]
        credit_PG *= self.curriculum.batch_weights(weights_P)[:, None]
        self.credit |= zip(np.array(uids)[admitted_P].tolist(), credit_PG, strict=True)

    @property
    def asked(self) -> list[tuple[int, int]]:
        return [(step, prompt) for step, prompts in self.draws for prompt in prompts]
