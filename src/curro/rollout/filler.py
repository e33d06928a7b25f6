"""Fills batches of admitted groups from an engine, generating many groups at a time.

`Filler` is the fill's asyncio driver: it draws the prompts, `curro.rollout.group_tasks` generates, scores and
settles their groups, and `curro.rollout.fill.Fill` says when the batch is full.
"""

from __future__ import annotations

import asyncio
import math
import operator
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Self, cast

import numpy as np

from curro.core.curriculum import Curriculum
from curro.core.errors import ConfigError, EngineError, ExhaustedError, FillError, RewardError
from curro.core.policy import PolicyUse
from curro.core.verdicts import Draw
from curro.rollout.engines.engine import Engine, Prompt
from curro.rollout.fill import Fill, FillSettings, select_unseen
from curro.rollout.group import Batch, Counts, Group, feedback_on
from curro.rollout.group_tasks import GroupTasks, Settler, release, wait_for_all
from curro.rollout.scoring import ScoreFunction, Scorer


class Filler:
    """Keeps an engine busy until a batch has its admitted groups: the fill's asyncio driver.

    "Online Difficulty Filtering for Reasoning Oriented RL", algorithm 1 and appendix B: up to C_max groups
    are generated at a time. A group that ends is scored, observed by the curriculum and replaced by the next
    prompt; once N groups are admitted, the rest are cancelled. A prompt is generated at most once for a
    batch. Which prompts are drawn depends on the order in which groups end, and on no clock.

    The filler settles every ticket that it draws. The caller closes the engine.

    Args:
        curriculum: draws the prompts and says which groups are admitted.
        engine: generates the rollouts.
        prompts: gives the prompt of a prompt's number.
        score: gives the rewards of a prompt's rollouts (`curro.rollout.scoring.Score`). Failed rollouts are
            not passed to it; rollouts that were cut, and empty ones, are.
        rollouts_per_prompt: G; where the allocation divides a budget, the mean size of the groups of a draw.
            Where it looks first (`probe`), as many prompts are drawn as the batch lacks, when no group is in
            flight, and what their first rollouts leave of G each goes to groups that differ.
        max_in_flight: C_max, how many groups are generated or scored at a time.
        fill: when a fill gives up, and what happens then.
        weights: what named rewards are multiplied by in the reward that is trained on; by default 1 each.
        max_staleness: how many steps older than its batch a group may be. With 1 or more, groups that are in
            flight when a batch is full continue for the next one; with 0 they are cancelled.
        timeout: seconds that a request to the engine may take.
        retries: how often rollouts that failed are asked for again, where too few are left.
        least_rollouts: how many of the G rollouts must be good; by default half of them, and at least 2.
        max_failures: a fill ends with an error when this many groups in a row have failed.
        max_seconds: how long a fill may take.

    Raises:
        ConfigError: an option is out of range, or a fill with these options might never end.
    """

    def __init__(
        self,
        curriculum: Curriculum,
        engine: Engine,
        prompts: Callable[[int], Prompt],
        score: ScoreFunction,
        *,
        rollouts_per_prompt: int,
        max_in_flight: int,
        fill: FillSettings = FillSettings(),  # noqa: B008 - frozen
        weights: Mapping[str, float] | None = None,
        max_staleness: int = 0,
        timeout: float | None = None,
        retries: int = 2,
        least_rollouts: int | None = None,
        max_failures: int = 32,
        max_seconds: float = math.inf,
    ) -> None:
        _check_from(1, rollouts_per_prompt=rollouts_per_prompt, max_in_flight=max_in_flight)
        _check_from(1, max_failures=max_failures, least_rollouts=least_rollouts or 1)
        _check_from(0, max_staleness=max_staleness, retries=retries)
        _check_seconds(timeout=timeout, max_seconds=max_seconds)
        if least_rollouts is not None and least_rollouts > rollouts_per_prompt:
            raise ConfigError(f"least_rollouts is at most {rollouts_per_prompt}, not {least_rollouts}")
        if curriculum.allocation.looks_first and curriculum.allocation.first > rollouts_per_prompt:
            raise ConfigError(
                f"the allocation gives each prompt {curriculum.allocation.first} rollouts at first, more "
                f"than rollouts_per_prompt, {rollouts_per_prompt}"
            )
        self.curriculum, self.prompts = curriculum, prompts
        self.rollouts_per_prompt, self.max_in_flight = rollouts_per_prompt, max_in_flight
        self.max_staleness, self.max_seconds = max_staleness, max_seconds
        self.counts = Counts()
        self._fill: Fill[Group] = Fill(fill, size=curriculum.table.size, counts=self.counts)
        self._scorer = Scorer(score)
        self._tasks = GroupTasks(
            engine, self._scorer, weights, self.counts,
            least=least_rollouts, retries=retries, timeout=timeout,
        )  # fmt: skip
        self._settler = Settler(curriculum, self._fill, self.counts, max_failures=max_failures)
        self._drawn: deque[Group] = deque()
        self._unspent = 0  # what probed groups have left of the budget
        self._is_filling = self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def in_flight(self) -> int:
        """How many groups have open tickets: queued, being generated or scored, or waiting to be observed."""
        return len(self._fill.in_flight)

    @property
    def waiting(self) -> int:
        """How many groups have ended and wait for the next fill to be observed."""
        return len(self._tasks.ended)

    @property
    def kept(self) -> int:
        """How many admitted groups no batch has taken, because their fill ended in an error."""
        return len(self._fill.admitted)

    async def fill(self, n: int, *, step: int) -> Batch:
        """A batch of n admitted groups.

        However a fill ends, by an error or a cancellation too, its tickets are settled (with `max_staleness`
        some groups stay in flight), and the groups that were admitted are in the batch or are kept for the
        next one, however old they are by then. When a fill returns or raises, the engine has stopped
        generating what was cancelled, even if the fill was cancelled a second time while it waited for that.

        Args:
            n: how many; with `when_short="finish"` the batch may have fewer.
            step: how many training steps have finished, for the curriculum; it never decreases.

        Raises:
            FillError: prompts or time ran out, or the limit was reached; too many groups in a row failed;
                another fill is under way, or the filler is closed.
            EngineError: the engine is dead.
            RewardError: the scorer gave no reward, or raised this; or no group has ever had
                a reward, of as many as a batch has.
            ConfigError: n < 1, a step that decreases, or a scorer's processes that do not start.
        """
        if (n := operator.index(n)) < 1:
            raise ConfigError(f"fill needs n >= 1, not {n}")
        if self._is_closed:
            raise FillError(f"step {step + 1} cannot be filled: the filler is closed")
        if self._is_filling:
            raise FillError(
                f"step {step + 1} cannot be filled: another fill is under way: await one at a time"
            )
        self._is_filling = True
        self._fill.begin(n, step)
        deadline = asyncio.get_running_loop().time() + self.max_seconds
        continues = self.max_staleness > 0
        try:
            await self._drop_stale()
            reason = await self._work(deadline)
        except EngineError:
            continues = False  # a dead engine will not finish what is in flight
            raise
        finally:
            try:
                # every ticket is settled before anything is awaited: a second cancellation arrives at an
                # await
                release(self.curriculum, self._fill.release())
                # queued groups have cost nothing: the next fill draws afresh, with what was learned until
                # then
                while self._drawn:
                    self._settler.drop(self._drawn.popleft(), "cancelled")
                if not continues:
                    self._unspent = 0
                    await self._cancel(self._all())
            finally:
                self._is_filling = False
        # the batch is put together last: after an error above, `_fill` keeps its groups for the next batch
        return self._batch(reason)

    async def close(self) -> None:
        """Cancel what is in flight and drop its tickets, so that the curriculum can be saved.

        Nothing is filled after this.

        Raises:
            FillError: a fill is under way.
        """
        if self._is_filling:
            raise FillError("the filler cannot close while it fills: cancel the fill first")
        self._is_closed = True
        try:
            await self._cancel(self._all())
        finally:
            self._scorer.close()

    def metrics(self) -> dict[str, float]:
        """The counts of the latest fill, and what the filler holds now, a flat dict."""
        sizes = {"in_flight": self.in_flight, "waiting": self.waiting, "kept": self.kept}
        return self._batch_counts.metrics() | {
            f"fill/{name}": float(number) for name, number in sizes.items()
        }

    @property
    def _batch_counts(self) -> Counts:
        return cast(Counts, self._fill.batch_counts)

    async def _work(self, deadline: float) -> str:
        """Settle groups until the batch is full or nothing is left to wait for.

        Returns:
            "seconds" where the time ran out, else an empty string: `Fill.reason` knows everything else.
        """
        tasks, loop = self._tasks, asyncio.get_running_loop()
        while self._fill.missing:
            self._look()
            # groups are settled one by one, before others are started: each verdict changes the next draw
            if tasks.ended:
                self._settler.settle(tasks.ended.popleft())
            elif loop.time() >= deadline:
                return "seconds"
            else:
                self._extend_groups()
                await self._start_groups()
                if not tasks.running and not tasks.ended:
                    break
                if not tasks.ended:
                    await tasks.wait(deadline)
        return ""

    async def _start_groups(self) -> None:
        """Start a group in every free slot, until the fill allows no more or a group has ended meanwhile."""
        tasks = self._tasks
        while len(tasks.running) < self.max_in_flight and not tasks.ended and not self._fill.reason:
            if self.curriculum.allocation.looks_first and not self._drawn and self._fill.in_flight:
                return  # groups are looked at together, so the next are drawn when these have ended
            if not self._drawn:
                await self._draw()
            if not self._drawn:
                return  # the prompts of the batch have run out
            group = self._drawn.popleft()
            tasks.start(group, *self._named(group))
            self._unspent += self.rollouts_per_prompt - group.size

    async def _draw(self) -> None:
        """Draw prompts from the curriculum, none where those of the batch have run out.

        A method that asks the policy may wait as long for its answer as for rollouts. So it chooses in a
        thread of its own, while groups go on. No group is settled meanwhile: the draw is the same as without
        a thread.
        """
        if PolicyUse.ASKED not in self.curriculum.selection.policy_use:
            self._queue(self._select())
            return
        drawing = asyncio.ensure_future(asyncio.to_thread(self._select))
        try:
            await wait_for_all([drawing])
        except asyncio.CancelledError:
            if drawing.exception() is None:  # its tickets are open, and have to be dropped
                self._queue(drawing.result())
            raise
        self._queue(drawing.result())

    def _select(self) -> Draw | None:
        fill, allocation = self._fill, self.curriculum.allocation
        n, rollouts = 1, None
        if allocation.looks_first:  # as many as the batch lacks, which are looked at together
            n = int(min(fill.missing, max(fill.untried, 1)))
        elif self.curriculum.has_allocation and allocation.needs_budget:
            # a budget is divided over many prompts at once; over one prompt there is nothing to divide
            n = int(max(1, min(fill.n, fill.untried)))
            rollouts = n * self.rollouts_per_prompt
        try:
            return select_unseen(self.curriculum, fill, n, step=fill.step, rollouts=rollouts)
        except ExhaustedError:
            return None

    def _queue(self, draw: Draw | None) -> None:
        if draw is None:
            return
        equal_sizes = [self.rollouts_per_prompt] * len(draw)
        sizes = draw.rollouts.tolist() if self.curriculum.has_allocation else equal_sizes
        rows = zip(draw.prompts.tolist(), draw.tickets.tolist(), sizes, strict=True)
        is_probe = self.curriculum.allocation.looks_first
        self._drawn += [Group(prompt, ticket, draw.step, size, is_probe) for prompt, ticket, size in rows]

    def _extend_groups(self) -> None:
        """Ask for the further rollouts of groups that were looked at, in free slots."""
        tasks = self._tasks
        for group in [group for group in tasks.probed if group.further]:
            if len(tasks.running) >= self.max_in_flight:
                return
            tasks.probed.remove(group)
            tasks.start(group, *self._named(group))

    def _named(self, group: Group) -> tuple[Prompt, str]:
        """The group's prompt, and its key for messages."""
        try:
            return self.prompts(group.prompt), self.curriculum.table.key(group.prompt)
        except BaseException:
            self._settler.drop(group, "failed")
            raise

    def _look(self) -> None:
        """Once all groups are probed, divide the rest of the budget among some of them, and end the others.

        A group whose rewards the curriculum refuses ends too: settling it raises the error.
        """
        tasks = self._tasks
        groups = [group for group in tasks.probed if group.is_probe]
        is_drawn = bool(self._drawn) and not self._fill.reason
        if not groups or is_drawn or any(group.is_probe for group in tasks.running):
            return
        unspent, self._unspent = max(self._unspent, 0), 0
        further_P = np.zeros(len(groups), np.int64)
        with suppress(RewardError):
            further_P = self.curriculum.more(**feedback_on(groups).arguments(), rollouts=unspent)
        for group, further in zip(groups, further_P.tolist(), strict=True):
            group.is_probe, group.further = False, further
            if not further:
                tasks.probed.remove(group)
                tasks.ended.append(group)

    def _batch(self, reason: str) -> Batch:
        try:
            groups = self._fill.take(reason)
        except FillError as error:
            error.add_note(f"{self.kept} admitted groups are kept for the next fill")
            raise
        samples = self._settler.take_auxiliary()
        return Batch.of(groups, samples, self._batch_counts, self.curriculum.credit)

    async def _drop_stale(self) -> None:
        stale = set(self._fill.older_than(self.max_staleness))
        await self._cancel([group for group in self._all() if group.ticket in stale], "stale")

    def _all(self) -> list[Group]:
        return [*self._tasks.running, *self._tasks.probed, *self._tasks.ended]

    async def _cancel(self, groups: Iterable[Group], why: str = "cancelled") -> None:
        """Drop groups at once, and wait until the engine has stopped generating them."""
        groups = list(groups)
        tasks = self._tasks.cancel(groups)
        for group in groups:
            self._settler.drop(group, why)
        await wait_for_all(tasks)


def _check_from(lowest: int, **options: float) -> None:
    """Refuse numbers below the lowest one, and NaN."""
    for name, value in options.items():
        if not value >= lowest:
            raise ConfigError(f"{name} is a number from {lowest}, not {value}")


def _check_seconds(**options: float | None) -> None:
    """Refuse times that are not above 0; None stands for no limit."""
    for name, seconds in options.items():
        if seconds is not None and not seconds > 0:
            raise ConfigError(f"{name} is a number of seconds above 0, not {seconds}")
