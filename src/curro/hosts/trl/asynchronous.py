"""TRL's asynchronous trainer with a curriculum, which `curro serve` keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trl.experimental.async_grpo import AsyncGRPOTrainer
from trl.experimental.async_grpo.async_rollout_worker import AsyncRolloutWorker

from curro.data.identity import fingerprint_of_rows
from curro.errors import ConfigError
from curro.hosts.trl.served_rollouts import ServedRolloutLoop
from curro.serve import ServedCurriculum


class AsyncCurriculumGRPOTrainer(AsyncGRPOTrainer):
    """An `AsyncGRPOTrainer` whose prompts a curriculum chooses.

    TRL rolls out and scores in a process of its own, so the curriculum is a service that this process and
    that one ask. The training step that it is told is the version of the policy's weights.

    Args:
        arguments: of `AsyncGRPOTrainer`; `train_dataset` is the data of the service.
        served: the address of `curro serve`, as `ServedCurriculum` takes it, and its token.
        options: of `AsyncGRPOTrainer` too.

    Raises:
        ConfigError: the service has other data, or an allocation; the rollout worker is not TRL's own.
    """

    def __init__(self, *arguments: Any, served: tuple[str, str], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.served_curriculum: ServedCurriculum | None = None
        if self.accelerator.is_main_process:
            self.served_curriculum = ServedCurriculum(*served)
            about = self.served_curriculum.about()
            self.served_curriculum.close()
            self._check(about)
            worker: Any = self.rollout_worker
            worker._loop_cls = ServedRolloutLoop
            replaces_advantages = about["curriculum"]["advantage"] is not None
            worker._loop_kwargs |= {"served": served, "replaces_advantages": replaces_advantages}

    def _check(self, about: dict[str, Any]) -> None:
        """Refuse a service that this trainer cannot use."""
        if type(self.rollout_worker) is not AsyncRolloutWorker:
            other = type(self.rollout_worker).__name__
            raise ConfigError(f"a curriculum needs TRL's own rollout worker, not {other}")
        prompts = len(self.train_dataset)
        if about["prompts"] != prompts:
            raise ConfigError(f"the service has {about['prompts']:,} prompts, and train_dataset {prompts:,}")
        known = (f"{prompts} prompts", fingerprint_of_rows(self.train_dataset))
        if about["fingerprint"] not in known:
            raise ConfigError("the service has the prompts of another data set than train_dataset")
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
        super()._save_checkpoint(model, trial)

    def _inner_training_loop(self, *arguments: Any, **options: Any) -> Any:
        checkpoint = options.get("resume_from_checkpoint")
        if self.served_curriculum is not None and checkpoint is not None:
            self.served_curriculum.load(Path(checkpoint).name)
        try:
            return super()._inner_training_loop(*arguments, **options)
        finally:
            if self.served_curriculum is not None:
                self.served_curriculum.close()
