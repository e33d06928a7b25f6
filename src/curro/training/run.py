"""One training run from settings to run folder: what `curro train` does, with TRL as the engine."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import (
    PrinterCallback,
    ProgressCallback,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.integrations import TensorBoardCallback
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import CallbackHandler
from trl import GRPOConfig

from curro.core.configuration import describe_signal
from curro.core.errors import CurroError
from curro.hosts.trl import checkpoint as checkpoints
from curro.hosts.trl.trainer import CurriculumGRPOTrainer
from curro.rollout.engines.engine import SamplingSettings
from curro.rollout.engines.models import compute_with, precision_warning
from curro.rollout.engines.plain_generation import end_ids
from curro.rollout.sampling import evaluate
from curro.runs import report
from curro.runs.folder import RunFolder
from curro.runs.json_lines import GrowingFile, as_object
from curro.runs.reader import RunReader
from curro.runs.report.figures import Picture, run_figures
from curro.training.evaluation.expectations import visits_warning
from curro.training.lora import lora_config, save_model
from curro.training.prepared import HeldOut, Prepared, overlaps, row_rewards, training_set
from curro.training.recorder import Recorder
from curro.training.settings import TrainSettings


@contextmanager
def stopping_cleanly(recorder: Recorder, say: Callable[[str], None]) -> Iterator[None]:
    """The first Ctrl-C (or SIGTERM) ends the run after this step with a checkpoint, the second at once."""

    def stop(number: int, frame: Any) -> None:
        if recorder.stopping:
            raise KeyboardInterrupt
        recorder.stopping = True
        say("stopping after this step; a second Ctrl-C stops at once")

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def saving_on_error(
    trainer: CurriculumGRPOTrainer, recorder: Recorder, say: Callable[[str], None]
) -> Iterator[None]:
    """Save the last finished step on an error, and tell the user how a run that ended too early goes on."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, KeyboardInterrupt):
            _save(trainer, recorder, say)
        if recorder.folder.has_progress():
            last = checkpoints.newest(recorder.folder.checkpoints)
            step = 0 if last is None else checkpoints.step_of(last)
            say(f"the run stopped; curro train --resume {recorder.folder.path} goes on after step {step}")
        elif not isinstance(error, CurroError):  # these say what to do
            say("the run stopped before its first step was finished: start it again with the same command")
        if isinstance(error, SystemExit):
            raise CurroError(
                f"something in the run, such as a reward or an environment, called sys.exit({error.code!r}): "
                "it must return, or raise an error"
            ) from error
        raise


def _save(trainer: CurriculumGRPOTrainer, recorder: Recorder, say: Callable[[str], None]) -> None:
    """Save the prompt table, and a checkpoint if nothing was observed since the last finished step."""
    folder = recorder.folder
    try:
        if recorder.has_begun:  # before, the table may be of other rows than the folder's lines
            folder.write_table(recorder.curriculum.table)
        last = checkpoints.newest(folder.checkpoints)
        if recorder.between_steps and (last is None or checkpoints.step_of(last) < recorder.step):
            trainer.save_checkpoint()
    except Exception as error:
        say(f"what the run had reached could not be saved: {error}")


