"""The fill from an event loop: engine and scorer fail in every way, the trainer loses patience or dies."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from tests.simulation.world import Killed, Trainer, Watched, World, check_fill, same

from curro.core.errors import CheckpointError, EngineError, FillError, RewardError
from curro.rollout.engines.engine import Prompt, Rollout
from curro.rollout.fill_settings import WHEN_SHORT, FillSettings
from curro.rollout.filler import Filler

GROUP = 3
ENGINE = {
    "failed": 0.08, "partly": 0.08, "few": 0.04, "many": 0.04, "raises": 0.04, "hangs": 0.04,
    "stubborn": 0.04, "wrong": 0.04, "quits": 0.04, "dead": 0.01,
}  # fmt: skip
SCORER = {
    "some": 0.1, "none": 0.05, "raises": 0.05, "hangs": 0.04, "quits": 0.04, "nan": 0.01, "short": 0.01,
    "dead": 0.01,
}  # fmt: skip


class Asynchronous:
    """A run of `Filler`, killed and resumed."""

    def __init__(self, world: World) -> None:
        self.world = world
        choice = world.choice
        self.allocation = choice("allocation", [None, None, "knapsack:least=1", "probe:first=2,most=5"])
        self.options: dict[str, Any] = {
            "max_in_flight": choice("slots", [1, 2, 4, 7]),
            "max_staleness": choice("staleness", [0, 0, 1, 2]),
            "fill": FillSettings(choice("limit", [1.0, 2.5, 10.0]), choice("when_short", WHEN_SHORT)),
        }  # fmt: skip
        self.path = world.disk.folder / "curriculum.npz"
        self.numbers = 0

    async def live(self) -> None:
        while True:
            life = asyncio.ensure_future(self._life())
            patience = self.world.number("process.seconds", 0, 40)
            dies = self.world.kills < 3 and self.world.fault("process.killed", 0.3)
            done, _ = await asyncio.wait([life], timeout=patience if dies else None)
            try:
                if not done:
                    self.world.die("process")
                return await life
            except Killed:
                others = asyncio.all_tasks() - {asyncio.current_task()}
                for task in others:
                    task.cancel()
                await asyncio.gather(*others, return_exceptions=True)
                self.world.disk.restart()

    async def _life(self) -> None:
        world = self.world
        curriculum, trainer, is_resumed = world.started(self.path, self.allocation)
        await Life(self, curriculum, trainer, is_resumed=is_resumed).train()


class Life:
    """One process of the run."""

    def __init__(self, run: Asynchronous, curriculum: Watched, trainer: Trainer, *, is_resumed: bool) -> None:
        self.run, self.world, self.curriculum, self.trainer = run, run.world, curriculum, trainer
        self.is_resumed = is_resumed
        self.running = 0
        self.filler = Filler(curriculum, self, str, self.score, rollouts_per_prompt=GROUP, **run.options)
        self.scores: dict[str, float] = {}
        settle = self.filler._settle

        def watched(group: Any) -> None:
            settle(group)
            if group.verdict is not None:
                self.world.check_gate(curriculum, group.admitted, group.rewards)
                if group.admitted:
                    self.trainer.admitted[group.ticket] = self._rewards(group.rollouts)
            self.check()

        self.filler._settle = watched  # type: ignore[method-assign]
        drop = self.filler._drop

        def watched_drop(group: Any, why: str) -> None:
            age = self.trainer.step - group.step
            assert why != "stale" or age > self.filler.max_staleness, "a young group is dropped"
            drop(group, why)

        self.filler._drop = watched_drop  # type: ignore[method-assign]

    def _rewards(self, rollouts: Sequence[Rollout]) -> list[float]:
        return [self.scores.get(rollout.text, np.nan) for rollout in rollouts]

    def check(self) -> None:
        fill = self.filler._fill
        check_fill(fill, self.curriculum, shared=self.is_resumed)
        oldest = min((group.step for group in fill.in_flight.values()), default=fill.step)
        assert fill.step - oldest <= self.filler.max_staleness, "a group in flight is too old"
        assert len(self.filler._running) <= self.filler.max_in_flight
        assert self.running <= self.filler.max_in_flight, "the engine generates what was cancelled"
        assert list(self.trainer.admitted) == list(self.filler._fill.admitted), "an admitted group is lost"

    # ------------------------------ engine and scorer ------------------------------

    async def generate(self, prompt: Prompt, n: int) -> Any:
        self.running += 1
        try:
            return await self._generate(n)
        finally:
            self.running -= 1

    async def _generate(self, n: int) -> Any:
        self.check()
        kind = self.world.first_fault("engine", ENGINE)
        if self.world.fault("clock.jumps", 0.01):  # the machine was paused
            self.world.wait(self.world.number("clock.seconds", 10, 3000))
        # whole seconds, so that many things happen in the same instant
        await asyncio.sleep(self.world.number("engine.seconds", 0, 3))
        if kind == "dead":
            raise EngineError("dead")
        if kind == "raises":
            raise OSError("reset")
        if kind == "quits":
            raise asyncio.CancelledError
        if kind == "hangs":
            async with asyncio.timeout(5.0):
                await asyncio.sleep(1e9)
        if kind == "stubborn":
            try:
                await asyncio.sleep(8.0)
            except asyncio.CancelledError:
                await asyncio.sleep(1.0)
        if kind == "wrong":
            return None
        rollouts = [self._rollout() for _ in range({"few": n - 1, "many": 2 * n}.get(kind, n))]
        for place in range(n if kind == "failed" else kind == "partly"):
            rollouts[place] = Rollout("", error="failed")
        return rollouts

    def _rollout(self) -> Rollout:
        self.run.numbers += 1
        return Rollout(f"{self.run.numbers} is {self.world.number('right', 0, 1)}")

    async def close(self) -> None: ...

    async def score(self, prompt: int, completions: Sequence[Rollout]) -> list[float | None]:
        self.check()
        assert all(rollout.error is None for rollout in completions)
        kind = self.world.first_fault("scorer", SCORER)
        await asyncio.sleep(self.world.number("scorer.seconds", 0, 1))
        if kind == "dead":
            raise EngineError("the judge is dead")
        if kind == "raises":
            raise ZeroDivisionError
        if kind == "quits":
            raise asyncio.CancelledError
        if kind == "hangs":
            async with asyncio.timeout(5.0):
                await asyncio.sleep(1e9)
        scores: list[float | None] = [float(rollout.text.split()[-1]) for rollout in completions]
        if kind in ("some", "nan"):
            scores[0] = None if kind == "some" else np.nan
        if kind == "none":
            scores = [None] * len(scores)
        for rollout, score in zip(completions, scores, strict=True):
            assert rollout.text not in self.scores, "a rollout is scored twice"
            self.scores[rollout.text] = np.nan if score is None else score
        return scores[1:] if kind == "short" else scores

    # ------------------------------ training ------------------------------

    async def train(self) -> None:
        world = self.world
        while self.trainer.step < world.steps:
            await self._step()
            await asyncio.sleep(world.choice("trainer.seconds", [0.0, 2.0, 50.0]))
            self.trainer.step += 1
            if world.chance("save", 0.6):
                with suppress(CheckpointError):  # the disk is full
                    self.curriculum.save(self.run.path)
                world.disk.check()
        await self.filler.close()
        self.check()
        assert self.curriculum.metrics()["in_flight"] == self.running == 0
        assert self.filler.counts.admitted >= len(self.filler._fill.admitted)

    async def _step(self) -> None:
        world, filler, step = self.world, self.filler, self.trainer.step
        n = world.number("batch", 1, 5)
        fill = asyncio.ensure_future(filler.fill(n, step=step))
        fill.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # nobody else may ask
        patience = world.choice("trainer.patience", [1.0, 3.0, 7.0])
        await asyncio.wait([fill], timeout=patience if world.fault("trainer.gives up", 0.15) else None)
        for _ in range(world.number("trainer.cancels", 1, 2)):  # again while it waits for the engine
            fill.cancel()
            await asyncio.sleep(0.5)
        is_dead = False
        try:
            self._take(await fill, n)
        except (EngineError, RewardError, FillError, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            is_dead = isinstance(error, EngineError)
        self.check()
        if is_dead or not filler.max_staleness:
            assert self.running == filler.in_flight == 0, "something goes on behind a fill that has ended"

    def _take(self, batch: Any, n: int) -> None:
        when_short = self.filler._fill.settings.when_short
        assert len(batch) == n or (len(batch) < n and when_short == "finish")
        assert batch.admitted.all() or when_short == "top-up"
        assert len(set(batch.prompts.tolist())) == len(batch)
        oldest = min(batch.steps[~batch.admitted], default=self.trainer.step)
        assert self.trainer.step - oldest <= self.filler.max_staleness, "a group is too old"
        same(np.sign(batch.credit), np.sign(batch.advantages), "the credit of a batch")
        for row, rollouts in enumerate(batch.rollouts):
            rewards_G = batch.rewards[row, : len(rollouts)]
            same(rewards_G, np.array(self._rewards(rollouts)), "what the scorer said")
            assert not batch.advantages[row][np.isnan(batch.rewards[row])].any()
            assert np.isfinite(rewards_G).any()
            self.trainer.train(int(batch.tickets[row]), rewards_G, admitted=bool(batch.admitted[row]))
