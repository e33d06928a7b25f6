"""One training run from settings to run folder: what `curro train` does, with TRL as the engine."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PrinterCallback, ProgressCallback
from transformers.trainer import TRAINER_STATE_NAME
from trl import GRPOConfig

from curro import report
from curro.curriculum import Curriculum
from curro.data import PromptSet, load_prompts
from curro.environments import Environment, resolve_environment
from curro.environments.environment import episode_reward
from curro.errors import ConfigError
from curro.evaluation.held_out import evaluate
from curro.hosts.trl import checkpoint as checkpoints
from curro.hosts.trl.trainer import CurriculumGRPOTrainer
from curro.reward import Reward, resolve_reward
from curro.rollout.engines.models import load_model
from curro.rollout.engines.plain_generation import end_ids
from curro.rollout.engines.sampling_settings import SamplingSettings
from curro.rollout.fill_settings import FillSettings
from curro.run_writer import KeepRollouts
from curro.storage.run_folder import RunFolder
from curro.training.ending import leaving_something, stopping_cleanly, write_model
from curro.training.known import with_known
from curro.training.lora import lora_config
from curro.training.recorder import Recorder
from curro.training.rows import check_columns, row_rewards, training_set
from curro.training.settings import TrainSettings


@dataclass(frozen=True)
class Prepared:
    """All that a run needs, found to be right before a folder is made for it."""

    settings: TrainSettings
    prompts: PromptSet
    held_out: PromptSet | None
    environment: Environment | None
    reward: Reward
    fill: FillSettings
    curriculum: Curriculum
    model: Any
    tokenizer: Any


def prepare(settings: TrainSettings) -> Prepared:
    """Load the data and the model and build the curriculum.

    Raises:
        CurroError: of whatever is wrong with the data, the reward, the curriculum or the model, or several
            processes.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError(
            "`curro train` is one process: for several, train with curro.hosts.trl.CurriculumGRPOTrainer "
            "in a script of your own"
        )
    prompts = load_prompts(settings.data, limit=settings.limit, **settings.columns)
    settings = settings.complete(len(prompts))
    if settings.model is None:
        raise ConfigError(f"name a model for {settings.data}: --model with a folder, a hub id or lab:NAME")
    environment = resolve_environment(settings.environment, prompts)
    check_columns(prompts, environment=environment is not None)
    reward = _reward(settings, prompts)
    fill = FillSettings(settings.fill_limit, settings.when_short)
    config = settings.curriculum_config
    if settings.known is not None:
        config, prompts = with_known(config, prompts, settings.known)
    curriculum = Curriculum.from_config(config, prompts)
    held_out = _held_out(settings)
    model, tokenizer = load_model(settings.model)
    return Prepared(settings, prompts, held_out, environment, reward, fill, curriculum, model, tokenizer)


def train(
    prepared: Prepared,
    folder: RunFolder,
    *,
    resume: bool = False,
    on_step: Callable[[dict[str, Any]], None] = lambda line: None,
    say: Callable[[str], None] = lambda sentence: None,
) -> bool:
    """Run until the budget is spent, or until an interrupt or an error, which save a checkpoint first.

    After an error that is one of the last finished step where the failed one had observed nothing yet.

    Args:
        prepared: from `prepare`.
        folder: the run's folder; the trained model, the table and the report go there too.
        resume: go on from the folder's last complete checkpoint; those cut off later are removed. A run
            whose budget is spent gains no step, but the files that it lacks.
        on_step: hears the metrics of every step.
        say: hears what a person wants to know meanwhile, in sentences.

    Returns:
        whether the run is complete.

    Raises:
        LockedError: another process trains in this folder.
        CurroError: of rewards that cannot be learnt from, or a checkpoint of something else.
    """
    with folder.locked():
        return _train(prepared, folder, resume, on_step, say)


