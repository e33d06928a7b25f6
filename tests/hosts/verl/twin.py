"""The same curriculum without verl, told what became of the groups of a run."""

from __future__ import annotations

from typing import Any

import numpy as np

import curro
from curro.core.verdicts import Verdict
from curro.hosts.verl.policy import VerlRows
from curro.hosts.verl.settings import VerlSettings
from curro.rollout.fill import Fill, select_unseen
from curro.rollout.fill_settings import FillSettings


def padded(rewards: list[list[float]]) -> np.ndarray:
    """Groups of several sizes as (P, G), NaN beyond the end of those that are smaller than the largest."""
    rewards_PG = np.full((len(rewards), max(map(len, rewards))), np.nan)
    for row, group in zip(rewards_PG, rewards, strict=True):
        row[: len(group)] = group
    return rewards_PG


class Twin:
    """Draws what the run must have drawn, step by step.

    Attributes:
        draws: (step, prompts) of every draw.
        credit: advantage times factor in the loss of every rollout that is trained on, by the group's uid.
        repeats: draws of prompts that a batch had had already.
        admitted: whether each group is trained on, by the group's uid.
    """

    def __init__(self, run: Any, prompts: Any = None) -> None:
        self.curriculum = curro.Curriculum.from_config(
            VerlSettings(run.trainer.config.curro).curriculum,
            VerlRows(run.trainer.train_dataset) if prompts is None else prompts,
        )
        self.rewards = run.engine.rewards
        self.draws: list[tuple[int, list[int]]] = []
        self.fill = Fill(FillSettings(), size=self.curriculum.table.size)
        self.credit: dict[str, np.ndarray] = {}
        self.admitted: dict[str, bool] = {}

    def step(self, step: int, wanted: int) -> None:
        """Draw and observe for this step of verl's, from 1, until `wanted` groups are admitted."""
        self.fill.begin(wanted, step - 1)
        missing, verdicts, names = wanted, [], []
        while missing:
            draw = select_unseen(self.curriculum, self.fill, missing, step=step - 1)
            self.draws.append((step, draw.prompts.tolist()))
            uids = [f"ticket-{ticket}" for ticket in draw.tickets]
            rewards = padded([self.rewards[uid] for uid in uids])
            named = {"acc": rewards}
            verdict = self.curriculum.observe(draw.tickets, rewards, named=named)
            missing -= int(verdict.admitted.sum())
            self.admitted |= zip(uids, verdict.admitted.tolist(), strict=True)
            for ticket, fine in zip(draw.tickets.tolist(), verdict.admitted.tolist(), strict=True):
                if fine:
                    self.fill.admit(ticket, ticket)
                else:
                    self.fill.reject(ticket, ticket, informativeness=0.0, reward=0.0)
            verdicts.append(verdict)
            names += uids
        if held := self.fill.release():
            self.curriculum.drop(held)
        self.fill.take()
        self._note(names, verdicts)

    def _note(self, uids: list[str], verdicts: list[Verdict]) -> None:
        admitted_P = np.concatenate([verdict.admitted for verdict in verdicts])
        credit_PG = self.curriculum.credit([verdict.take(verdict.admitted) for verdict in verdicts])
        self.credit |= zip(np.array(uids)[admitted_P].tolist(), credit_PG, strict=True)

    @property
    def repeats(self) -> int:
        return self.fill.counts.repeats

    @property
    def asked(self) -> list[tuple[int, int]]:
        return [(step, prompt) for step, prompts in self.draws for prompt in prompts]