def write_model(
    trainer: CurriculumGRPOTrainer, target: Path, evaluation: Mapping[str, Any] | None = None
) -> None:
    """Save the model; its folder appears whole, in the place of an earlier one.

    A process that is killed meanwhile leaves the earlier one, if need be to `put_back`.

    Args:
        evaluation: is saved beside the weights.

    Raises:
        CheckpointError: it cannot be written.
    """
    part = target.with_name(f".{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    with checkpoints.saving(part):
        save_model(trainer, part)
        if evaluation is not None:
            (part / EVALUATION).write_text(json.dumps(evaluation) + "\n", encoding="utf-8")
        put_back(target)
        if target.exists():
            target.rename(_before(target))
        part.rename(target)
        shutil.rmtree(_before(target), ignore_errors=True)


def put_back(target: Path) -> None:
    """Give a folder its place again if a process was killed while it put another one there."""
    if target.exists():
        shutil.rmtree(_before(target), ignore_errors=True)
    elif _before(target).exists():
        _before(target).rename(target)


def _before(target: Path) -> Path:
    return target.with_name(f".{target.name}.before")


EVALUATION = "evaluation.json"
"""In the folder of the best model: `step`, `pass@1` and `reward` of its evaluation."""


def keep_best(
    trainer: CurriculumGRPOTrainer, folder: RunFolder, line: Mapping[str, Any], say: Callable[[str], None]
) -> None:
    """Save the model if its evaluation in this line is the run's best so far, of equal ones the first.

    The score is compared with that of the saved model, so that a resumed run goes on as it should.
    """
    score = {"step": line["step"], "pass@1": line["eval/pass@1"], "reward": line["eval/reward"]}
    saved = folder.best / EVALUATION
    if saved.is_file():
        best = json.loads(saved.read_bytes())
        if (score["pass@1"], score["reward"]) <= (best["pass@1"], best["reward"]):
            return
    write_model(trainer, folder.best, score)
    say(f"the best model so far, of step {score['step']}, is in {folder.best}")


CISPO_CEILING = 5.0
"""What TRL's documentation recommends, after ScaleRL (arXiv 2510.13786)."""


def grpo_arguments(settings: TrainSettings, folder: RunFolder, reward_weights: list[float]) -> GRPOConfig:
    """TRL's settings: GRPO without a reference model, on the GPU in bfloat16 where there is one.

    Args:
        settings: complete.
        folder: the run's; TRL's checkpoints go there.
        reward_weights: of the reward's parts.
    """
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
        # CISPO's is the ceiling of the ratio itself, of the others how far it may be above 1
        epsilon_high=CISPO_CEILING if settings.loss_type == "cispo" else None,
        scale_rewards="none",
        beta=settings.beta,
        num_iterations=settings.num_iterations,
        use_vllm=settings.vllm,
        vllm_mode="colocate",
        seed=settings.seed,
        save_strategy="steps",
        save_steps=settings.save_every,
        save_total_limit=2,
        logging_steps=10 if settings.log is None else 1,
        report_to=[] if settings.log is None else [settings.log],
        project=settings.project or folder.path.absolute().parent.name,
        run_name=settings.run_name or folder.path.absolute().name,
        disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(),
        bf16=torch.cuda.is_available() if settings.precision is None else settings.precision == "bfloat16",
        dataloader_pin_memory=torch.cuda.is_available(),
        # on a GPU memory is saved at the cost of a second forward pass; the numbers are the same
        activation_checkpointing=torch.cuda.is_available(),
    )


def train(
    prepared: Prepared,
    folder: RunFolder,
    *,
    resume: bool = False,
    on_step: Callable[[dict[str, Any]], None] = lambda line: None,
    say: Callable[[str], None] = lambda sentence: None,
    page: bool = True,
) -> bool:
    """Run until the budget is spent, or until an interrupt or an error, which save a checkpoint first.

    After an error, the last finished step is saved, but only where the failed step had observed nothing yet:
    otherwise the curriculum would already know outcomes that the weights have not been trained on.

    Args:
        prepared: from `prepare`.
        folder: the run's folder; the trained model, the table and the report go there too.
        resume: go on from the folder's last complete checkpoint; those cut off later are removed. A run
            whose budget is spent gains no step, but the files that it lacks.
        on_step: hears the metrics of every step.
        say: hears what a person wants to know meanwhile, in sentences.
        page: write the run's page at its end, which takes seconds.

    Returns:
        whether the run is complete.

    Raises:
        LockedError: another process trains in this folder.
        CurroError: of rewards that cannot be learnt from, or a checkpoint of something else.
    """
    with folder.locked():
        return _train(prepared, folder, resume, on_step, say, page)


