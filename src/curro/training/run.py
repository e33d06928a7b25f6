"""One training run from settings to run folder: what `curro train` does, with TRL as the engine."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import PrinterCallback, ProgressCallback
from transformers.trainer import TRAINER_STATE_NAME

from curro import report
from curro.evaluation.held_out import evaluate
from curro.hosts.trl import checkpoint as checkpoints
from curro.hosts.trl.trainer import CurriculumGRPOTrainer
from curro.rollout.engines.plain_generation import end_ids
from curro.rollout.engines.sampling_settings import SamplingSettings
from curro.run_writer import KeepRollouts
from curro.storage.run_folder import RunFolder
from curro.training.ending import leaving_something, stopping_cleanly, write_model
from curro.training.grpo_arguments import grpo_arguments
from curro.training.lora import lora_config
from curro.training.prepared import Prepared
from curro.training.recorder import Recorder
from curro.training.rows import row_rewards, training_set


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
        args=grpo_arguments(prepared.settings, recorder.folder, list(prepared.reward.weights.values())),
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
