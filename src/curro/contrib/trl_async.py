"""TRL's asynchronous trainer with a curriculum, which `curro serve` keeps.

Tested with TRL 1.16.0, transformers 5.23 and PyTorch 2.13 on a CPU, with a server of the tests' own in place
of vLLM.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import os
import queue
import threading
import traceback
from collections.abc import Iterator
from itertools import count, repeat
from pathlib import Path
from typing import Any

import numpy as np
from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer
from trl.experimental.async_grpo.async_rollout_worker import (
    AsyncRolloutWorker,
    RolloutGroup,
    RolloutSample,
    _AsyncRolloutLoop,
)

from curro.contrib.serve import ServedCurriculum
from curro.contrib.serve.client import ServiceError, error_of
from curro.core.bases import refuse
from curro.core.errors import ConfigError
from curro.core.groups import Feedback, MissingRewards
from curro.core.identity import DatasetRows


class ServedRolloutLoop(_AsyncRolloutLoop):
    """TRL's loop of generation and scoring, which asks `curro serve` for every group's prompt.

    A group is observed once its rollouts are scored, and dropped where the trainer stops or dies before that.
    Those that the gate rejects never reach the trainer.

    Args:
        served: the address and the token of the service.
        replaces_advantages: whether the samples get the curriculum's advantages in place of TRL's.
        batch: how many groups a batch has: a run ends if that many have no reward before any has one.
        loop: the arguments of TRL's loop.
    """

    def __init__(
        self, *, served: tuple[str, str], replaces_advantages: bool, batch: int, **loop: Any
    ) -> None:
        super().__init__(**loop)
        self.curriculum, self.replaces_advantages = ServedCurriculum(*served), replaces_advantages
        self.tickets: dict[int, int] = {}
        self._batch, self._missing_rewards = batch, MissingRewards()

    async def _run_loops(self, stop_event: asyncio.Event) -> None:
        trainer = multiprocessing.parent_process()
        if trainer is not None:
            threading.Thread(target=self._outlive, args=(trainer,), daemon=True).start()
        stopping = asyncio.create_task(self._drop_at_stop(stop_event))
        try:
            await super()._run_loops(stop_event)
        except Exception as error:
            await self._report(error, stop_event)
            raise
        finally:
            stopping.cancel()
            self._drop()

    async def _drop_at_stop(self, stop_event: asyncio.Event) -> None:
        """Drop what is in flight once the trainer says stop: 15 s later TRL ends this process."""
        await stop_event.wait()
        self._drop()

    def _drop(self) -> None:
        tickets, self.tickets = list(self.tickets.values()), {}
        if tickets:
            self.curriculum.drop(tickets)

    def _outlive(self, trainer: Any) -> None:
        """End this process once the trainer's was killed: it would go on to teach the curriculum."""
        trainer.join()
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        try:
            self._drop()
        finally:
            os._exit(1)

    async def _report(self, error: Exception, stop_event: asyncio.Event) -> None:
        """Tell the trainer's process what ends this one, and wait until it says stop.

        TRL tells it too, and ends this process at once. Its trainer then waits for ever: it sets an event on
        which a thread of this process was waiting, and a `multiprocessing.Event` waits for all that it wakes.
        """
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        with contextlib.suppress(queue.Full):
            self._exception_info_queue.put_nowait((type(error).__name__, str(error), traceback.format_exc()))
        self._failed_event.set()
        await stop_event.wait()

    def _repeat_iterator(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for group_id in count():
            draw = self.curriculum.select(1, step=self.model_version)
            self.tickets[group_id] = int(draw.tickets[0])
            yield from repeat((group_id, self.dataset[int(draw.prompts[0])]), self.num_generations)

    async def _score_group(self, group: RolloutGroup) -> list[RolloutSample]:
        samples = await super()._score_group(group)
        if group.group_id not in self.tickets:  # dropped at the end
            return []
        # a rollout has a sample for each part of its conversation, and none where nothing can be trained on
        parts = [len(sequences) for sequences in group.completions_sequences]
        rollout_of = np.repeat(np.arange(self.num_generations), parts)
        rewards_G = self._by_rollout(samples, rollout_of, "reward")
        named = {
            name: self._by_rollout(samples, rollout_of, f"rewards/{name}") for name in self.reward_func_names
        }
        feedback = Feedback.of_group(self.tickets[group.group_id], rewards_G, named)
        verdict = self.curriculum.observe(**feedback.arguments())
        del self.tickets[group.group_id]
        if verdict.dropped[0] and not self.curriculum.metrics()["observed"]:
            self._missing_rewards.count(feedback, self._batch)
        for sample, rollout in zip(samples, rollout_of, strict=True):
            if self.replaces_advantages:
                sample.advantage = float(verdict.advantages[0, rollout])
            elif not verdict.credited[0, rollout]:
                sample.advantage = 0.0
        return samples if verdict.admitted[0] else []

    def _by_rollout(self, samples: list[RolloutSample], rollout_of: np.ndarray, name: str) -> np.ndarray:
        """A number of the samples, float64 (G,): NaN for rollouts without a sample."""
        values_G = np.full(self.num_generations, np.nan)
        values_G[rollout_of] = [sample.metrics[name] for sample in samples]
        return values_G


def limits(prompts: int, wanted: int) -> dict[str, int]:
    """How many rollouts TRL's loop may start, and how many groups may wait for their score.

    A prompt has to be free whenever the loop can start a rollout. At worst each of its other rollouts is the
    last of a group, and besides the groups that wait one is being scored.
    """
    waiting = min(16, max(1, prompts // 4))  # TRL: 16
    most = min(wanted, prompts - waiting - 1)
    if most < 1:
        raise ConfigError(f"asynchronous GRPO needs 3 prompts or more, and the data set has {prompts}")
    if most < wanted:
        logging.getLogger(__name__).warning(
            "max_inflight_tasks is %d, not %d: the data set has %d prompts, and each is in flight once",
            most, wanted, prompts,
        )  # fmt: skip
    return {"max_inflight_tasks": most, "score_queue_maxsize": waiting}


class AsyncCurriculumGRPOTrainer(AsyncGRPOTrainer):
    """An `AsyncGRPOTrainer` whose prompts a curriculum chooses.

    TRL rolls out and scores in a process of its own, so the curriculum is a service that this process and
    that one ask. The training step that it is told is the version of the policy's weights.

    An error of curro's own that ends the other process is raised by `train`.

    Args:
        arguments: `AsyncGRPOTrainer`'s; `train_dataset` is the data of the service.
        served: the address of `curro serve`, as `ServedCurriculum` takes it, and its token.
        options: `AsyncGRPOTrainer`'s too.

    Raises:
        ConfigError: the service has other data, an allocation or importance weights; there are fewer than 3
            prompts; the rollout worker is not TRL's own.
    """

    args: AsyncGRPOConfig

    def __init__(self, *arguments: Any, served: tuple[str, str], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.served_curriculum: ServedCurriculum | None = None
        if self.accelerator.is_main_process:
            self.served_curriculum = ServedCurriculum(*served)
            rows: Any = self.train_dataset
            self.served_curriculum.check_rows(DatasetRows(rows), "train_dataset")
            about = self.served_curriculum.about()
            self._check(about)
            worker: Any = self.rollout_worker
            worker._loop_cls = ServedRolloutLoop
            rollouts = self.args.per_device_train_batch_size * self.accelerator.num_processes
            worker._loop_kwargs |= {
                "served": served,
                "replaces_advantages": about["curriculum"]["advantage"] is not None,
                "batch": rollouts * self.args.gradient_accumulation_steps // self.args.num_generations,
                **limits(about["prompts"], worker._loop_kwargs["max_inflight_tasks"]),
            }

    def _check(self, about: dict[str, Any]) -> None:
        """Refuse a service that this trainer cannot use."""
        if type(self.rollout_worker) is not AsyncRolloutWorker:
            other = type(self.rollout_worker).__name__
            raise ConfigError(f"a curriculum needs TRL's own rollout worker, not {other}")
        refuse(about["has_weights"], "weights", "asynchronous GRPO")
        if about["curriculum"]["allocation"] is not None:
            raise ConfigError("an allocation needs groups of several sizes, which asynchronous GRPO has not")

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """TRL's, with the metrics of the curriculum."""
        if self.served_curriculum is not None:
            logs |= {f"curriculum/{name}": value for name, value in self.served_curriculum.metrics().items()}
        super().log(logs, start_time)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        if self.served_curriculum is not None:
            self.served_curriculum.save(f"checkpoint-{self.state.global_step}")
        # TRL would count a resumed run's epochs from the first group without training, as of a rejected one
        trained, self._trained_groups = self._trained_groups, set(range(len(self._trained_groups)))
        try:
            super()._save_checkpoint(model, trial)
        finally:
            self._trained_groups = trained

    def _inner_training_loop(self, *arguments: Any, **options: Any) -> Any:
        checkpoint = options.get("resume_from_checkpoint")
        if self.served_curriculum is not None and checkpoint is not None:
            self.served_curriculum.load(Path(checkpoint).name)
        elif self.served_curriculum is not None:
            step = self.served_curriculum.about()["step"]
            if step > self.model_version + 1:
                raise ConfigError(
                    f"the service is at step {step} of an earlier run: resume from a checkpoint of that run, "
                    "or start a service in a new folder"
                )
        try:
            return super()._inner_training_loop(*arguments, **options)
        except RuntimeError as error:
            # TRL chains what ended the other process as a text: an error's name, its words and the traceback
            kind, _, text = str(error.__cause__ or "").partition(": ")
            cause = error_of(kind, text.partition("\n")[0])
            if isinstance(cause, ServiceError):
                raise
            raise cause from error