def _train(
    prepared: Prepared,
    folder: RunFolder,
    resume: bool,
    on_step: Callable[[dict[str, Any]], None],
    say: Callable[[str], None],
    page: bool,
) -> bool:
    settings = prepared.settings
    compute_with(settings.threads)
    put_back(folder.best)
    if folder.model.is_dir() and settings.is_spent(folder.latest()):
        say("the run is complete: there is nothing left to train; --resume with more --rollouts extends it")
        if page:
            report.write_report(folder)
        return True
    for note in prepared.reward.notes:
        say(note)
    slow = precision_warning(settings.precision)
    if slow is not None:
        say(slow)
    curriculum = prepared.curriculum
    if curriculum.selection.needs_second_visits:
        warning = visits_warning(
            curriculum.config["selection"]["name"], settings.rollouts, settings.rollouts_per_prompt or 1,
            curriculum.table.size,
        )  # fmt: skip
        if warning is not None:
            say(warning)
    for sentence in overlaps(prepared):
        say(sentence)
    if prepared.curriculum.signal_parts and settings.signal is None:
        say(describe_signal(prepared.curriculum.signal_parts))
    recorder = Recorder(
        folder,
        prepared.curriculum,
        settings,
        evaluate=(lambda: _accuracy(prepared, trainer)) if prepared.held_out else None,
        on_evaluated=(lambda line: keep_best(trainer, folder, line, say)) if settings.keep_best else None,
        on_step=on_step,
        say=say,
        host_metrics=lambda: trainer.generation_metrics(),
    )
    last = _find_checkpoint(folder, recorder, say) if resume else None
    trainer = _trainer(prepared, recorder)
    if folder.model.is_dir():  # of the end before the run was extended; the checkpoint has it too
        shutil.rmtree(folder.model)
    if last is not None and recorder.spent:
        say("the budget is spent: there is nothing left to train")
        trainer.restore(last)
    else:
        with (
            saving_on_error(trainer, recorder, say),
            stopping_cleanly(recorder, say),
            wandb_project(settings.project, trainer.args.project),
        ):
            trainer.train(resume_from_checkpoint=None if last is None else str(last))
    folder.write_table(prepared.curriculum.table)
    if recorder.spent:
        write_model(trainer, folder.model)
    if page:
        report.write_report(folder)
    return recorder.spent


@contextmanager
def wandb_project(project: str | None, default: str) -> Iterator[None]:
    """Let transformers name this project to wandb, which it does by an environment variable alone.

    Args:
        project: as the user named it.
        default: what it is called where neither the user nor the environment names it.
    """
    before = os.environ.get("WANDB_PROJECT")
    os.environ["WANDB_PROJECT"] = project or before or default
    try:
        yield
    finally:
        if before is None:
            del os.environ["WANDB_PROJECT"]
        else:
            os.environ["WANDB_PROJECT"] = before


def _find_checkpoint(folder: RunFolder, recorder: Recorder, say: Callable[[str], None]) -> Path | None:
    """The checkpoint to go on from, None for the start; drops the lines that were written after it."""

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
        share_prompts=prepared.settings.share_prompts,
        skip_empty_steps=prepared.settings.skip_empty_steps,
        scale_rate=prepared.settings.scale_rate,
        log_all_metrics=True,
        args=grpo_arguments(prepared.settings, recorder.folder, list(prepared.reward.weights.values())),
        callbacks=[recorder],
        peft_config=lora_config(prepared.settings.lora_rank),
    )
    trainer.remove_callback(ProgressCallback)
    trainer.remove_callback(PrinterCallback)
    if prepared.settings.log is not None:
        log, handler = prepared.settings.log, trainer.callback_handler
        trainer.add_callback(LoggedPictures(recorder.folder, log, handler))
        for callback in handler.callbacks:
            if isinstance(callback, TensorBoardCallback) and callback.logging_dir is None:
                callback.logging_dir = str(recorder.folder.path / "tensorboard")
    return trainer


def _accuracy(prepared: Prepared, trainer: CurriculumGRPOTrainer) -> dict[str, float]:
    """Of one data set `eval/...`; of several `eval/NAME/...` each, and their means as `eval/...`."""
    scores = {part.name: _accuracy_on(part, prepared, trainer) for part in prepared.held_out}
    if len(scores) == 1:
        return scores[prepared.held_out[0].name]
    named = {
        name.replace("eval/", f"eval/{part}/", 1): value
        for part, values in scores.items()
        for name, value in values.items()
    }
    means = {
        name: float(np.mean([values[name] for values in scores.values()]))
        for name in scores[prepared.held_out[0].name]
    }
    return means | named


