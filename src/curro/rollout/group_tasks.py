"""One group's way from a prompt to a verdict: generated and scored in a task of its own, then settled."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from curro.core.curriculum import Curriculum
from curro.core.errors import ConfigError, CurroError, EngineError, FillError, PromptError, RewardError
from curro.core.groups import MissingRewards
from curro.core.policy import AuxiliarySamples
from curro.rollout.engines.engine import Engine, Prompt, Rollout
from curro.rollout.fill import Fill
from curro.rollout.group import Counts, Group, GroupFailed, GroupUnscored, feedback_on
from curro.rollout.scoring import Scorer, read_scores


class GroupTasks:
    """Generates and scores groups, each in an asyncio task of its own.

    Args:
        engine, scorer, weights: what generates, what scores, and what named rewards are multiplied by.
        counts: where requests, retries and failures are counted.
        least: how many good rollouts a group needs; None: half of them, and at least 2.
        retries: how often missing rollouts are asked for again.
        timeout: seconds that one request to the engine may take.

    Attributes:
        running: the tasks of groups that are being generated or scored.
        probed: groups that have their first rewards, and wait for the allocation to look at all of them or,
            after that, for a slot.
        ended: groups that have rewards or an error and wait to be settled, in the order in which they ended.
    """

    def __init__(
        self,
        engine: Engine,
        scorer: Scorer,
        weights: Mapping[str, float] | None,
        counts: Counts,
        *,
        least: int | None,
        retries: int,
        timeout: float | None,
    ) -> None:
        self.engine, self.scorer, self.weights, self.counts = engine, scorer, weights, counts
        self.least, self.retries, self.timeout = least, retries, timeout
        self.running: dict[Group, asyncio.Task[None]] = {}
        self.probed: list[Group] = []
        self.ended: deque[Group] = deque()
        self._woken: asyncio.Future[None] | None = None

    def start(self, group: Group, prompt: Prompt, key: str) -> None:
        """Start a task for a group's rollouts, or for the further ones that the allocation gave it.

        When the task has ended, the group is appended to `probed` if it is yet to be looked at, else to
        `ended`.
        """
        n, group.further = group.further or group.size, 0
        self._count_requested(group, n)
        task = asyncio.get_running_loop().create_task(self._run(group, n, prompt, key))
        self.running[group] = task
        task.add_done_callback(lambda task: self._end(group, task))

    async def wait(self, deadline: float) -> None:
        """Wait until a group ends, but no longer than until this time of the event loop."""
        self._woken = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout_at(deadline if math.isfinite(deadline) else None):
                await self._woken
        except TimeoutError:
            pass
        finally:
            self._woken = None

    def cancel(self, groups: Iterable[Group]) -> list[asyncio.Task[None]]:
        """Forget groups at once and cancel their tasks, which are returned: they take a while to end."""
        tasks = []
        for group in groups:
            if task := self.running.pop(group, None):
                task.cancel()
                tasks.append(task)
            elif group in self.probed:
                self.probed.remove(group)
            else:
                self.ended.remove(group)
        return tasks

    def _end(self, group: Group, task: asyncio.Task[None]) -> None:
        if group not in self.running:
            return  # it was cancelled, and its ticket is settled
        del self.running[group]
        if task.cancelled():
            group.error = GroupFailed("its generation or scoring was cancelled from outside")
        if group.is_probe and group.error is None:
            self.probed.append(group)
        else:
            self.ended.append(group)
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    async def _run(self, group: Group, n: int, prompt: Prompt, key: str) -> None:
        try:
            await self._extend(group, n, prompt, key)
        except Exception as error:
            # where further rollouts fail, the group is whole without them
            if not (isinstance(error, GroupFailed) and group.rollouts):
                group.error = error

    async def _extend(self, group: Group, n: int, prompt: Prompt, key: str) -> None:
        """Add n rollouts and their rewards to a group."""
        rollouts = await self._generate(group, n, prompt)
        good_G = np.array([rollout.error is None for rollout in rollouts])
        scores = await self.scorer(group.prompt, [rollout for rollout in rollouts if rollout.error is None])
        rewards_G, named = read_scores(scores, good_G, self.weights, key)
        if np.isnan(rewards_G).all():
            raise GroupUnscored("the scorer scored none of its rollouts")
        group.extend(rollouts, rewards_G, named)

    async def _generate(self, group: Group, n: int, prompt: Prompt) -> list[Rollout]:
        """n rollouts, of which at least `least` are good; failed ones are asked for again."""
        missing = list(range(n))
        least = min(n, max(2, -(-n // 2)) if self.least is None else self.least)
        rollouts = [Rollout("", error="not generated")] * n
        for attempt in range(1 + self.retries):
            if attempt:
                self.counts.retried += 1
                self._count_requested(group, len(missing))
            for i, rollout in zip(missing, await self._ask(prompt, len(missing)), strict=True):
                rollouts[i] = rollout
            missing = [i for i in missing if rollouts[i].error is not None]
            self.counts.failed_rollouts += len(missing)
            good = n - len(missing)
            if good >= least:
                return rollouts
        raise GroupFailed(
            f"{good} of {n} rollouts were generated and {least} are needed; "
            f"the engine's last error: {rollouts[missing[-1]].error}"
        )

    def _count_requested(self, group: Group, n: int) -> None:
        self.counts.rollouts += n
        group.requested += n

    async def _ask(self, prompt: Prompt, n: int) -> list[Rollout]:
        """n rollouts of a prompt: what the engine does not deliver is a failed rollout that says why.

        Raises:
            EngineError, PromptError: the engine raised it, and asking again would be no use.
        """
        try:
            async with asyncio.timeout(self.timeout) as limit:
                rollouts = list(await self.engine.generate(prompt, n))[:n]
            for rollout in rollouts:
                if not isinstance(rollout, Rollout):
                    raise TypeError(f"the engine returned {rollout!r:.80}, not a Rollout")
            why = f"the engine returned {len(rollouts)} of {n} rollouts"
        except EngineError:
            raise
        except PromptError:
            self.counts.failed_rollouts += n
            raise
        except Exception as error:
            late = isinstance(error, TimeoutError) and limit.expired()
            why = f"no answer in {self.timeout} s" if late else f"{type(error).__name__}: {error}"
            rollouts = []
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            # the engine has swallowed the cancellation, and this group must not be scored any more
            raise asyncio.CancelledError
        return rollouts + [Rollout("", error=why)] * (n - len(rollouts))


async def wait_for_all(tasks: Collection[asyncio.Task[Any]]) -> None:
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


class Settler:
    """Reports to the curriculum and to the fill what became of each group.

    Args:
        curriculum, fill, counts: the filler's.
        max_failures: how many groups may fail in a row before that is an error.
    """

    def __init__(
        self, curriculum: Curriculum, fill: Fill[Group], counts: Counts, *, max_failures: int
    ) -> None:
        self.curriculum, self.fill, self.counts = curriculum, fill, counts
        self.max_failures = max_failures
        self._missing_rewards = MissingRewards()
        self._auxiliary_samples: list[AuxiliarySamples] = []

    def settle(self, group: Group) -> None:
        """Observe or drop a group that has ended.

        Raises:
            EngineError, RewardError, ConfigError: the error that ended the group is one of these, which no
                other prompt would mend.
            RewardError: as many groups as a batch has have no reward, and none before them had one.
            FillError: too many groups in a row failed.
        """
        if group.error is None:
            self._observe(group)
        else:
            self.drop(group, "failed")
        if group.error is None:
            return
        try:
            self._check(group, group.error)
        except CurroError as error:
            error.add_note(f"{len(self.fill.admitted)} admitted groups are kept for the next fill")
            raise

    def drop(self, group: Group, why: str) -> None:
        """Give a group up and drop its ticket; `why` is "failed", "stale" or "cancelled"."""
        self.fill.mark_failed(group.ticket, why)
        self.counts.wasted_rollouts += group.requested
        release(self.curriculum, [group.ticket])

    def take_auxiliary(self) -> tuple[AuxiliarySamples, ...]:
        """The auxiliary samples of the groups that were observed since this was last called."""
        samples, self._auxiliary_samples = tuple(self._auxiliary_samples), []
        return samples

    def _check(self, group: Group, error: Exception) -> None:
        """Raise what has to end the fill, after this error of a group."""
        if isinstance(error, GroupUnscored) and not self.curriculum.ledger.observed:
            self._missing_rewards.count(feedback_on([group]), self.fill.n)
        if isinstance(error, EngineError | RewardError | ConfigError):
            raise error
        if self.fill.failures >= self.max_failures:
            key = self.curriculum.table.key(group.prompt)
            raise FillError(
                f"step {self.fill.step + 1} cannot be filled: {self.fill.failures} groups in a row failed; "
                f"the last, prompt {key!r}: {error}"
            ) from error

    def _observe(self, group: Group) -> None:
        """Report a group's rewards to the curriculum, and the verdict to the group and to the fill."""
        feedback = feedback_on([group])
        try:
            verdict = self.curriculum.observe(**feedback.arguments())
        except BaseException:
            self.drop(group, "failed")
            raise
        self.fill.settle(feedback, verdict, [group])
        if verdict.dropped[0]:
            group.error = GroupUnscored("no rollout has the part of the reward that is the signal")
            self.counts.wasted_rollouts += group.requested
            return
        group.verdict = verdict
        answered = sum(rollout.error is None for rollout in group.rollouts)
        self.counts.wasted_rollouts += group.requested - answered
        if verdict.auxiliary_samples is not None:
            self._auxiliary_samples.append(verdict.auxiliary_samples)


def release(curriculum: Curriculum, tickets: Iterable[int]) -> None:
    """Drop tickets, except settled ones."""
    tickets_P = np.array(list(tickets), np.int64)
    tickets_P = tickets_P[np.isin(tickets_P, curriculum.ledger.tickets)]
    if len(tickets_P):
        curriculum.drop(tickets_P)
