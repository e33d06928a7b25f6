"""Writes down what happens in a run, evaluates on the way, and stops cleanly when asked to."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from curro.curriculum import Curriculum
from curro.errors import RewardError
from curro.hosts.trl.trainer import GroupRecord
from curro.runs import PREDICTED, RunFolder

PATIENCE = 20
"""Steps without any two different rewards, from the start, after which a run is stopped."""


class Recorder(TrainerCallback):
    """A line of metrics a step, a line a group, an evaluation every `eval_every` rollouts.

    Time spent evaluating and saving is not counted in `seconds` and `cpu_seconds`.

    Attributes:
        stopping: set to have the run end after the step, with a checkpoint.
        step: the last finished one.
        between_steps: it is written down and nothing was observed since, so that a checkpoint belongs to it.

    Args:
        folder: where the lines go.
        evaluate: held-out accuracy of the model as it is, by name; None for no evaluation.
        budget: rollouts after which the run ends; rejected groups count.
        steps: steps after which it ends.
        eval_every: rollouts between evaluations, rejected ones too; 0: at the start and the end only.
        on_step: hears every line of metrics.
    """

    def __init__(
        self,
        folder: RunFolder,
        curriculum: Curriculum,
        *,
        evaluate: Callable[[], dict[str, float]] | None,
        budget: int,
        steps: int,
        eval_every: int,
        on_step: Callable[[dict[str, Any]], None],
    ) -> None:
        self.folder, self.curriculum, self.on_step = folder, curriculum, on_step
        self.evaluate, self.eval_every = evaluate, eval_every
        self.budget, self.steps = budget, steps
        self.stopping = self.between_steps = False
        self.step = 0
        self.rollouts, self.seconds, self.cpu_seconds = 0, 0.0, 0.0
        self.evaluated = 0
        self.rewards: list[float] = []
        self.signal: list[bool] = []
        self.constant: float | None = None
        self.steps_without_signal = 0

    @property
    def spent(self) -> bool:
        """Whether the budget is."""
        return self.step >= self.steps or self.rollouts >= self.budget

    def on_groups(self, record: GroupRecord) -> None:
        """Write down the groups of one generation."""
        self.between_steps = False
        table, draw, verdict = self.curriculum.table, record.draw, record.verdict
        scored = ~np.isnan(record.rewards)
        means = np.where(scored, record.rewards, 0.0).sum(axis=1) / np.maximum(scored.sum(axis=1), 1)
        flat = table.is_flat(verdict.informativeness)
        predicted = {name: table[name][draw.prompts].tolist() for name in PREDICTED if name in table.columns}
        self.folder.append_groups(
            {
                "step": record.step + 1,
                "prompt": prompt,
                "key": table.key(prompt),
                "reason": int(draw.reasons[i]),
                "mean": means[i],
                "variance": verdict.informativeness[i],
                "admitted": bool(verdict.admitted[i]),
                **{name: values[i] for name, values in predicted.items()},
            }
            for i, prompt in enumerate(draw.prompts.tolist())
        )
        self.rollouts += record.rewards.size
        self.rewards += record.rewards[scored].tolist()
        self.signal += (~flat).tolist()

    def resume(self, step: int) -> None:
        """Go on after a checkpoint of this step: forget what was written later, count on from there."""
        self.folder.truncate_after(step)
        self.step = max(step, 0)
        lines = self.folder.metrics()
        if lines:
            last = lines[-1]
            self.rollouts, self.evaluated = int(last["rollouts"]), int(last["rollouts"])
            self.seconds, self.cpu_seconds = float(last["seconds"]), float(last["cpu_seconds"])

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if state.global_step == 0:
            self._write(
                {"step": 0, "rollouts": 0, "seconds": 0.0, "cpu_seconds": 0.0}, self.evaluate is not None
            )
        self._start_clocks()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.seconds += time.perf_counter() - self.since
        self.cpu_seconds += time.process_time() - self.cpu_since
        self.step = state.global_step
        due = self.spent or (
            self.eval_every > 0 and self.rollouts // self.eval_every > self.evaluated // self.eval_every
        )
        self.evaluated = self.rollouts
        line = {
            "step": self.step,
            "rollouts": self.rollouts,
            "seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds,
            "reward": float(np.mean(self.rewards)) if self.rewards else np.nan,
            "signal_share": float(np.mean(self.signal)) if self.signal else np.nan,
            **self.curriculum.metrics(),
        }
        self._check_for_signal()
        self.rewards, self.signal = [], []
        self._write(line, due and self.evaluate is not None)
        self.between_steps = True
        if self.stopping or self.spent:
            control.should_save = control.should_training_stop = True

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.folder.write_table(self.curriculum.table)

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._start_clocks()

    def _start_clocks(self) -> None:
        self.since, self.cpu_since = time.perf_counter(), time.process_time()

    def _check_for_signal(self) -> None:
        """Stop a run in which every reward so far is one and the same number."""
        step = self.step
        if step != self.steps_without_signal + 1 or len(set(self.rewards)) > 1:
            return
        value = self.rewards[0] if self.rewards else None
        if self.constant not in (None, value):
            return
        self.constant, self.steps_without_signal = value, step
        if step == PATIENCE:
            raise RewardError(
                f"all {self.rollouts} rewards of the first {step} steps are {value}: nothing can be learnt; "
                "check the reward and the answers, or start from easier prompts or a better model"
            )

    def _write(self, line: dict[str, Any], evaluated: bool) -> None:
        if evaluated and self.evaluate is not None:
            line = line | self.evaluate()
        self.folder.append_metrics(line)
        self.on_step(line)
