"""Writes down what happens in a run, evaluates on the way, and stops cleanly when asked to."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from curro.core.curriculum import Curriculum
from curro.hosts.trl.observe import GroupRecord
from curro.runs.folder import RunFolder
from curro.runs.writer import Clock, KeepRollouts, RunWriter
from curro.training.settings import TrainSettings

FIRST_WARNING = 20
"""Steps until the first warning; each further warning comes after twice as many steps."""

HARD_TASK_RATE = 0.01
"""Success rate of a hard but learnable task, for the chance that is quoted in the warning."""


class ConstantRewards:
    """Watches the rewards of a run until two of them differ."""

    def __init__(self, reward_range: tuple[float, float]) -> None:
        self.low, self.high = reward_range
        self.rewards = 0
        self.value: float | None = None
        self._steps = 0
        self._warn_at = FIRST_WARNING

    def after_step(self, step: int, rewards: Sequence[float]) -> str | None:
        """Take in the rewards of a step, the first of which is 1.

        Returns:
            a warning when it is time for one. A run that resumes in its middle is not warned of.
        """
        if step != self._steps + 1 or len({*rewards, *([] if self.value is None else [self.value])}) > 1:
            return None
        self._steps = step
        self.rewards += len(rewards)
        self.value = rewards[0] if rewards else self.value
        if step < self._warn_at:
            return None
        self._warn_at = 2 * step
        return self._warning(step)

    def _warning(self, step: int) -> str:
        if self.value is None:
            return f"no rollout of the first {step} steps has a reward: check the reward; training goes on"
        advice = "check the reward and the answers, or start from easier prompts; training goes on"
        sentence = f"all {self.rewards} rewards of the first {step} steps are {self.value:g}"
        if self.value not in (self.low, self.high):
            return f"{sentence}: {advice}"
        rate = "the pass rate" if self.value == self.low else "the rate of failures"
        chance = (1 - HARD_TASK_RATE) ** self.rewards
        would = f"if {rate} were {HARD_TASK_RATE:.0%}, the chance of that would be {chance:.2g}"
        return f"{sentence}; {would}: {advice}"


class Recorder(TrainerCallback):
    """A line of metrics a step, a line a group, an evaluation every `eval_every` rollouts.

    Time spent evaluating and saving is not counted in `seconds` and `cpu_seconds`.

    Attributes:
        stopping: set to have the run end after the step, with a checkpoint.
        step: the last finished one.
        has_begun: the run's state is loaded, so the prompt table has the rows of the folder's lines.
        between_steps: it is written down and nothing was observed since, so that a checkpoint belongs to it.

    Args:
        folder: where the lines go.
        settings: of the run, complete: its budget, how often it is evaluated and which rollouts it keeps. A
            generation is trained on as often as it should be before it counts for an evaluation.
        evaluate: held-out accuracy of the model as it is, by name; None for no evaluation.
        on_evaluated: hears every line of metrics that has an evaluation.
        on_step: hears every line of metrics.
        say: hears warnings, in sentences.
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
        self.writer = RunWriter(folder, curriculum.table, keep, clock=Clock(("seconds", "cpu_seconds")))
        self.evaluated = 0
        self.constant_rewards = ConstantRewards(curriculum.table.reward_range)

    @property
    def spent(self) -> bool:
        """Whether the budget is spent and the last generation was trained on as often as it should be."""
        return self.settings.is_spent({"step": self.step, "rollouts": self.rollouts})

    @property
    def is_trained_on(self) -> bool:
        """Whether the last generation was trained on as often as it should be."""
        return self.step % self.settings.num_iterations == 0

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
        whole = self.step - self.step % self.settings.num_iterations
        lines = self.folder.metrics(("step", "rollouts"))
        self.evaluated = max((int(line["rollouts"]) for line in lines if line["step"] <= whole), default=0)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.has_begun = True
        if state.global_step == 0:
            self._report(self.writer.evaluated(0, {} if self.evaluate is None else self.evaluate()))
        self.writer.clock.start()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.writer.clock.stop()
        self.step = state.global_step
        due = self.spent
        if self.is_trained_on:
            every = self.eval_every
            due |= every > 0 and self.rollouts // every > self.evaluated // every
            self.evaluated = self.rollouts
        warning = self.constant_rewards.after_step(self.step, self.writer.rewards)
        metrics = self.curriculum.metrics() | self.host_metrics()
        if warning is not None:
            self.say(warning)
        if due and self.evaluate is not None:
            metrics |= self.evaluate()
        self._report(self.writer.step(self.step, metrics))
        self.between_steps = True
        if self.stopping or self.spent:
            control.should_save = control.should_training_stop = True

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.writer.write_table()

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.writer.clock.start()

    def _report(self, line: dict[str, Any]) -> None:
        if self.on_evaluated is not None and "eval/pass@1" in line:
            self.on_evaluated(line)
        self.on_step(line)
