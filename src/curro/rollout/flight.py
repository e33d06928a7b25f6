"""The groups in flight: generated with retries, scored, and cancelled, each by a task of its own."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np

from curro.errors import EngineError, PromptError
from curro.rollout.engine import Engine, Prompt, Rollout
from curro.rollout.group import Counts, Group, GroupFailed
from curro.rollout.scores import read_scores
from curro.rollout.scoring import Scorer


class Flight:
    """Brings groups from their prompts to their rewards.

    Args:
        engine, scorer, weights: what generates, what scores, and how named rewards are summed.
        counts: what is asked, retried, lost and busy is counted here.
        rollouts_per_prompt: G.
        slots: how many groups the engine is to have at a time; for the count of busy seconds.
        least: a group is scored once so many of its rollouts are good.
        retries: how often missing rollouts are asked for again.
        timeout: seconds for one request to the engine.

    Attributes:
        running: groups that are being generated or scored.
        ended: groups that have rewards or an error, in the order they ended.
        budget: how many rollouts may still be asked of the engine.
    """

    def __init__(
        self,
        engine: Engine,
        scorer: Scorer,
        weights: Mapping[str, float] | None,
        counts: Counts,
        *,
        rollouts_per_prompt: int,
        slots: int,
        least: int,
        retries: int,
        timeout: float | None,
    ) -> None:
        self.engine, self.scorer, self.weights, self.counts = engine, scorer, weights, counts
        self.rollouts_per_prompt, self.slots = rollouts_per_prompt, slots
        self.least, self.retries, self.timeout = least, retries, timeout
        self.running: dict[Group, asyncio.Task[None]] = {}
        self.ended: deque[Group] = deque()
        self.budget = math.inf
        self._woken: asyncio.Future[None] | None = None
        self._since: float | None = None

    def launch(self, group: Group, prompt: Prompt, key: str) -> None:
        """Start a group; it stands in `ended` when it has ended."""
        self._count_seconds()
        self._count_asked(group, self.rollouts_per_prompt)
        task = asyncio.get_running_loop().create_task(self._fly(group, prompt, key))
        self.running[group] = task
        task.add_done_callback(lambda task: self._land(group, task))

    async def wait(self, until: float) -> None:
        """Wait for a group to end, at longest until this time of the event loop."""
        self._woken = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout_at(until if math.isfinite(until) else None):
                await self._woken
        except TimeoutError:
            pass
        finally:
            self._woken = None

    def cancel(self, groups: Sequence[Group]) -> list[asyncio.Task[None]]:
        """Stop groups and forget them at once; returns the tasks that come to an end."""
        self._count_seconds()
        tasks = []
        for group in groups:
            if task := self.running.pop(group, None):
                task.cancel()
                tasks.append(task)
            else:
                self.ended.remove(group)
        return tasks

    def count_seconds(self, on: bool) -> None:
        """Begin or end to count the seconds of busy and of all slots."""
        self._count_seconds()
        self._since = asyncio.get_running_loop().time() if on else None

    def _count_seconds(self) -> None:
        if self._since is not None:
            now = asyncio.get_running_loop().time()
            self.counts.busy_seconds += len(self.running) * (now - self._since)
            self.counts.slot_seconds += self.slots * (now - self._since)
            self._since = now

    def _land(self, group: Group, task: asyncio.Task[None]) -> None:
        if group not in self.running:
            return
        self._count_seconds()
        del self.running[group]
        if task.cancelled():
            group.error = GroupFailed("its generation or scoring was cancelled from outside")
        self.ended.append(group)
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    async def _fly(self, group: Group, prompt: Prompt, key: str) -> None:
        try:
            await self._generate(group, prompt)
            good_G = np.array([rollout.error is None for rollout in group.rollouts])
            good = [rollout for rollout in group.rollouts if rollout.error is None]
            scores = await self.scorer(group.prompt, good)
            group.rewards, group.scored, group.named = read_scores(scores, good_G, self.weights, key)
            if not group.scored.any():
                raise GroupFailed("the scorer scored none of its rollouts")
        except Exception as error:
            group.error = error

    async def _generate(self, group: Group, prompt: Prompt) -> None:
        missing = list(range(self.rollouts_per_prompt))
        group.rollouts = [Rollout("", error="not generated")] * len(missing)
        for attempt in range(1 + self.retries):
            if attempt:
                if len(missing) > self.budget:
                    break
                self.counts.retried += 1
                self._count_asked(group, len(missing))
            for place, rollout in zip(missing, await self._ask(prompt, len(missing)), strict=True):
                group.rollouts[place] = rollout
            missing = [place for place in missing if group.rollouts[place].error is not None]
            self.counts.failed_rollouts += len(missing)
            good = self.rollouts_per_prompt - len(missing)
            if good >= self.least:
                return
        raise GroupFailed(
            f"{good} of {self.rollouts_per_prompt} rollouts were generated and {self.least} are needed; "
            f"the engine's last error: {group.rollouts[missing[-1]].error}"
        )

    def _count_asked(self, group: Group, n: int) -> None:
        self.budget -= n
        self.counts.rollouts += n
        group.asked += n

    async def _ask(self, prompt: Prompt, n: int) -> list[Rollout]:
        """n rollouts of a prompt, whatever the engine does.

        Raises:
            EngineError, PromptError: the engine raised it, and to ask again is no use.
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
            raise asyncio.CancelledError  # the engine has swallowed it
        return rollouts + [Rollout("", error=why)] * (n - len(rollouts))