def _accuracy_on(held_out: HeldOut, prepared: Prepared, trainer: CurriculumGRPOTrainer) -> dict[str, float]:
    settings = prepared.settings
    is_own = held_out.reward is prepared.reward  # a suite's rewards are from 0 to 1
    with trainer.accelerator.autocast():  # it rounds the weights once, and not again for every token
        return evaluate(
            trainer.accelerator.unwrap_model(trainer.model),
            prepared.tokenizer,
            held_out.prompts,
            held_out.reward,
            environment=held_out.environment,
            samples=settings.eval_samples,
            settings=SamplingSettings(settings.max_completion_length or 1, settings.temperature),
            reward_range=prepared.curriculum.table.reward_range if is_own else (0.0, 1.0),
            signal=prepared.curriculum.signal_parts if is_own else (),
            seed=settings.seed,
        )


MAX_DRAWING_SHARE = 0.05
"""The largest share of the time that drawing may take."""


ROWS = 200
"""Rollouts in a table, at most: the latest."""


class LoggedPictures(TrainerCallback):
    """Sends pictures and rollouts with the checkpoints; the pictures always with a run's last.

    The pictures are called `curriculum/pictures/<name>`. The rollouts kept since the last checkpoint are the
    table `curriculum/rollouts`, in loggers that have tables. Both are made from the run folder, so the step's
    lines have to be written before.

    Args:
        folder: of the run.
        log: "trackio", "wandb" or "tensorboard", in which TRL has begun a run of its own.
        handler: the trainer's, which knows the logger's own callback.
    """

    def __init__(self, folder: RunFolder, log: str, handler: CallbackHandler) -> None:
        self._reader, self._log, self._handler = RunReader(folder), log, handler
        self._not_before = 0.0
        self._kept = GrowingFile(folder.rollouts_file)

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if self._log != "tensorboard":
            self._send_rollouts(state.global_step)
        begun = time.perf_counter()
        if begun < self._not_before and not control.should_training_stop:
            return
        while self._reader.advance():
            pass
        self._send(run_figures(self._reader.history()), state.global_step)
        now = time.perf_counter()
        self._not_before = now + (now - begun) / MAX_DRAWING_SHARE

    def _send_rollouts(self, step: int) -> None:
        rows: deque[list[Any]] = deque(maxlen=ROWS)
        while (block := self._kept.read()).data:
            for line in block.data.splitlines():
                group = as_object(line)
                rows.extend(
                    [
                        group["step"],
                        self._shown(group["text"]),
                        rollout["reward"],
                        self._shown(rollout["text"]),
                    ]
                    for rollout in group["rollouts"]
                )
        if rows:
            logger = importlib.import_module(self._log)
            table = logger.Table(columns=["step", "prompt", "reward", "completion"], data=list(rows))
            logger.log({"curriculum/rollouts": table, "train/global_step": step})

    def _shown(self, text: str) -> str:
        """A text that a model wrote, for a table: trackio reads cells as Markdown with HTML in it."""
        if self._log != "trackio":
            return text
        return escape(text).replace("[", "&#91;")

    def _send(self, pictures: list[Picture], step: int) -> None:
        if self._log == "tensorboard":
            (board,) = [
                callback for callback in self._handler.callbacks if isinstance(callback, TensorBoardCallback)
            ]
            for picture in pictures:
                board.tb_writer.add_image(_name(picture), picture.pixels(), step, dataformats="HWC")
            return
        logger = importlib.import_module(self._log)
        images = {
            _name(picture): logger.Image(picture.pixels(), caption=picture.caption) for picture in pictures
        }
        logger.log({**images, "train/global_step": step})


def _name(picture: Picture) -> str:
    return f"curriculum/pictures/{picture.name}"
