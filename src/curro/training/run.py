"""One training run from its plan to the run folder: what `curro train` does, with TRL as the engine."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PrinterCallback, ProgressCallback
from transformers.integrations import TensorBoardCallback
from trl import GRPOConfig

from curro.core.configuration import describe_signal
from curro.core.errors import CheckpointError, ConfigError, CurroError
from curro.data.prompt_set import PromptSet
from curro.hosts.trl import checkpoint as checkpoints
from curro.hosts.trl.trainer import CurriculumGRPOTrainer
from curro.rollout.engines.engine import SamplingSettings
from curro.rollout.engines.models import compute_with, precision_warning
from curro.rollout.engines.plain_generation import end_ids, prompt_ids, readable_ids
from curro.rollout.sampling import beside_training, evaluate
from curro.runs.folder import RunFolder
from curro.training.plan import HeldOut, Plan
from curro.training.recorder import Recorder
from curro.training.saved_model import keep_best, lora_config, write_model
from curro.training.settings import TrainSettings
from curro.training.trl_arguments import device_arguments, row_rewards, training_set
from curro.training.trust import resume_command


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
        if isinstance(error, CheckpointError) and not recorder.has_begun:
            raise  # nothing goes on from a checkpoint that cannot be read
        if isinstance(error, RuntimeError) and "probability tensor contains" in str(error):  # torch's words
            raise CurroError(
                "the model's probabilities are not numbers any more, as after too large a --learning-rate: "
                "lower it and start again, or remove the last checkpoints and resume"
            ) from error
        if not isinstance(error, KeyboardInterrupt):
            _save(trainer, recorder, say)
        if recorder.folder.has_progress():
            last = checkpoints.newest(recorder.folder.checkpoints)
            step = 0 if last is None else checkpoints.step_of(last)
            command = resume_command(recorder.settings, recorder.folder.path)
            say(f"the run stopped; {command} goes on after step {step}")
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


CISPO_CEILING = 5.0
"""What TRL's documentation recommends, after ScaleRL (arXiv 2510.13786)."""


def grpo_arguments(settings: TrainSettings, folder: RunFolder, reward_weights: list[float]) -> GRPOConfig:
    """TRL's settings for complete settings, with checkpoints in the run's folder."""
    return GRPOConfig(
        **device_arguments(GRPOConfig, settings.rollouts_per_step, settings.device_batch, settings.precision),
        output_dir=str(folder.checkpoints),
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
        use_vllm=settings.vllm,
        vllm_mode="colocate",
        seed=settings.seed,
        save_strategy="steps",
        save_steps=settings.save_every,
        save_total_limit=2,
        logging_steps=10 if settings.log is None else 1,
        report_to=[] if settings.log is None else [settings.log],
        project=folder.path.absolute().parent.name,
        run_name=folder.path.absolute().name,
    )


