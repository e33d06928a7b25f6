"""One training run from settings to run folder: what `curro train` does, with TRL as the engine."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PrinterCallback, ProgressCallback
from transformers.trainer_utils import get_last_checkpoint
from trl import GRPOConfig

from curro.curriculum import Curriculum
from curro.data import PromptSet, load_prompts
from curro.environments import Environment, resolve_environment
from curro.environments.environment import episode_reward
from curro.errors import ConfigError
from curro.evaluation.held_out import evaluate
from curro.hosts.models import load_model
from curro.hosts.trl.recorder import Recorder
from curro.hosts.trl.refill import RefillSettings
from curro.hosts.trl.settings import TrainSettings
from curro.hosts.trl.trainer import CurriculumGRPOTrainer
from curro.report import write_report
from curro.reward import Reward, resolve_reward, trl_reward
from curro.runs import RunFolder


@dataclass(frozen=True)
class Prepared:
    """All that a run needs, found to be right before a folder is made for it."""

    settings: TrainSettings
    prompts: PromptSet
    held_out: PromptSet | None
    environment: Environment | None
    reward: Reward
    refill: RefillSettings
    curriculum: Curriculum
    model: Any
    tokenizer: Any


def prepare(settings: TrainSettings) -> Prepared:
    """Load the data and the model and build the curriculum.

    Raises:
        CurroError: of whatever is wrong with the data, the reward, the curriculum or the model.
    """
    prompts = load_prompts(settings.data, limit=settings.limit, **settings.columns)
    settings = settings.complete(len(prompts))
    if settings.model is None:
        raise ConfigError(f"name a model for {settings.data}: --model with a folder, a hub id or lab:NAME")
    environment = resolve_environment(settings.environment, prompts)
    reward = _reward(settings, prompts)
    refill = RefillSettings(settings.refill_limit, settings.when_short)
    curriculum = Curriculum.from_config({**settings.curriculum, "seed": settings.seed}, prompts)
    held_out = _held_out(settings)
    model, tokenizer = load_model(settings.model)
    return Prepared(settings, prompts, held_out, environment, reward, refill, curriculum, model, tokenizer)


def train(
    prepared: Prepared,
    folder: RunFolder,
    *,
    resume: bool = False,
    on_step: Callable[[dict[str, Any]], None] = lambda line: None,
) -> bool:
    """Run until the budget is spent, or until an interrupt, which saves a checkpoint first.

    Args:
        prepared: from `prepare`.
        folder: the run's folder; the trained model, the table and the report go there too.
        resume: go on from the folder's last checkpoint.
        on_step: hears the metrics of every step.

    Returns:
        whether the run is complete.

    Raises:
        CurroError: of rewards that cannot be learnt from, or a checkpoint of something else.
    """
    settings, curriculum = prepared.settings, prepared.curriculum
    torch.set_num_threads(settings.threads)
    last = _last_checkpoint(folder) if resume else None

    def accuracy() -> dict[str, float]:
        return evaluate(
            trainer.accelerator.unwrap_model(trainer.model),
            prepared.tokenizer,
            prepared.held_out or prepared.prompts,
            prepared.reward,
            environment=prepared.environment,
            samples=settings.eval_samples,
            max_new_tokens=settings.max_completion_length or 1,
            temperature=settings.temperature,
            success=curriculum.table.reward_range[1],
            seed=settings.seed,
        )

    recorder = Recorder(
        folder,
        curriculum,
        evaluate=None if prepared.held_out is None else accuracy,
        budget=settings.rollouts,
        eval_every=settings.eval_every * settings.rollouts_per_step,
        on_step=on_step,
    )
    if last is not None:
        recorder.resume(int(last.rpartition("-")[2]))
    elif resume:
        recorder.resume(-1)
    trainer = CurriculumGRPOTrainer(
        model=prepared.model,
        processing_class=prepared.tokenizer,
        reward_funcs=trl_reward(prepared.reward),
        train_dataset=prepared.prompts.to_hf(),
        curriculum=curriculum,
        refill=prepared.refill,
        environment=prepared.environment,
        on_groups=recorder.on_groups,
        args=_arguments(settings, folder),
        callbacks=[recorder],
    )
    trainer.remove_callback(ProgressCallback)
    trainer.remove_callback(PrinterCallback)
    with _stopping_cleanly(recorder):
        trainer.train(resume_from_checkpoint=last)
    complete = trainer.state.global_step >= settings.steps or recorder.rollouts >= settings.rollouts
    if trainer.accelerator.is_main_process:
        folder.write_table(curriculum.table)
        if complete:
            trainer.save_model(str(folder.model))
        write_report(folder)
    return complete


def _reward(settings: TrainSettings, prompts: PromptSet) -> Reward:
    if settings.environment is None:
        return resolve_reward(settings.reward, prompts)
    if settings.reward != "auto":
        raise ConfigError(
            f"the environment {settings.environment!r} scores its episodes: leave out the reward "
            f"{settings.reward!r}"
        )
    return episode_reward(settings.environment)


def _held_out(settings: TrainSettings) -> PromptSet | None:
    if settings.eval_data is None:
        return None
    return load_prompts(settings.eval_data, split="test", limit=settings.eval_prompts, **settings.columns)


def _arguments(settings: TrainSettings, folder: RunFolder) -> GRPOConfig:
    batch = (settings.prompts_per_step or 1) * (settings.rollouts_per_prompt or 1)
    device_batch = settings.device_batch or batch
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    if batch % (device_batch * processes):
        raise ConfigError(
            f"{processes} processes of device_batch {device_batch} do not divide "
            f"the step's {batch} completions"
        )
    return GRPOConfig(
        output_dir=str(folder.checkpoints),
        per_device_train_batch_size=device_batch,
        gradient_accumulation_steps=batch // (device_batch * processes),
        num_generations=settings.rollouts_per_prompt,
        max_completion_length=settings.max_completion_length,
        max_steps=settings.steps,
        learning_rate=settings.learning_rate or 0.0,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=settings.warmup_steps or 0,
        adam_beta2=0.99,
        max_grad_norm=1.0,
        temperature=settings.temperature,
        loss_type=settings.loss_type,
        scale_rewards="none",
        beta=0.0,
        seed=settings.seed,
        save_strategy="steps",
        save_steps=settings.save_every,
        save_total_limit=2,
        logging_steps=10,
        report_to=[],
        disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(),
        bf16=torch.cuda.is_available(),
        dataloader_pin_memory=torch.cuda.is_available(),
        # it saves a GPU memory for a second forward pass; the numbers are the same
        activation_checkpointing=torch.cuda.is_available(),
    )


@contextmanager
def _stopping_cleanly(recorder: Recorder) -> Iterator[None]:
    """The first Ctrl-C (or SIGTERM) ends the run after this step with a checkpoint, the second at once."""

    def stop(number: int, frame: Any) -> None:
        if recorder.stopping:
            raise KeyboardInterrupt
        recorder.stopping = True

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _last_checkpoint(folder: RunFolder) -> str | None:
    return get_last_checkpoint(str(folder.checkpoints)) if folder.checkpoints.is_dir() else None
