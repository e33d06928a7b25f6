"""The fill in TRL's rounds, on one to three processes: rounds break off, scores are missing, kills."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from tests.simulation.world import Killed, Trainer, World, check_fill, replaced

import curro.hosts
import curro.runs.writer
from curro import Curriculum
from curro.core.errors import CheckpointError, FillError
from curro.rollout.fill import Fill, release
from curro.rollout.fill_settings import FillSettings
from curro.runs.writer import Completion

# what only training needs of TRL, accelerate and PyTorch takes ten times as long to import as the rest
_UNUSED: dict[str, dict[str, Any]] = {
    "curro.hosts.trl": {"__path__": [f"{path}/trl" for path in curro.hosts.__path__]},
    "accelerate": {"Accelerator": object},
    "accelerate.utils": {"broadcast_object_list": None},
    "torch.distributed.tensor": {"DTensor": object},
}
with replaced(_UNUSED, "curro.hosts.trl"):
    from curro.hosts.trl import processes
    from curro.hosts.trl.observe import GroupRecord, read_feedback
    from curro.hosts.trl.processes import MainProcess
    from curro.hosts.trl.rounds import ScoredRow, fill_in_rounds

SIZE = 4


class Broken(Exception):
    """A round that breaks off."""


class Process:
    """One of the processes that train. Its rollouts are invented, and the wire between processes is a list.

    Args:
        reward: of a rollout of a prompt; NaN where it is not scored.
        breaks: whether a round breaks off.
        wire: of the main process, for the others.

    Attributes:
        rounds: (ticket, rollouts) of every round.
        records: what was observed in the latest step.
        prompts: of every ticket that was rolled out.
        rewards: of every rollout, by its number.
    """

    def __init__(
        self,
        curriculum: Curriculum,
        settings: FillSettings,
        reward: Callable[[int], float],
        *,
        breaks: Callable[[], bool] = lambda: False,
        wire: deque[list[Any]] | None = None,
        processes: int = 1,
    ) -> None:
        self.curriculum, self.reward, self.breaks = curriculum, reward, breaks
        self.wire: deque[list[Any]] = deque() if wire is None else wire
        self.fill: Fill[Any] = Fill(settings, size=curriculum.table.size, weigh=len)
        self.accelerator = SimpleNamespace(num_processes=processes, is_main_process=wire is None)
        self.main_process = MainProcess(self)
        self.rounds: list[dict[int, int]] = []
        self.records: list[GroupRecord] = []
        self.prompts: dict[int, int] = {}
        self.rewards: list[float] = []

    def roll_out_round(self, draw: Any) -> list[ScoredRow]:
        if self.breaks():
            raise Broken
        tickets = np.repeat(draw.tickets, draw.rollouts).tolist()
        assert len(tickets) % self.accelerator.num_processes == 0
        self.prompts |= dict(zip(draw.tickets.tolist(), draw.prompts.tolist(), strict=True))
        self.rounds.append(dict(Counter(tickets)))
        first = len(self.rewards)
        self.rewards += [self.reward(self.prompts[ticket]) for ticket in tickets]
        return [
            ScoredRow(
                {"ticket": ticket, "number": number},
                {},
                None,
                [self.rewards[number]],
                Completion("", 1, False),
                {},
            )
            for number, ticket in enumerate(tickets, start=first)
        ]

    def feedback(self, tickets: Any, rewards: Any, sizes: Any) -> Any:
        return read_feedback(tickets, rewards, sizes, weights=torch.ones(1), names=["reward"])

    def observe(self, draw: Any, feedback: Any, completions: Any) -> Any:
        def judge() -> Any:
            verdict = self.curriculum.observe(**feedback.arguments())
            self.records.append(GroupRecord(self.now, draw, feedback.rewards, verdict))
            return verdict

        return self.main_process.decide(judge)

    def step(self, rows: int, step: int) -> list[tuple[int, list[int]]]:
        """The batch: the ticket of each group and the numbers of its rollouts."""
        self.records.clear()
        self.now, before = step, self.curriculum.ledger.tickets
        try:
            with patch.object(processes, "broadcast_object_list", self._broadcast):
                batch = fill_in_rounds(self, rows, size=SIZE, step=step)
        finally:
            if self.accelerator.is_main_process:
                release(self.curriculum, np.setdiff1d(self.curriculum.ledger.tickets, before))
        return [self._described(group) for group in batch]

    def _described(self, group: Any) -> tuple[int, list[int]]:
        numbers = [rollout.row["number"] for rollout in group.rollouts]
        np.testing.assert_array_equal(
            [rollout.rewards[0] for rollout in group.rollouts],
            [self.rewards[number] for number in numbers],
        )
        (ticket,) = {rollout.row["ticket"] for rollout in group.rollouts}
        return ticket, numbers

    def _broadcast(self, objects: list[Any]) -> None:
        if self.accelerator.is_main_process:
            self.wire.append(list(objects))
        else:
            objects[:] = self.wire.popleft()


class Rounds:
    """A run of TRL's fill, killed and resumed."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.allocation = world.choice("allocation", [None, None, "knapsack:least=1", "probe:first=2,most=9"])
        self.processes = world.choice("processes", [1, 1, 2, 3])
        self.fill = FillSettings(
            world.choice("limit", [1.0, 2.0, 10.0]), world.choice("when_short", ["top-up", "error"])
        )
        self.path = world.disk.folder / "curriculum.npz"

    async def live(self) -> None:
        while True:
            try:
                return self._life()
            except Killed:
                self.world.disk.restart()

    def _life(self) -> None:
        world = self.world
        curriculum, trainer, is_resumed = world.started(self.path, self.allocation)
        owner = Process(curriculum, self.fill, self._reward, breaks=self._breaks, processes=self.processes)
        rewards = iter(owner.rewards)
        other = Process(
            curriculum, self.fill, lambda prompt: next(rewards), wire=owner.wire, processes=self.processes
        )
        while trainer.step < world.steps:
            self._step(owner, other, trainer, shared=is_resumed)
            trainer.step += 1
            if world.chance("save", 0.6):
                with suppress(CheckpointError):  # the disk is full
                    curriculum.save(self.path)
                world.disk.check()

    def _reward(self, prompt: int) -> float:
        if self.world.fault("reward.missing", 0.1):
            return np.nan
        return float(self.world.number("right", 0, 1))

    def _breaks(self) -> bool:
        self.world.may_die("round", 0.04)
        return self.processes == 1 and self.world.fault("round.breaks", 0.06)

    def _step(self, owner: Process, other: Process, trainer: Trainer, *, shared: bool) -> None:
        rows = self.world.number("batch", 1, 3) * SIZE * self.processes
        trainer.admitted.clear()  # rounds keep nothing for a later batch
        try:
            batch = owner.step(rows, trainer.step)
        except Broken:
            batch = []
        except FillError:
            is_larger = rows > SIZE * self.world.size  # than all prompts together
            has_lost = owner.fill.batch_counts.failed > 0  # groups that count towards the limit
            # the groups of estimates count too, and leave when their prompts come again
            has_estimates = bool(owner.fill._estimated)
            is_short = owner.fill.exhausted or is_larger or has_lost or has_estimates
            assert self.fill.when_short == "error" or is_short, "a batch that could be topped up is short"
            batch = []
            if self.processes > 1:
                try:
                    other.step(rows, trainer.step)
                except FillError:
                    pass
                else:
                    raise AssertionError("the processes disagree on whether the batch is short") from None
        else:
            sizes = [len(rollouts) for _, rollouts in batch]
            assert sum(sizes) >= rows > sum(sizes[:-1]), "the batch is not full"
            if self.processes > 1:
                assert other.step(rows, trainer.step) == batch, "the processes train on other batches"
        check_fill(owner.fill, owner.curriculum, shared=shared)
        assert len(owner.curriculum.ledger) == len(owner.fill.in_flight) == len(owner.wire) == 0
        self._train(owner, trainer, batch)

    def _train(self, owner: Process, trainer: Trainer, batch: Sequence[tuple[int, list[int]]]) -> None:
        for record in owner.records:
            for row, ticket in enumerate(record.draw.tickets.tolist()):
                rewards_G = record.rewards[row]
                admitted = bool(record.verdict.admitted[row])
                self.world.check_gate(owner.curriculum, admitted, rewards_G)
                if admitted:
                    trainer.admitted[ticket] = rewards_G.tolist()
        topped_up = [ticket for ticket, _ in batch if ticket not in trainer.admitted]
        assert not topped_up or self.fill.when_short == "top-up", "a rejected group is in the batch"
        assert not topped_up or set(trainer.admitted) <= {ticket for ticket, _ in batch}, "one is left out"
        for ticket, rollouts in batch:
            rewards_G = np.array([owner.rewards[rollout] for rollout in rollouts])
            if ticket in trainer.admitted:
                trainer.admitted[ticket] = trainer.admitted[ticket][: len(rollouts)]
            trainer.train(ticket, rewards_G, admitted=ticket not in topped_up)
