"""Fills a batch with exactly n admitted groups, generating many at a time."""

from __future__ import annotations

import asyncio
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, replace
from typing import Self

from curro.curriculum import Curriculum
from curro.errors import ConfigError, EngineError, ExhaustedError, FillError
from curro.rollout.batch import Batch, Filling
from curro.rollout.engine import Engine, Prompt
from curro.rollout.flight import Flight
from curro.rollout.group import Counts, Group
from curro.rollout.scoring import Score, Scorer
from curro.rollout.settling import Settler

WHEN_SHORT = ("error", "finish", "top-up")


class Filler:
    """Keeps an engine busy until a batch has its admitted groups.

    "Online Difficulty Filtering for Reasoning Oriented RL", algorithm 1 and appendix B: up to C_max groups
    are generated at a time, each is scored and offered to the curriculum's gate when it ends and replaced by
    the next prompt, and once N are admitted the rest is cancelled. A prompt is generated at most once in a
    fill, unless the selection repeats prompts. Which prompts are drawn depends on the order in which groups
    end, and on no clock.

    The filler settles every ticket that it draws. The engine stays the caller's to close.

    Args:
        curriculum: draws the prompts and says which groups are admitted.
        engine: generates the rollouts.
        prompts: the prompt of a prompt's number.
        score: the rewards of a prompt's rollouts (`curro.rollout.scoring.Score`); failed rollouts are not
            passed to it, cut and empty ones are.
        rollouts_per_prompt: G.
        max_in_flight: C_max, how many groups are generated or scored at a time.
        weights: of named rewards in the reward that is trained on; by default 1 each.
        executor, workers, score_timeout: where a scorer that is not `async` runs, and the seconds that a
            call may take; see `curro.rollout.scoring.Scorer`.
        max_staleness: how many steps older than the batch a group may be. From 1 on, what runs when a
            batch is full goes on for the next; 0: it is cancelled.
        timeout: seconds that a request to the engine may take.
        retries: how often rollouts that failed are asked for again, where too few are left.
        least_rollouts: how many of the G must be good; by default half of them, and at least 2.
        max_failures: so many groups in a row may fail.
        max_seconds, max_rollouts: a fill takes no longer and asks the engine for no more.
        when_short: what a fill does when the prompts, the time or the rollouts run out: "error";
            "finish", a smaller batch; or "top-up", the most informative groups that the gate rejected.

    Raises:
        ConfigError: options that no fill could use.
    """

    def __init__(
        self,
        curriculum: Curriculum,
        engine: Engine,
        prompts: Callable[[int], Prompt],
        score: Score,
        *,
        rollouts_per_prompt: int,
        max_in_flight: int,
        weights: Mapping[str, float] | None = None,
        executor: Executor | None = None,
        workers: int = 0,
        score_timeout: float | None = None,
        max_staleness: int = 0,
        timeout: float | None = None,
        retries: int = 2,
        least_rollouts: int | None = None,
        max_failures: int = 32,
        max_seconds: float = math.inf,
        max_rollouts: float = math.inf,
        when_short: str = "error",
    ) -> None:
        if least_rollouts is None:
            least_rollouts = min(rollouts_per_prompt, max(2, -(-rollouts_per_prompt // 2)))
        _check_from(1, rollouts_per_prompt=rollouts_per_prompt, max_in_flight=max_in_flight)
        _check_from(1, least_rollouts=least_rollouts, max_failures=max_failures)
        _check_from(0, workers=workers, max_staleness=max_staleness, retries=retries)
        _check_from(rollouts_per_prompt, max_rollouts=max_rollouts)
        _check_seconds(timeout=timeout, score_timeout=score_timeout, max_seconds=max_seconds)
        if least_rollouts > rollouts_per_prompt:
            raise ConfigError(f"least_rollouts is at most {rollouts_per_prompt}, not {least_rollouts}")
        if curriculum.selection.repeats and math.isinf(max_rollouts) and math.isinf(max_seconds):
            raise ConfigError(
                "a selection that repeats prompts never runs out of them: set max_rollouts or max_seconds, "
                "or a fill whose groups are all rejected would not end"
            )
        if when_short not in WHEN_SHORT:
            raise ConfigError(f"when_short is one of {', '.join(WHEN_SHORT)}, not {when_short!r}")
        self.curriculum, self.prompts = curriculum, prompts
        self.rollouts_per_prompt, self.max_in_flight = rollouts_per_prompt, max_in_flight
        self.max_staleness = max_staleness
        self.max_seconds, self.max_rollouts, self.when_short = max_seconds, max_rollouts, when_short
        self.counts = Counts()
        self._scorer = Scorer(score, executor=executor, workers=workers, timeout=score_timeout)
        self._flight = Flight(
            engine, self._scorer, weights, self.counts,
            rollouts_per_prompt=rollouts_per_prompt, slots=max_in_flight,
            least=least_rollouts, retries=retries, timeout=timeout,
        )  # fmt: skip
        self._settler = Settler(curriculum, self.counts, max_failures)
        self._filling = self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def running(self) -> int:
        """Groups whose tickets are open: generated, scored, or held."""
        return len(self._flight.running) + self.held

    @property
    def held(self) -> int:
        """Groups that have ended and wait, unobserved, for the next fill."""
        return len(self._flight.ended)

    @property
    def kept(self) -> int:
        """Admitted groups of fills that ended in an error: the next batch begins with them."""
        return len(self._settler.kept)

    async def fill(self, n: int, *, step: int) -> Batch:
        """A batch of n admitted groups.

        However a fill ends, by an error or a cancellation too, its tickets are settled (with
        `max_staleness` some run on), and the groups that were admitted are in the batch, or kept for the
        next one whatever their age.

        Args:
            n: how many; with `when_short="finish"` the batch may have fewer.
            step: the training step, for the curriculum; it only grows.

        Raises:
            FillError: prompts, time or rollouts ran out; too many groups in a row failed; another fill
                is under way, or the filler is closed.
            EngineError: the engine is dead.
            RewardError: the scorer gave something that is no reward, or raised this.
            ConfigError: n < 1, a step that goes back, or a scorer's processes that do not start.
        """
        if (n := operator.index(n)) < 1:
            raise ConfigError(f"fill needs n >= 1, not {n}")
        if self._filling or self._closed:
            why = "the filler is closed" if self._closed else "another fill is under way: await one at a time"
            raise FillError(f"step {step} cannot be filled: {why}")
        self._filling, before = True, replace(self.counts)
        self._flight.budget = self.max_rollouts
        until = asyncio.get_running_loop().time() + self.max_seconds
        fill = Filling(n, step, until, top_up=self.when_short == "top-up")
        carry = self.max_staleness > 0
        try:
            await self._drop_stale(step)
            self._flight.count_seconds(True)
            reason = await self._work(fill)
        except EngineError:
            carry = False
            raise
        finally:
            self._flight.count_seconds(False)
            try:
                self._settler.release(fill.repeats)
                if not carry:
                    await self._cancel(self._all())
            finally:
                self._filling = False
        return self._batch(fill, reason, before)

    async def close(self) -> None:
        """Cancel what runs and drop its tickets; the curriculum can be saved. Nothing is filled after this.

        Raises:
            FillError: a fill is under way.
        """
        if self._filling:
            raise FillError("the filler cannot close while it fills: cancel the fill first")
        self._closed = True
        try:
            await self._cancel(self._all())
        finally:
            self._scorer.close()

    def metrics(self) -> dict[str, float]:
        """The counts since the filler was made, and what it holds now, a flat dict."""
        numbers = asdict(self.counts) | {
            "dropped": self.counts.dropped,
            "running": self.running,
            "held": self.held,
            "kept": self.kept,
            "idle_share": self.counts.idle_share,
        }
        return {f"fill/{name}": float(number) for name, number in numbers.items()}

    async def _work(self, fill: Filling) -> str | None:
        """Settle groups until the batch is full; otherwise says what ran out."""
        flight, loop = self._flight, asyncio.get_running_loop()
        fill.tried.update(group.prompt for group in (*self._settler.kept, *self._all()))
        while len(self._settler.kept) < fill.n:
            if flight.ended:
                self._settler.settle(flight.ended.popleft(), fill)
            elif loop.time() >= fill.until:
                return f"{self.max_seconds:g} s were over"
            else:
                reason = self._submit(fill)
                if not flight.running:
                    return reason
                await flight.wait(fill.until)
        return None

    def _submit(self, fill: Filling) -> str:
        """Fill the free slots; says what ran out if not all could be."""
        while len(self._flight.running) < self.max_in_flight:
            if self._flight.budget < self.rollouts_per_prompt:
                return f"{self.max_rollouts:g} rollouts were used"
            if fill.exhausted:
                return "every prompt had been tried"
            try:
                draw = self.curriculum.select(1, step=fill.step)
            except ExhaustedError:
                fill.exhausted = True
                continue
            prompt, ticket = int(draw.prompts[0]), int(draw.tickets[0])
            if prompt in fill.tried and not self.curriculum.selection.repeats:
                # its ticket stays open, or it could be drawn for ever
                self.counts.repeats += 1
                fill.repeats.append(ticket)
                continue
            try:
                text = self.prompts(prompt)
            except BaseException:
                self._settler.release([ticket])
                raise
            fill.tried.add(prompt)
            self.counts.submitted += 1
            self._flight.launch(Group(prompt, ticket, fill.step), text, self.curriculum.table.key(prompt))
        return ""

    def _batch(self, fill: Filling, reason: str | None, before: Counts) -> Batch:
        groups = self._settler.kept[: fill.n]
        groups += fill.best(fill.n - len(groups))
        if len(groups) < fill.n and self.when_short != "finish":
            done = self.counts.since(before)
            raise FillError(
                f"step {fill.step}: {reason}, and {self.kept} of {fill.n} groups are admitted "
                f"({done.submitted} were tried, {done.rejected} rejected, {done.failed} failed). They are "
                "kept for the next fill: ask for fewer, allow more, widen the gate, or set when_short"
            )
        del self._settler.kept[: fill.n]
        lessons, self._settler.lessons = tuple(self._settler.lessons), []
        self.counts.topped_up += sum(not group.admitted for group in groups)
        counts = self.counts.since(before)
        return Batch.of(groups, lessons, self.rollouts_per_prompt, counts, self.curriculum.batch_weights)

    async def _drop_stale(self, step: int) -> None:
        stale = [group for group in self._all() if step - group.step > self.max_staleness]
        await self._cancel(stale, "stale")

    def _all(self) -> list[Group]:
        return [*self._flight.running, *self._flight.ended]

    async def _cancel(self, groups: Sequence[Group], why: str = "cancelled") -> None:
        """Drop groups at once, and wait until the engine has stopped generating them."""
        tasks = self._flight.cancel(groups)
        for group in groups:
            self._settler.drop(group, why)
        if tasks:
            await asyncio.wait(tasks)


def _check_from(lowest: int, **options: float) -> None:
    for name, value in options.items():
        if not value >= lowest:
            raise ConfigError(f"{name} is a number from {lowest}, not {value}")


def _check_seconds(**options: float | None) -> None:
    for name, seconds in options.items():
        if seconds is not None and not seconds > 0:
            raise ConfigError(f"{name} is a number of seconds above 0, not {seconds}")
