"""A served curriculum: several trainers ask it over a network that loses and repeats, and it is killed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
from tests.simulation.world import Killed, Trainer, Watched, World, same

from curro.contrib.serve import ServedCurriculum
from curro.contrib.serve.application import Service
from curro.contrib.serve.client import JSON, KEY, ServiceError
from curro.contrib.serve.saved import SHIFT, STATE, SavedCurriculum
from curro.core.errors import CheckpointError, ExhaustedError

GROUP = 3


class Served:
    """A service, its supervisor, and the trainers that share it.

    Attributes:
        curriculum: of the latest process of the service.
        power_losses: how often everything on the machine ended, the trainers on it too.
        step: training steps that have finished.
        trainers: of every client, in every life.
        abandoned: tickets of those that were killed while the service lived.
    """

    curriculum: Watched

    def __init__(self, world: World) -> None:
        self.world = world
        self.folder = world.disk.folder / "live"
        self.saved: SavedCurriculum | None = None
        self.service: Service | None = None
        self.back_at = 0.0
        self.step = self.power_losses = 0
        self.follow_next: list[list[Any]] = []
        self.trainers: list[Trainer] = []
        self.abandoned: list[int] = []
        world.disk.note = lambda: list(self.curriculum.calls)

    # ------------------------------ the service ------------------------------

    def start(self) -> None:
        """A new process of the service goes on from what is on the disk."""
        self.curriculum = self.world.curriculum()
        saved = self.world.disk.saved(self.folder / STATE)
        self.follow_next = [] if saved is None else [saved.note]
        before = -1 if saved is None else saved.start
        load = self.curriculum.load_state_dict

        def followed(state: Any) -> None:
            load(state)
            if self.follow_next:
                self.curriculum.follow(self.follow_next.pop(0))

        self.curriculum.load_state_dict = followed  # type: ignore[method-assign]
        self.saved = SavedCurriculum(self.curriculum, self.folder)
        assert self.saved.start == before + 1, "tickets of two starts have the same numbers"
        assert not len(self.curriculum.ledger), "tickets of the start before are in flight"
        self.service = Service(self.saved, "secret")

    def kill(self) -> None:
        """The process is gone; nothing of it is closed."""
        self.service = self.saved = None
        self.power_losses += self.world.disk.lost_power
        self.back_at = self.world.now + self.world.number("restart.seconds", 0, 30)

    def bring_up(self) -> None:
        """What the supervisor does: the same command again, where its time has come.

        Raises:
            ConnectionRefusedError: the service is not up.
        """
        if self.service is not None:
            return
        if self.world.now < self.back_at:
            raise ConnectionRefusedError
        self.world.disk.restart()
        try:
            self.start()
        except Killed:
            self.kill()
        except OSError:  # the disk is full, and the process ends with a sentence
            self.world.disk.crash(power=False)
            self.kill()
        if self.service is None:
            raise ConnectionRefusedError

    def wait_until_up(self) -> None:
        for _ in range(500):
            with suppress(ConnectionError):
                return self.bring_up()
            self.world.wait(1.0)
        raise AssertionError("the service does not come up")

    def send(self, line: Line, method: str, path: str, body: bytes, headers: dict[str, str]) -> bytes:
        """The reply, if the network and the machine let it come.

        Raises:
            ConnectionError: none comes.
        """
        world = self.world
        world.wait(world.number("network.seconds", 0, 3) / 10)
        cut = world.first_fault("network", {"cut": 0.01, "cut for one": 0.01, "cut for replies": 0.01})
        if cut:
            self.cut(line, cut, world.now + world.number("network.cut seconds", 1, 20))
        if world.now < line.requests_cut_until or world.fault("network.request lost", 0.03):
            raise ConnectionResetError
        self.bring_up()
        try:
            world.may_die("service.before", 0.015)
            reply = self._answer(method, path, body, headers)
            if world.fault("network.duplicate", 0.03):
                counts = self._counts()
                assert self._answer(method, path, body, headers) == reply, "a duplicate has another reply"
                assert self._counts() == counts, "a duplicate is counted twice"
            world.may_die("service.after", 0.015)
        except Killed:
            self.kill()
            raise ConnectionResetError from None
        if world.now < line.replies_cut_until or world.fault("network.reply lost", 0.03):
            raise ConnectionResetError
        return reply

    def cut(self, line: Line, kind: str, until: float) -> None:
        """Let nothing through until then: for all trainers, for one, or for the replies to one."""
        if kind == "cut for replies":
            line.replies_cut_until = until
            return
        for cut in (line,) if kind == "cut for one" else [client.line for client in self.clients]:
            cut.requests_cut_until = until

    def _counts(self) -> tuple[int, int, int]:
        ledger = self.curriculum.ledger
        return ledger.selected, ledger.observed, ledger.dropped

    def _answer(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> bytes:
        assert self.service is not None
        kept = self.world.disk.saved(self.folder / "checkpoints" / "kept.npz") if path == "/load" else None
        # a load whose start cannot be written goes back to what was before
        self.follow_next = [] if kept is None else [kept.note, list(self.curriculum.calls)]
        _, reply = self.service.answer(method, path, body, JSON, headers.get(KEY, ""))
        self.world.disk.check()
        return reply

    # ------------------------------ the run ------------------------------

    async def live(self) -> None:
        world = self.world
        clock = SimpleNamespace(monotonic=lambda: world.now, sleep=world.wait)
        connect = patch(
            "curro.contrib.serve.client.HTTPConnection",
            lambda host, timeout: Connection(clients[int(host)]),
        )
        with patch("curro.contrib.serve.client.time", clock), connect:
            self.wait_until_up()
            clients = [Client(self, number) for number in range(world.number("clients", 1, 3))]
            self.clients = clients
            tasks = [asyncio.ensure_future(client.train()) for client in clients]
            try:
                await asyncio.gather(*tasks)
            finally:  # none goes on after the failure of another, on a real network
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
            self.wait_until_up()
        trained = [ticket for trainer in self.trainers for ticket in trainer.trained]
        assert len(set(trained)) == len(trained), "a group is trained on twice"
        assert self.saved is not None
        with suppress(OSError, Killed):
            self.saved.close()
        world.disk.check()

    def check(self) -> None:
        """Every ticket in flight is one that a trainer has, or had when it was killed."""
        if self.saved is None or any(client.is_lost for client in self.clients):
            return
        start = self.saved.start
        held = [*self.abandoned, *(ticket for client in self.clients for ticket in client.open)]
        held = [ticket for ticket in held if ticket >> SHIFT == start]
        in_flight = [(start << SHIFT) + ticket for ticket in self.curriculum.ledger.tickets.tolist()]
        assert sorted(held) == sorted(in_flight), "a ticket is lost"


@dataclass
class Line:
    """The network between a trainer and the service, and until when it is cut."""

    requests_cut_until: float = 0.0
    replies_cut_until: float = 0.0


class Connection:
    """What the client takes for an HTTP connection."""

    reply: bytes

    def __init__(self, client: Client) -> None:
        self.client = client

    def request(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> None:
        if self.client.is_lost:
            raise Killed
        self.reply = self.client.served.send(self.client.line, method, path, body, headers)

    def getresponse(self) -> Connection:
        return self

    def read(self) -> bytes:
        return self.reply

    def close(self) -> None: ...


class Client:
    """A trainer that asks the service.

    On the service's machine it loses all it knows when the power goes; elsewhere it goes on with its tickets.
    """

    def __init__(self, served: Served, number: int) -> None:
        self.served, self.world, self.number = served, served.world, number
        self.line = Line()
        self.is_elsewhere = self.world.chance("client.elsewhere", 0.5)
        self._begin()

    def _begin(self) -> None:
        self.port = ServedCurriculum(f"http://{self.number}", "secret", patience=1000.0)
        self.trainer = Trainer()
        self.served.trainers.append(self.trainer)
        self.open: list[int] = []
        self.power_losses = self.served.power_losses

    @property
    def is_lost(self) -> bool:
        return not self.is_elsewhere and self.power_losses != self.served.power_losses

    async def train(self) -> None:
        world = self.world
        for _ in range(world.steps * 2):
            for act in (self._select, self._settle, self._keep):
                await asyncio.sleep(world.number("client.seconds", 0, 5))
                if self.is_lost:
                    self._begin()
                try:
                    act()
                except Killed:
                    self._begin()
                if world.fault("client.killed", 0.02):
                    self.served.abandoned += self.open
                    self._begin()
                self.served.check()
            self.served.step += world.chance("client.steps", 0.5)

    def _select(self) -> None:
        n = self.world.number("batch", 1, 4)
        try:
            draw = self.port.select(n, step=max(self.served.step, self.served.curriculum.step))
        except (ExhaustedError, ServiceError):  # a service that cannot save draws nothing
            return
        self.open += draw.tickets.tolist()

    def _settle(self) -> None:
        world = self.world
        tickets = [ticket for ticket in self.open if world.chance("client.ends", 0.8)]
        world.stream("client.order").shuffle(tickets)
        dropped = [ticket for ticket in tickets if world.chance("client.drops", 0.2)]
        ended = [ticket for ticket in tickets if ticket not in dropped]
        if dropped:
            self.port.drop(dropped)
        if ended and not self.is_lost:
            self._observe(ended)
        self.open = [ticket for ticket in self.open if ticket not in tickets]

    def _observe(self, tickets: list[int]) -> None:
        rewards_PG = np.array(
            [
                [self.world.choice("right", [0.0, 0.0, 1.0, 1.0, np.nan]) for _ in range(GROUP)]
                for _ in tickets
            ]
        )
        verdict = self.port.observe(tickets, rewards_PG)
        if self.is_lost:
            return
        for row, ticket in enumerate(tickets):
            if ticket >> SHIFT != self.port._start:
                assert not verdict.admitted[row], "a group of an earlier start is admitted"
                assert np.isnan(verdict.mean[row])
                continue
            scored = [reward for reward in rewards_PG[row].tolist() if reward == reward]
            same(verdict.mean[row], np.mean(scored) if scored else np.nan, "the mean of a group")
            self.world.check_gate(self.served.curriculum, bool(verdict.admitted[row]), rewards_PG[row])
            if verdict.admitted[row]:
                self.trainer.admitted[ticket] = rewards_PG[row].tolist()
                self.trainer.train(ticket, rewards_PG[row])

    def _keep(self) -> None:
        """Save a checkpoint by its name, or go back to it."""
        with suppress(CheckpointError, ServiceError):
            if self.world.chance("client.saves", 0.15):
                self.port.save("kept")
            if self.world.fault("client.loads", 0.05):
                self.port.load("kept")
