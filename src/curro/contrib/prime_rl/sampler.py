"""A task sampler and an admission gate of prime-rl's kind, which ask one curriculum."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
from prime_rl.orchestrator.curriculum import AdmissionGate, TaskSampler

from curro.contrib.verifiers_tasks import conversation
from curro.core.curriculum import Curriculum
from curro.core.errors import CheckpointError, ConfigError
from curro.core.groups import Feedback
from curro.core.identity import digest_dataset


class Tasks:
    """The tasks of an environment as `Curriculum` takes a data set."""

    def __init__(self, tasks: Any) -> None:
        if not isinstance(tasks, Sequence):
            raise ConfigError("a curriculum chooses among tasks that can be counted: limit the taskset")
        self.keys = [task.key for task in tasks]
        if None in self.keys:
            raise ConfigError(f"task {self.keys.index(None)} of the taskset has no key: give every task one")
        self.rows = [_row(task.data) for task in tasks]
        self.fingerprint = digest_dataset(self.rows)[0]


def _row(data: Any) -> dict[str, Any]:
    """What a task's data has of a row; a text without a system prompt stays a text."""
    is_text = isinstance(data.prompt, str) and data.system_prompt is None
    prompt = data.prompt if is_text else conversation(data)
    return {"prompt": prompt, "answer": getattr(data, "answer", None)}


class CurriculumSampler(TaskSampler):
    """Draws one task after another, and reports the groups that prime-rl has finished.

    prime-rl does not report groups that it cancels or that grow too old. So at most `in_flight` tickets are
    open: the oldest is dropped for a new one, and nothing is learned from a group whose ticket was dropped,
    of which the first gives a warning. Where its task was drawn again meanwhile, such a group is known by the
    step that asked for it.

    Args:
        curriculum: over the tasks, in their order; one that was built from a bare number takes over their
            keys.
        tasks: one environment's.

    Raises:
        ConfigError: a curriculum of other tasks or in another order, or with a gate that admits no
            group by itself.

    Attributes:
        step: how many training steps have finished, to be set before a draw.
        in_flight: half of the tasks.
        is_admitted: whether the latest group that was observed is, for the gate.
    """

    def __init__(self, curriculum: Curriculum, tasks: Sequence[Any]) -> None:
        curriculum.check_rows(Tasks(tasks), "Tasks(tasks)")
        self.curriculum, self.tasks = curriculum, list(tasks)
        self.in_flight = max(1, len(self.tasks) // 2)
        self.step = 0
        self.is_admitted = True
        self._tickets: OrderedDict[int, tuple[str, int]] = OrderedDict()
        self._has_late_groups = False

    def __next__(self) -> Any:
        while len(self._tickets) >= self.in_flight:
            oldest, _ = self._tickets.popitem(last=False)
            self.curriculum.drop([oldest])
        draw = self.curriculum.select(1, step=self.step)
        task = self.tasks[int(draw.prompts[0])]
        self._tickets[int(draw.tickets[0])] = task.key, self.step
        return task

    def observe(self, group: list[Any]) -> None:
        """Report the episodes of a finished group of one task; their trainable traces are its rollouts."""
        drawn = group[0].task.key, group[0].run.work.step - 1
        ticket = next((ticket for ticket, other in self._tickets.items() if other == drawn), None)
        self.is_admitted = False
        if ticket is None:
            self._warn_of_late_group()
            return
        rewards_G = np.array(
            [
                np.nan if trace.has_error else float(trace.reward)
                for episode in group
                for trace in episode.traces
                if trace.agent.trainable
            ]
        )
        del self._tickets[ticket]
        # an episode that failed before its first trace is a rollout without a reward
        feedback = Feedback.of_group(ticket, rewards_G if len(rewards_G) else np.full(len(group), np.nan), {})
        verdict = self.curriculum.observe(**feedback.arguments())
        self.is_admitted = bool(verdict.admitted[0])

    def _warn_of_late_group(self) -> None:
        if not self._has_late_groups:
            warnings.warn(
                f"a group came back after its ticket was dropped, and nothing is learned from it, because "
                f"{self.in_flight} of the environment's {len(self.tasks)} tasks are the most that a "
                "curriculum has in flight: where that happens often, lower prime-rl's concurrency, or take "
                "more tasks",
                UserWarning,
                stacklevel=3,
            )
        self._has_late_groups = True

    def state_dict(self) -> dict[str, Any]:
        return {"curriculum": self.curriculum.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue; tasks that were in flight are free again, because prime-rl gives them out anew.

        Raises:
            CheckpointError: the state of another sampler, of other tasks or settings.
        """
        if "curriculum" not in state_dict:
            raise CheckpointError(
                "the checkpoint was saved with another sampler than curro's: resume with that one, "
                "or start a new run"
            )
        self.curriculum.load_state_dict(state_dict["curriculum"])
        self.step = self.curriculum.step
        self.curriculum.drop(self.curriculum.ledger.tickets)
        self._tickets.clear()

    def metrics(self) -> dict[str, float]:
        return self.curriculum.metrics()


class CurriculumGate(AdmissionGate):
    """Admits what the curriculum admits; prime-rl asks it right after `CurriculumSampler.observe`.

    A group whose ticket was dropped is not trained on: the curriculum has not learned from it either.
    """

    def __init__(self, sampler: CurriculumSampler) -> None:
        self.sampler = sampler

    def admit(self, group: list[Any]) -> bool:
        return self.sampler.is_admitted