def train(
    plan: Plan,
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
        resume: go on from the folder's last complete checkpoint; those cut off later are removed. A run
            whose budget is spent gains no step, but the files that it lacks.
        on_step, say: called with the metrics of every step, and with sentences for a person.
        page: write the run's page at its end, which takes seconds.

    Returns:
        whether the run is complete.

    Raises:
        LockedError: another process trains in this folder.
        CurroError: a model or rewards cannot be used, or a checkpoint belongs to something else.
    """
    with folder.locked():
        if folder.model.is_dir():
            say("the run is complete")
        else:
            compute_with(plan.settings.threads)
            if not _train(plan, folder, resume, on_step, say):
                return False
        if page:
            from curro.runs.report.page import write_report  # matplotlib takes a second to import

            write_report(folder)
        return True


def _train(
    plan: Plan,
    folder: RunFolder,
    resume: bool,
    on_step: Callable[[dict[str, Any]], None],
    say: Callable[[str], None],
) -> bool:
    settings = plan.settings
    for sentence in _notes(plan):
        say(sentence)
    held_out = [part.for_model(plan.tokenizer) for part in plan.held_out]
    recorder = Recorder(
        folder,
        plan.curriculum,
        settings,
        evaluate=(lambda: _accuracy(plan, held_out, trainer)) if held_out else None,
        on_evaluated=(lambda line: keep_best(trainer, folder, line, say)) if settings.keep_best else None,
        on_step=on_step,
        say=say,
        host_metrics=lambda: trainer.generation_metrics(),
    )
    last = _find_checkpoint(folder, recorder, say) if resume else None
    trainer = _trainer(plan, recorder)
    _try_prompts(plan, [plan.prompts, *(part.prompts for part in held_out)])
    if last is not None and recorder.spent:
        say("the budget is spent: there is nothing left to train")
        trainer.restore(last)
    else:
        if last is None:
            _try_judge(plan, say)
        os.environ.setdefault("WANDB_PROJECT", trainer.args.project)  # transformers names it in no other way
        with saving_on_error(trainer, recorder, say), stopping_cleanly(recorder, say):
            trainer.train(resume_from_checkpoint=None if last is None else str(last))
    folder.write_table(plan.curriculum.table)
    if recorder.spent:
        write_model(trainer, folder.model)
    return recorder.spent


def _notes(plan: Plan) -> list[str]:
    """What a person should know before the run starts, in sentences."""
    settings, curriculum = plan.settings, plan.curriculum
    sentences = [*plan.reward.notes, *plan.prompts.notes, precision_warning(settings.precision)]
    sentences += plan.overlaps()
    if curriculum.signal_parts and settings.signal is None:
        sentences.append(describe_signal(curriculum.signal_parts))
    sentences.append(_beyond_context(plan))
    return [sentence for sentence in sentences if sentence is not None]


def _try_judge(plan: Plan, say: Callable[[str], None]) -> None:
    """Ask the policy for ten judgments if the selection relies on them, and say how many cannot be read."""
    predictor = getattr(plan.curriculum.selection, "predictor", None)
    if predictor is None or not hasattr(predictor, "trial"):
        return
    numbers = np.arange(min(10, plan.curriculum.table.size))
    with beside_training(plan.model, plan.settings.seed):
        share = predictor.trial(numbers)
    failed = f"{len(numbers) - round(share * len(numbers))} of the policy's first {len(numbers)} judgments"
    if share == 0:
        say(
            f"{failed} cannot be read, and METIS chooses at random as long as none can: give it an "
            "instruction-tuned model, more max_tokens or another template, or take frontier"
        )
    elif share <= 0.5:
        say(f"{failed} cannot be read; a prompt whose judgment fails is chosen last")


def _try_prompts(plan: Plan, data: Sequence[PromptSet]) -> None:
    """Tokenize a text, and a conversation of each sequence of roles, which chat templates may refuse.

    Where tokens were added to the tokenizer and not to the model, any prompt may have one of them.
    """
    model, tokenizer = plan.loaded
    has_more = len(tokenizer) > model.get_input_embeddings().weight.shape[0]
    tried = set()
    for prompt in (row["prompt"] for prompts in data for row in prompts):
        form = "" if isinstance(prompt, str) else tuple(message["role"] for message in prompt)
        if has_more or form not in tried:
            tried.add(form)
            readable_ids(model, tokenizer, prompt)


TEMPLATE_TOKENS = 256
"""Tokens that a chat template may add to a prompt."""


def _beyond_context(plan: Plan) -> str | None:
    """The sentence for a run some of whose prompts and completions do not fit into the model's context.

    Raises:
        ConfigError: none of them fits.
    """
    positions = getattr(plan.model.config.get_text_config(), "max_position_embeddings", None)
    if not positions:
        return None
    room = positions - (plan.settings.max_completion_length or 1)
    lengths = {}
    for number, row in enumerate(plan.prompts):
        # no token is shorter than a byte, so that short texts need no tokens to be counted
        if len(json.dumps(row["prompt"], ensure_ascii=False).encode()) + TEMPLATE_TOKENS > room:
            lengths[number] = len(prompt_ids(plan.tokenizer, row["prompt"]))
    too_long = [number for number, length in lengths.items() if length > room]
    if not too_long:
        return None
    sentence = (
        f"{len(too_long):,} of {len(plan.prompts):,} prompts are longer than the model's context of "
        f"{positions:,} positions leaves room for beside {positions - room:,} tokens of completion (row "
        f"{too_long[0]} has {lengths[too_long[0]]:,} tokens)"
    )
    if len(too_long) == len(plan.prompts):
        raise ConfigError(f"{sentence}: shorten them or --max-completion-length, or take another model")
    return f"{sentence}: the model was never trained on such positions; leave these rows out"


def _find_checkpoint(folder: RunFolder, recorder: Recorder, say: Callable[[str], None]) -> Path | None:
    """The checkpoint to go on from, None for the start; drops the lines that were written after it."""

    def remove(path: Path) -> None:
        say(f"{path} was cut off while it was saved, and is removed")
        shutil.rmtree(path)

    last = checkpoints.newest(folder.checkpoints, cut_off=remove)
    if last is not None:
        checkpoints.check_state(last)
    recorder.resume(-1 if last is None else checkpoints.step_of(last))
    if last is not None and not recorder.spent:
        # without both, transformers goes on with new ones and says nothing
        missing = [name for name in ("optimizer.pt", "scheduler.pt") if not (last / name).is_file()]
        if missing:
            say(f"{last} has no {missing[0]}: the optimizer and the warm-up begin anew")
    return last


def _trainer(plan: Plan, recorder: Recorder) -> CurriculumGRPOTrainer:
    plays = plan.environment is not None
    trainer = CurriculumGRPOTrainer(
        model=plan.model,
        processing_class=plan.tokenizer,
        reward_funcs=row_rewards(
            plan.reward, plan.prompts, end_ids(plan.model, plan.tokenizer), environment=plays
        ),
        train_dataset=training_set(plan.prompts, environment=plays),
        curriculum=plan.curriculum,
        fill=plan.fill,
        environment=plan.environment,
        on_groups=recorder.on_groups,
        write_run=False,
        share_prompts=plan.settings.share_prompts,
        skip_empty_steps=plan.settings.skip_empty_steps,
        scale_rate=plan.settings.scale_rate,
        log_all_metrics=True,
        no_check=True,  # the command has checked the rows
        args=grpo_arguments(plan.settings, recorder.folder, list(plan.reward.weights.values())),
        callbacks=[recorder],
        peft_config=lora_config(plan.settings.lora_rank),
    )
    trainer.remove_callback(ProgressCallback)
    trainer.remove_callback(PrinterCallback)
    if plan.settings.log is not None:
        for callback in trainer.callback_handler.callbacks:
            if isinstance(callback, TensorBoardCallback) and callback.logging_dir is None:
                callback.logging_dir = str(recorder.folder.path / "tensorboard")
    return trainer


def _accuracy(plan: Plan, held_out: Sequence[HeldOut], trainer: CurriculumGRPOTrainer) -> dict[str, float]:
    """Measure one data set as `eval/...`; several as `eval/NAME/...`, and their means as `eval/...`."""
    settings, scores = plan.settings, dict[str, dict[str, float]]()
    for part in held_out:
        is_own = part.reward is plan.reward  # a suite's rewards are from 0 to 1
        with trainer.accelerator.autocast():  # it rounds the weights once, and not again for every token
            scores[part.name] = evaluate(
                trainer.accelerator.unwrap_model(trainer.model),
                plan.tokenizer,
                part.prompts,
                part.reward,
                environment=part.environment,
                samples=settings.eval_samples,
                settings=SamplingSettings(settings.max_completion_length or 1, settings.temperature),
                reward_range=plan.curriculum.table.reward_range if is_own else (0.0, 1.0),
                signal=plan.curriculum.signal_parts if is_own else (),
                seed=settings.seed,
            )
    first = scores[held_out[0].name]
    if len(scores) == 1:
        return first
    means = {name: float(np.mean([values[name] for values in scores.values()])) for name in first}
    return means | {
        name.replace("eval/", f"eval/{part}/", 1): value
        for part, values in scores.items()
        for name, value in values.items()
    }
