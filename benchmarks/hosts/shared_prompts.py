"""What a step of TRL costs with every group's prompt computed once, and flat groups not trained on.

    python -m benchmarks.hosts.shared_prompts                      # the setting of make pretrained: 4 minutes
    python -m benchmarks.hosts.shared_prompts --data lab:chains    # the lab: half a minute

Four processes train the same model, a step each in turn, so that what else the machine does meets all alike:
one as TRL trains, one that shares prompts, one that also multiplies in bfloat16, and one that also leaves the
groups without signal out of the loss, as curro does. Seconds of
processor time are split into generation (with its one prefill a prompt), the loss (all forward and backward
passes) and the whole step with the optimizer's update. The first step of each, which fills caches, is not
counted.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
import typer
from transformers import PrinterCallback, ProgressCallback, TrainerCallback

from curro.hosts.trl import CurriculumGRPOTrainer
from curro.hosts.trl.fast import accelerated
from curro.rollout.engines.plain_generation import end_ids
from curro.runs.folder import RunFolder
from curro.training.plan import plan
from curro.training.run import grpo_arguments
from curro.training.settings import TrainSettings
from curro.training.trl_arguments import row_rewards, training_set

PRETRAINED = Path("runs/pretrained")
PARTS = ("generation", "loss", "step")


class Timed(CurriculumGRPOTrainer):
    """Adds up the seconds of generations and of losses."""

    seconds: defaultdict[str, float]

    def _generate_single_turn(self, *args: Any, **kwargs: Any) -> Any:
        begun = time.process_time()
        completions = super()._generate_single_turn(*args, **kwargs)
        self.seconds["generation"] += time.process_time() - begun
        return completions

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        """TRL's, which generates first where a generation is due."""
        begun, before = time.process_time(), self.seconds["prepared"]
        loss = super().training_step(*args, **kwargs)
        prepared = self.seconds["prepared"] - before
        self.seconds["loss"] += time.process_time() - begun - prepared
        return loss

    def _prepare_inputs(self, *args: Any, **kwargs: Any) -> Any:
        begun = time.process_time()
        inputs = super()._prepare_inputs(*args, **kwargs)
        self.seconds["prepared"] += time.process_time() - begun
        return inputs


class InTurn(TrainerCallback):
    """Lets the trainers make a step each, one after the other, and keeps the seconds of each."""

    def __init__(self, mine: Any, following: Any) -> None:
        self._mine, self._following = mine, following
        self.steps: list[dict[str, float]] = []
        self.trainer: Timed

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._mine.acquire()
        self.trainer.seconds = defaultdict(float)
        self._begun = time.process_time()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.trainer.seconds["step"] = time.process_time() - self._begun
        self.steps.append(dict(self.trainer.seconds))
        self._following.release()


def trainer_of(settings: TrainSettings, folder: Path, turn: InTurn) -> Timed:
    """As `curro train` makes it, without a run folder."""
    prepared = plan(settings)
    run = RunFolder.create(folder, {"settings": prepared.settings.as_dict()})
    ends = end_ids(prepared.model, prepared.tokenizer)
    trainer = Timed(
        model=prepared.model,
        processing_class=prepared.tokenizer,
        reward_funcs=row_rewards(prepared.reward, prepared.prompts, ends, environment=False),
        train_dataset=training_set(prepared.prompts, environment=False),
        curriculum=prepared.curriculum,
        write_run=False,
        share_prompts=settings.share_prompts,
        args=grpo_arguments(prepared.settings, run, list(prepared.reward.weights.values())),
        callbacks=[turn],
    )
    trainer.remove_callback(ProgressCallback)
    trainer.remove_callback(PrinterCallback)
    trainer.seconds = defaultdict(float)
    turn.trainer = trainer
    return trainer


def work(
    settings: TrainSettings, trains_flat: bool, mine: Any, following: Any, answers: Any, number: int
) -> None:
    """Train in a process of its own and send the seconds of the steps.

    Args:
        trains_flat: whether groups without signal go through the loss, as in TRL.
    """
    torch.set_num_threads(1)
    if trains_flat:
        accelerated.only_advantages_teach = lambda trainer: False
    turn = InTurn(mine, following)
    with tempfile.TemporaryDirectory() as folder:
        trainer_of(settings, Path(folder) / "run", turn).train()
    answers.put((number, turn.steps))


def main(
    data: Annotated[str, typer.Option(help="As of curro train.")] = str(PRETRAINED / "chain_sum_hard.jsonl"),
    model: Annotated[str, typer.Option(help="A model, where the data are not the lab's.")] = str(
        PRETRAINED / "model"
    ),
    steps: Annotated[int, typer.Option(help="Steps of each trainer, with the first.")] = 5,
    length: Annotated[int, typer.Option(help="The most tokens of a completion; 0: the recipe's.")] = 6,
) -> None:
    plain = TrainSettings(data=data, curriculum="uniform", share_prompts=False, save_every=10_000)
    if not data.startswith("lab:"):
        plain = replace(
            plain, model=model, reward="math", max_completion_length=length or None, prompts_per_step=4
        )
    per_step = plain.complete(10**6).rollouts_per_step
    plain = replace(plain, rollouts=steps * per_step)
    kinds = {
        "as TRL": plain,
        "prompts shared": replace(plain, share_prompts=True),
        "shared, bfloat16": replace(plain, share_prompts=True, precision="bfloat16"),
        "and no flat groups": replace(plain, share_prompts=True, precision="bfloat16"),
    }
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    turns = [context.Semaphore(int(i == 0)) for i in range(len(kinds))]
    processes = [
        context.Process(
            target=work,
            args=(settings, i < len(kinds) - 1, turns[i], turns[(i + 1) % len(kinds)], answers, i),
        )
        for i, settings in enumerate(kinds.values())
    ]
    for process in processes:
        process.start()
    steps_of = dict(answers.get() for _ in processes)
    for process in processes:
        process.join()
    seconds = [
        {part: float(np.median([step[part] for step in steps_of[i][1:]])) for part in PARTS}
        for i in range(len(kinds))
    ]
    print(f"{steps - 1} steps of {per_step} rollouts each, {data}; seconds of a core, and times faster")
    for name, spent in zip(kinds, seconds, strict=True):
        cells = [f"{part} {spent[part]:7.3f} s {seconds[0][part] / spent[part]:5.2f}x" for part in PARTS]
        print(f"{name:20}" + "   ".join(cells))


if __name__ == "__main__":
    typer.run(main)
