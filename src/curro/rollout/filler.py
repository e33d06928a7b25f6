"""Fills batches of admitted groups from an engine, many groups at a time: the asyncio driver.

`curro.rollout.fill.Fill` says when a batch is full, and counts.
"""

from __future__ import annotations

import asyncio
import math
import operator
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from numbers import Integral, Real
from typing import Any, Self, cast

import numpy as np

from curro.core.curriculum import Curriculum
from curro.core.errors import ConfigError, CurroError, EngineError, ExhaustedError, FillError, RewardError
from curro.core.groups import MissingRewards
from curro.core.policy import AuxiliarySamples
from curro.reward.workers.child import describe
from curro.rollout.engines.engine import Engine, Prompt, Rollout
from curro.rollout.fill import Fill, FillSettings, release, select_unseen
from curro.rollout.group import Batch, Counts, Group, GroupFailed, GroupUnscored, feedback_on
from curro.rollout.scoring import ScoreFunction, Scorer, read_scores

MOST_FAILURES = 32
"""A fill ends with an error when so many groups in a row have failed."""


class Filler:
    """Keeps an engine busy until a batch has its admitted groups.

    "Online Difficulty Filtering for Reasoning Oriented RL", algorithm 1 and appendix B: up to C_max groups
    are generated at a time. A group that ends is scored, observed by the curriculum and replaced by the next
    prompt; once N groups are admitted, the rest are cancelled. A prompt is generated at most once for a
    batch. Which prompts are drawn depends on the order in which groups end, and on no clock.

    The filler settles every ticket that it draws. The caller closes the engine.

    Args:
        curriculum: draws the prompts and says which groups are admitted.
        engine: generates the rollouts. A group fails where fewer than half of its rollouts are good, or
            fewer than two.
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

    Raises:
        ConfigError: an option is out of range.
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
    ) -> None:
        numbers = (rollouts_per_prompt, max_in_flight, max_staleness)
        if not all(
            isinstance(n, Integral) and n >= least for n, least in zip(numbers, (1, 1, 0), strict=True)
        ):
            raise ConfigError(
                "rollouts_per_prompt and max_in_flight are whole numbers from 1, max_staleness from 0, not "
                f"{rollouts_per_prompt}, {max_in_flight} and {max_staleness}"
            )
        factors = list(weights.values()) if isinstance(weights, Mapping) else []
        if weights is not None and not (factors and all(map(_is_finite, factors))):
            raise ConfigError(f"weights are finite numbers by the names of rewards, not {weights!r:.80}")
        if curriculum.allocation.looks_first and curriculum.allocation.first > rollouts_per_prompt:
            raise ConfigError(
                f"the allocation gives each prompt {curriculum.allocation.first} rollouts at first, more "
                f"than rollouts_per_prompt, {rollouts_per_prompt}"
            )
        self.curriculum, self.engine, self.prompts, self.weights = curriculum, engine, prompts, weights
        self.rollouts_per_prompt, self.max_in_flight = rollouts_per_prompt, max_in_flight
        self.max_staleness = max_staleness
        self.counts = Counts()
        self._fill: Fill[Group] = Fill(fill, size=curriculum.table.size, counts=self.counts)
        self._scorer = Scorer(score)
        self._drawn: deque[Group] = deque()
        self._running: dict[Group, asyncio.Task[None]] = {}
        # groups with their first rewards, which the allocation has yet to look at, or which wait for a slot
        self._probed: list[Group] = []
        self._ended: deque[Group] = deque()  # groups with rewards or an error, which wait to be settled
        self._woken = asyncio.Event()
        self._unspent = 0  # what probed groups have left of the budget
        self._missing_rewards = MissingRewards()
        self._auxiliary_samples: list[AuxiliarySamples] = []
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
        return len(self._ended)

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
            FillError: prompts ran out, or the limit was reached; too many groups in a row failed;
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
        try:
            await self._gather(n, step)
            groups = self._fill.take()
        except CurroError as error:
            error.add_note(f"{self.kept} admitted groups are kept for the next fill")
            raise
        samples, self._auxiliary_samples = tuple(self._auxiliary_samples), []
        return Batch.of(groups, samples, self._batch_counts, self.curriculum.credit)

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

    async def _gather(self, n: int, step: int) -> None:
        """Settle groups until the batch is full or no more may be given out; leave none behind."""
        self._is_filling = True
        self._fill.begin(n, step)
        continues = self.max_staleness > 0
        try:
            stale = set(self._fill.older_than(self.max_staleness))
            await self._cancel([group for group in self._all() if group.ticket in stale], "stale")
            await self._work()
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
                    self._drop(self._drawn.popleft(), "cancelled")
                if not continues:
                    self._unspent = 0
                    await self._cancel(self._all())
            finally:
                self._is_filling = False

    async def _work(self) -> None:
        while self._fill.missing:
            self._look()
            # groups are settled one by one, before others are started: each verdict changes the next draw
            if self._ended:
                self._settle(self._ended.popleft())
                continue
            self._extend_groups()
            self._start_groups()
            if not self._running:
                return
            self._woken = asyncio.Event()
            await self._woken.wait()

    # ------------------------------ what is drawn ------------------------------

    def _start_groups(self) -> None:
        """Start a group in every free slot, until the fill allows no more."""
        while len(self._running) < self.max_in_flight and not self._fill.reason:
            if self.curriculum.allocation.looks_first and not self._drawn and self._fill.in_flight:
                return  # groups are looked at together, so the next are drawn when these have ended
            if not self._drawn:
                self._draw()
            if not self._drawn:
                return  # the prompts of the batch have run out
            group = self._drawn.popleft()
            self._start(group)
            self._unspent += self.rollouts_per_prompt - group.size

    def _draw(self) -> None:
        """Draw prompts from the curriculum, none where those of the batch have run out."""
        fill, allocation = self._fill, self.curriculum.allocation
        n, rollouts = 1, None
        if allocation.looks_first:  # as many as the batch lacks, which are looked at together
            n = int(min(fill.missing, max(fill.untried, 1)))
        elif self.curriculum.has_allocation and allocation.needs_budget:
            # a budget is divided over many prompts at once; over one prompt there is nothing to divide
            n = int(max(1, min(fill.n, fill.untried)))
            rollouts = n * self.rollouts_per_prompt
        try:
            draw = select_unseen(self.curriculum, fill, n, step=fill.step, rollouts=rollouts)
        except ExhaustedError:
            return
        equal_sizes = [self.rollouts_per_prompt] * len(draw)
        sizes = draw.rollouts.tolist() if self.curriculum.has_allocation else equal_sizes
        rows = zip(draw.prompts.tolist(), draw.tickets.tolist(), sizes, strict=True)
        is_probe = self.curriculum.allocation.looks_first
        self._drawn += [Group(prompt, ticket, draw.step, size, is_probe) for prompt, ticket, size in rows]

    def _look(self) -> None:
        """Once all groups are probed, divide the rest of the budget among some of them, and end the others.

        A group whose rewards the curriculum refuses ends too: settling it raises the error.
        """
        groups = [group for group in self._probed if group.is_probe]
        is_drawn = bool(self._drawn) and not self._fill.reason
        if not groups or is_drawn or any(group.is_probe for group in self._running):
            return
        unspent, self._unspent = max(self._unspent, 0), 0
        further_P = np.zeros(len(groups), np.int64)
        with suppress(RewardError):
            further_P = self.curriculum.more(**feedback_on(groups).arguments(), rollouts=unspent)
        for group, further in zip(groups, further_P.tolist(), strict=True):
            group.is_probe, group.further = False, further
            if not further:
                self._probed.remove(group)
                self._ended.append(group)

    def _extend_groups(self) -> None:
        """Ask for the further rollouts of groups that were looked at, in free slots."""
        for group in [group for group in self._probed if group.further]:
            if len(self._running) >= self.max_in_flight:
                return
            self._probed.remove(group)
            self._start(group)

    # ------------------------------ a group's rollouts ------------------------------

    def _start(self, group: Group) -> None:
        """Start a task for a group's rollouts, or for the further ones that the allocation gave it."""
        try:
            prompt, key = self.prompts(group.prompt), self.curriculum.table.key(group.prompt)
        except BaseException:
            self._drop(group, "failed")
            raise
        n, group.further = group.further or group.size, 0
        group.requested += n
        self.counts.rollouts += n
        task = asyncio.get_running_loop().create_task(self._run(group, n, prompt, key))
        self._running[group] = task
        task.add_done_callback(lambda task: self._end(group, task))

    def _end(self, group: Group, task: asyncio.Task[None]) -> None:
        if group not in self._running:
            return  # it was cancelled, and its ticket is settled
        del self._running[group]
        if task.cancelled():
            group.error = GroupFailed("its generation or scoring was cancelled from outside")
        if group.is_probe and group.error is None:
            self._probed.append(group)
        else:
            self._ended.append(group)
        self._woken.set()

    async def _run(self, group: Group, n: int, prompt: Prompt, key: str) -> None:
        try:
            await self._extend(group, n, prompt, key)
        except Exception as error:
            # where further rollouts fail, the group is whole without them
            if not (isinstance(error, GroupFailed) and group.rollouts):
                group.error = error

    async def _extend(self, group: Group, n: int, prompt: Prompt, key: str) -> None:
        """Add n rollouts and their rewards to a group."""
        rollouts = await ask(self.engine, prompt, n)
        good_G = np.array([rollout.error is None for rollout in rollouts])
        good, least = int(good_G.sum()), min(n, max(2, -(-n // 2)))
        self.counts.failed_rollouts += n - good
        if good < least:
            errors = [rollout.error for rollout in rollouts if rollout.error is not None]
            raise GroupFailed(
                f"{good} of {n} rollouts were generated and {least} are needed; "
                f"the engine's last error: {errors[-1]}"
            )
        scores = await self._scorer(group.prompt, [rollout for rollout in rollouts if rollout.error is None])
        rewards_G, named = read_scores(scores, good_G, self.weights, key)
        if np.isnan(rewards_G).all():
            raise GroupUnscored("the scorer scored none of its rollouts")
        group.extend(rollouts, rewards_G, named)

    def _all(self) -> list[Group]:
        return [*self._running, *self._probed, *self._ended]

    async def _cancel(self, groups: Collection[Group], why: str = "cancelled") -> None:
        """Drop groups at once, and wait until the engine has stopped generating them."""
        tasks = []
        for group in groups:
            if task := self._running.pop(group, None):
                task.cancel()
                tasks.append(task)
            elif group in self._probed:
                self._probed.remove(group)
            else:
                self._ended.remove(group)
        for group in groups:
            self._drop(group, why)
        await wait_for_all(tasks)

    # ------------------------------ what becomes of a group ------------------------------

    def _settle(self, group: Group) -> None:
        """Observe or drop a group that has ended, and raise what has to end the fill."""
        if group.error is None:
            self._observe(group)
        else:
            self._drop(group, "failed")
        error = group.error
        if isinstance(error, GroupUnscored) and not self.curriculum.ledger.observed:
            self._missing_rewards.count(feedback_on([group]), self._fill.n)
        if isinstance(error, EngineError | RewardError | ConfigError):
            raise error
        if error is None:
            return
        self._fill.last_failure = f"prompt {self.curriculum.table.key(group.prompt)!r}: {error}"
        if self._fill.failures >= MOST_FAILURES:
            raise FillError(
                f"step {self._fill.step + 1} cannot be filled: {self._fill.failures} groups in a row failed; "
                f"the last, {self._fill.last_failure}"
            ) from error

    def _observe(self, group: Group) -> None:
        """Report a group's rewards to the curriculum, and the verdict to the group and to the fill."""
        feedback = feedback_on([group])
        try:
            verdict = self.curriculum.observe(**feedback.arguments())
        except BaseException:
            self._drop(group, "failed")
            raise
        self._fill.settle(feedback, verdict, [group])
        if verdict.dropped[0]:
            group.error = GroupUnscored("no rollout has the part of the reward that is the signal")
            self.counts.wasted_rollouts += group.requested
            return
        group.verdict = verdict
        answered = sum(rollout.error is None for rollout in group.rollouts)
        self.counts.wasted_rollouts += group.requested - answered
        if verdict.auxiliary_samples is not None:
            self._auxiliary_samples.append(verdict.auxiliary_samples)

    def _drop(self, group: Group, why: str) -> None:
        """Give a group up and drop its ticket; `why` is "failed", "stale" or "cancelled"."""
        self._fill.mark_failed(group.ticket, why)
        self.counts.wasted_rollouts += group.requested
        is_unscored = why == "failed" and isinstance(group.error, GroupUnscored)
        release(self.curriculum, [group.ticket], "unscored" if is_unscored else why)


def _is_finite(number: Any) -> bool:
    return isinstance(number, Real) and math.isfinite(number)


async def ask(engine: Engine, prompt: Prompt, n: int) -> list[Rollout]:
    """n rollouts of a prompt: what the engine does not deliver is a failed rollout that says why.

    Raises:
        EngineError: the engine raised it, and asking again would be no use.
    """
    try:
        rollouts = list(await engine.generate(prompt, n))[:n]
        for rollout in rollouts:
            if not isinstance(rollout, Rollout):
                raise TypeError(f"the engine returned {rollout!r:.80}, not a Rollout")
        why = f"the engine returned {len(rollouts)} of {n} rollouts"
    except EngineError:
        raise
    except Exception as error:
        rollouts, why = [], describe(error)
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        # the engine has swallowed the cancellation, and this group must not be scored any more
        raise asyncio.CancelledError
    return rollouts + [Rollout("", error=why)] * (n - len(rollouts))


async def wait_for_all(tasks: Collection[asyncio.Future[Any]]) -> None:
    """Wait until all tasks have ended, even if the wait itself is cancelled, once or more often.

    When a fill returns, its model is trained: no engine may still be generating with it.

    Raises:
        CancelledError: the wait was cancelled, and all tasks have ended.
    """
    cancelled: asyncio.CancelledError | None = None
    while running := [task for task in tasks if not task.done()]:
        try:
            await asyncio.wait(running)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