def _train(
    prepared: Prepared,
    folder: RunFolder,
    resume: bool,
    on_step: Callable[[dict[str, Any]], None],
    say: Callable[[str], None],
) -> bool:
    settings = prepared.settings
    torch.set_num_threads(settings.threads)
    if folder.model.is_dir():
        say("the run is complete: there is nothing left to train")
        report.write_report(folder)
        return True
    for note in prepared.reward.notes:
        say(note)
    recorder = Recorder(
        folder,
        prepared.curriculum,
        evaluate=None if prepared.held_out is None else lambda: _accuracy(prepared, trainer),
        budget=settings.rollouts,
        steps=settings.steps,
        eval_every=settings.eval_every * settings.rollouts_per_step,
        on_step=on_step,
        say=say,
        keep=KeepRollouts(settings.keep_rollouts, settings.keep_megabytes),
        host_metrics=lambda: trainer.generation_metrics(),
    )
    last = _go_on(folder, recorder, say) if resume else None
    trainer = _trainer(prepared, recorder)
    if last is not None and recorder.spent:
        say("the budget is spent: there is nothing left to train")
        trainer.restore(last)
    else:
        with leaving_something(trainer, recorder, say), stopping_cleanly(recorder, say):
            trainer.train(resume_from_checkpoint=None if last is None else str(last))
    folder.write_table(prepared.curriculum.table)
    if recorder.spent:
        write_model(trainer, folder)
    report.write_report(folder)
    return recorder.spent


def _go_on(folder: RunFolder, recorder: Recorder, say: Callable[[str], None]) -> Path | None:
    """The checkpoint to go on from, None for the start; what was written later is forgotten."""

    def remove(path: Path) -> None:
        say(f"{path} was cut off while it was saved, and is removed")
        shutil.rmtree(path)

    last = checkpoints.newest(folder.checkpoints, cut_off=remove)
    if last is not None:
        with checkpoints.reading(last):
            json.loads((last / TRAINER_STATE_NAME).read_bytes())
    recorder.resume(-1 if last is None else checkpoints.step_of(last))
    return last


def _trainer(prepared: Prepared, recorder: Recorder) -> CurriculumGRPOTrainer:
    plays = prepared.environment is not None
    trainer = CurriculumGRPOTrainer(
        model=prepared.model,
        processing_class=prepared.tokenizer,
        reward_funcs=row_rewards(
            prepared.reward, prepared.prompts, end_ids(prepared.model, prepared.tokenizer), environment=plays
        ),
        train_dataset=training_set(prepared.prompts, environment=plays),
        curriculum=prepared.curriculum,
        fill=prepared.fill,
        environment=prepared.environment,
        on_groups=recorder.on_groups,
        write_run=False,
        args=_arguments(prepared.settings, recorder.folder, list(prepared.reward.weights.values())),
        callbacks=[recorder],
        peft_config=lora_config(prepared.settings.lora_rank),
    )
    trainer.remove_callback(ProgressCallback)
    trainer.remove_callback(PrinterCallback)
    if prepared.settings.log is not None:
        from curro.training.logged_pictures import LoggedPictures  # matplotlib takes a while to load

        log, handler = prepared.settings.log, trainer.callback_handler
        trainer.add_callback(LoggedPictures(recorder.folder, log, handler))
    return trainer


def _accuracy(prepared: Prepared, trainer: CurriculumGRPOTrainer) -> dict[str, float]:
    settings = prepared.settings
    return evaluate(
        trainer.accelerator.unwrap_model(trainer.model),
        prepared.tokenizer,
        prepared.held_out or prepared.prompts,
        prepared.reward,
        environment=prepared.environment,
        samples=settings.eval_samples,
        settings=SamplingSettings(settings.max_completion_length or 1, settings.temperature),
        reward_range=prepared.curriculum.table.reward_range,
        seed=settings.seed,
    )


def _reward(settings: TrainSettings, prompts: PromptSet) -> Reward:
    if settings.environment is None:
        return resolve_reward(
            settings.reward, prompts, limits=settings.reward_limits, sandbox=settings.sandbox
        )
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


def _arguments(settings: TrainSettings, folder: RunFolder, reward_weights: list[float]) -> GRPOConfig:
    device_batch = settings.device_batch or settings.rollouts_per_step
    return GRPOConfig(
        output_dir=str(folder.checkpoints),
        per_device_train_batch_size=device_batch,
        gradient_accumulation_steps=settings.rollouts_per_step // device_batch,
        num_generations=settings.rollouts_per_prompt,
        reward_weights=reward_weights,
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
        logging_steps=10 if settings.log is None else 1,
        report_to=[] if settings.log is None else [settings.log],
        disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(),
        bf16=torch.cuda.is_available(),
        dataloader_pin_memory=torch.cuda.is_available(),
        # it saves a GPU memory for a second forward pass; the numbers are the same
        activation_checkpointing=torch.cuda.is_available(),
    )
