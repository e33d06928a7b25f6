"""Writes down what happens in a run, evaluates on the way, and stops cleanly when asked to."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState

from curro.core.curriculum import Curriculum
from curro.hosts.trl.observe import GroupRecord
from curro.runs.folder import RunFolder
from curro.runs.reader import read_history
from curro.runs.report.advice import advise
from curro.runs.writer import Clock, KeepRollouts, RunWriter
from curro.training.settings import TrainSettings

FIRST_LOOK = 20
"""Steps after which the run folder is read for advice; each further look comes after twice as many."""


class Recorder(TrainerCallback):
    """A line of metrics a step, a line a group, an evaluation every `eval_every` rollouts.

    Time spent evaluating and saving is not counted in `seconds` and `cpu_seconds`.

    Attributes:
        stopping: set to have the run end after the step, with a checkpoint.
        step: the last finished one.
        has_begun: the run's state is loaded, so the prompt table has the rows of the folder's lines.
        between_steps: it is written down and nothing was observed since, so that a checkpoint belongs to it.

    Args:
        evaluate: held-out accuracy of the model as it is, by name; None for no evaluation.
        on_evaluated, on_step: hear every line of metrics with an evaluation, and every line.
        host_metrics: further metrics of every step.
    """

    def __init__(
        self,
        folder: RunFolder,
        curriculum: Curriculum,
        settings: TrainSettings,
        *,
        evaluate: Callable[[], dict[str, float]] | None,
        on_evaluated: Callable[[dict[str, Any]], None] | None = None,
        on_step: Callable[[dict[str, Any]], None],
        say: Callable[[str], None] = lambda sentence: None,
        host_metrics: Callable[[], dict[str, float]] = dict,
    ) -> None:
        self.folder, self.curriculum, self.on_step, self.say = folder, curriculum, on_step, say
        self.evaluate, self.on_evaluated, self.host_metrics = evaluate, on_evaluated, host_metrics
        self.settings, self.eval_every = settings, settings.eval_every * settings.rollouts_per_step
        self.stopping = self.between_steps = self.has_begun = False
        self._process = os.getpid()
        self.step = 0
        keep = KeepRollouts(settings.keep_rollouts, settings.keep_megabytes)
        self.writer = RunWriter(folder, curriculum.table, keep, clock=Clock())
        self.evaluated = 0
        self._next_look, self._said = FIRST_LOOK, set[str]()

    @property
    def spent(self) -> bool:
        """Whether the budget is spent."""
        return self.step >= self.settings.steps or self.rollouts >= self.settings.rollouts

    def on_groups(self, record: GroupRecord) -> None:
        """Write down the groups of one generation."""
        if os.getpid() != self._process:
            os._exit(1)  # a child that an environment forked must not go on as a second trainer
        self.between_steps = False
        record.write_to(self.writer)

    @property
    def rollouts(self) -> int:
        """How many rollouts there were, with rejected groups'."""
        return self.writer.rollouts

    def resume(self, step: int) -> None:
        """Go on after a checkpoint of this step: forget what was written later, count on from there."""
        self.writer.resume(step)
        self.step = max(step, 0)
        self.evaluated = self.writer.rollouts

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self.has_begun = True
        if state.global_step == 0:
            self._report(self.writer.evaluated(0, {} if self.evaluate is None else self.evaluate()))
        self.writer.clock.start()

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self.writer.clock.stop()
        self.step = state.global_step
        every = self.eval_every
        due = self.spent or (every > 0 and self.rollouts // every > self.evaluated // every)
        self.evaluated = self.rollouts
        metrics = self.curriculum.metrics() | self.host_metrics()
        if due and self.evaluate is not None:
            metrics |= self.evaluate()
        self._report(self.writer.step(self.step, metrics))
        self.between_steps = True
        if self.step >= self._next_look:
            self._next_look = 2 * self.step
            for advice in advise(read_history(self.folder)):
                if advice.name not in self._said:
                    self._said.add(advice.name)
                    self.say(f"{advice.problem} {advice.advice}")
        if self.stopping or self.spent:
            control.should_save = control.should_training_stop = True

    def on_save(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self.writer.write_table()

    def on_step_begin(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self.writer.clock.start()

    def _report(self, line: dict[str, Any]) -> None:
        if self.on_evaluated is not None and "eval/pass@1" in line:
            self.on_evaluated(line)
        self.on_step(line)
