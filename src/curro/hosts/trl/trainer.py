"""A GRPOTrainer that rolls out the prompts a curriculum chooses, with no lag between rewards and choice."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from datasets import Dataset

from curro.admission.gate import Gate
from curro.curriculum import Curriculum
from curro.environments.environment import Environment
from curro.errors import ConfigError
from curro.evaluation.results import held_out_scores
from curro.hosts.trl.batches import (
    KeptGroup,
    Rows,
    count_tokens,
    cut,
    describe_batch,
    describe_rewards,
    fitted,
    merge_rows,
    replace_latest,
    write,
)
from curro.hosts.trl.checkpoint import WrittenRun
from curro.hosts.trl.checks import RowIdentity, check_admission, check_allocation, check_batch
from curro.hosts.trl.observe import GroupObserver
from curro.hosts.trl.owner import on_owner, own_share
from curro.hosts.trl.policy import TrainedPolicy
from curro.hosts.trl.records import GroupRecord
from curro.hosts.trl.rollout_trainer import RolloutTrainer
from curro.hosts.trl.rounds import RoundEngine, fill_in_rounds
from curro.rollout.fill import Fill, sized
from curro.rollout.fill_settings import FillSettings
from curro.runs.writer import KeepRollouts
from curro.selection.base import Selection
from curro.verdicts import Verdict


class CurriculumGRPOTrainer(RolloutTrainer):
    """TRL's GRPOTrainer with a curriculum; everything else is TRL's.

    The prompts of a generation are chosen when it starts, after the rewards of the one before, so the
    data loader's order does not matter and there is no lag. The main process owns the curriculum and
    tells the others what it chose. Evaluation is TRL's, untouched. Checkpoints hold the curriculum and,
    where one falls between a generation and its last update, the rollouts that are left, so that a resumed
    run goes on as an uninterrupted one.

    The sum of the weighted rewards decides informativeness, and the reward functions' own values reach the
    curriculum as named rewards, under the functions' names; a rollout for which every reward function
    returned None is not scored. Without an `advantage` in the curriculum the advantages are TRL's.

    A curriculum that asks the policy something (METIS) is lent it, and what it wants trained on besides the
    rollouts joins the loss of the same optimizer steps, whatever the `loss_type`.

    Args:
        curriculum: a `Curriculum` over the rows of `train_dataset`, or a selection method's name or
            dict, from which one is built with `args.seed`.
        admission: which finished groups are trained on, where `curriculum` is not a `Curriculum` yet. With
            one, each generation goes on until its batch is full of admitted groups; rejected groups are
            observed, and appear in the metrics `fill/...` alone.
        fill: when filling a batch gives up, and what happens then, "top-up" or "error".
        environment: plays every rollout, of evaluations too, as an episode of several turns, and scores it,
            unless reward functions are given, which find its reward in the column `episode_reward`.
        on_groups: called on the main process with every `GroupRecord`, rejected groups included.
        write_run: write groups and metrics to the folder `curro` in `args.output_dir`, for `curro watch`.
        keep: how many rollouts of each group are kept there to be read.
        args, kwargs: as GRPOTrainer takes them; `train_dataset` is a `datasets.Dataset`.

    Raises:
        ConfigError: a dataset without length, one smaller than a batch, a curriculum over another number
            of prompts, or a batch that cannot be filled.
        FillError: while training, a batch that stayed short, where `fill` says that this is an error.
    """

    _logs: dict[str, Any]

    def __init__(
        self,
        *args: Any,
        curriculum: Curriculum | Selection | str | Mapping[str, Any],
        admission: Gate | str | Mapping[str, Any] | None = None,
        fill: FillSettings = FillSettings(),  # noqa: B008 - frozen
        environment: Environment | None = None,
        on_groups: Callable[[GroupRecord], None] | None = None,
        write_run: bool = True,
        keep: KeepRollouts = KeepRollouts(),  # noqa: B008 - frozen
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, environment=environment, **kwargs)
        if not isinstance(self.train_dataset, Dataset):
            raise ConfigError(
                "a curriculum needs a `datasets.Dataset` to choose from: "
                f"train_dataset is {type(self.train_dataset).__name__}"
            )
        if not isinstance(curriculum, Curriculum):
            rows = RowIdentity(self.train_dataset)
            curriculum = Curriculum(curriculum, rows, admission=admission, seed=self.args.seed)
        elif admission is not None:
            raise ConfigError("the curriculum has its own admission: give it to `Curriculum` alone")
        self.curriculum = curriculum
        prompts = len(self.train_dataset)
        check_batch(curriculum, self.args, prompts)
        repeats = curriculum.selection.repeats
        self._fill: Fill[KeptGroup] = Fill(fill, size=prompts, may_repeat=repeats, weigh=len, unit="rollouts")
        if curriculum.has_admission:
            check_admission(curriculum, self.args, fill.when_short, self.accelerator.num_processes)
        if curriculum.has_allocation:
            check_allocation(curriculum, self.args)
        self._written_run: WrittenRun | None = None
        if write_run and self.accelerator.is_main_process:
            self._written_run = WrittenRun(Path(cast(str, self.args.output_dir)), curriculum, keep)
        listeners = [on_groups] if on_groups is not None else []
        listeners += [self._written_run.groups] if self._written_run is not None else []
        self._observer = GroupObserver(
            self.accelerator, curriculum, self.reward_weights, self.reward_func_names, listeners
        )
        self._held_out: list[np.ndarray] = []
        self._auxiliary = []
        self.policy = TrainedPolicy(self._model_access())
        if self.accelerator.is_main_process:
            curriculum.attach(self.policy)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        if not self.model.training:  # type: ignore[union-attr]
            return self._evaluated(inputs)
        self._auxiliary, self.policy.seconds = [], 0.0
        self._observer.auxiliary_samples = self._auxiliary
        fill = self._filled if self._needs_rounds else self._drawn
        output = fill(len(inputs))
        if self.accelerator.is_main_process:
            metrics = self.curriculum.metrics()
            for name, value in metrics.items():
                self._metrics["train"][f"curriculum/{name}"].append(value)
            if self._written_run is not None:
                self._written_run.step(self.state.global_step, metrics | self.generation_metrics())
        return output

    def generation_metrics(self) -> dict[str, float]:
        """TRL's own numbers of the latest generation's completions, and of how its batch was filled."""
        found = self._metrics["train"].items()
        return {name: one[-1] for name, one in found if one and name.startswith(("completions/", "fill/"))}

    @property
    def _needs_rounds(self) -> bool:
        """Whether a generation may go on: groups are rejected and replaced, or get further rollouts."""
        return self.curriculum.has_admission or not self.curriculum.allocation.needs_budget

    def _drawn(self, rows: int) -> dict[str, Any]:
        """One draw, rolled out and trained on whatever its rewards."""
        total, step = rows * self.accelerator.num_processes, self.state.global_step
        number, budget = total // self.num_generations, total if self.curriculum.has_allocation else None
        drawn = on_owner(
            self.accelerator,
            lambda: sized(self.curriculum.select(number, step=step, rollouts=budget), self.num_generations),
        )
        try:
            generated = self._roll_out_prompts(np.repeat(drawn.prompts, drawn.rollouts).tolist())
        except BaseException:
            if self.accelerator.is_main_process:
                self.curriculum.drop(drawn.tickets)
            raise
        output = generated.output
        verdict = self._observer.observe(drawn, generated.rewards, generated.completions, step)
        if budget is not None:
            self._replace_statistics(generated.rewards, verdict)
        if self.curriculum.has_advantage:
            credit_PG = self.curriculum.credit(verdict)
            credit = torch.from_numpy(credit_PG[np.arange(credit_PG.shape[1]) < drawn.rollouts[:, None]])
            output["advantages"] = own_share(self.accelerator, credit).to(output["advantages"])
            replace_latest(self._logs["advantages"], credit.tolist())
        return output

    def _filled(self, rows: int) -> dict[str, Any]:
        """Rounds until the batch is full of finished, admitted groups; every process gets an equal share."""
        processes, total = self.accelerator.num_processes, rows * self.accelerator.num_processes
        engine = RoundEngine(
            self.accelerator, self._fill, self._observer, self._roll_out_prompts, size=self.num_generations,
            step=self.state.global_step, metrics=self._metrics, logs=self._logs,
        )  # fmt: skip
        try:
            groups = fill_in_rounds(
                self._fill, total, engine.step, engine, processes=processes,
                keep=self.curriculum.allocation.keep,
            )  # fmt: skip
        finally:
            held = self._fill.release()
            if held:
                self.curriculum.drop(held)
        batch = fitted(groups, total)
        output = self._merged([part for group in batch for part in group.rows], rows)
        if self.curriculum.has_advantage:
            credit_PG = self.curriculum.credit([group.verdict for group in batch])
            for group, credit_G in zip(batch, credit_PG, strict=True):
                group.logs["advantages", None] = credit_G[: len(group)].tolist()
            credit = torch.tensor([one for group in batch for one in group.logs["advantages", None]])
            output["advantages"] = own_share(self.accelerator, credit).to(output["advantages"])
        described = self._described(batch) | self._fill.batch_counts.metrics()
        write(self._metrics["train"], self._logs, engine.written, described, batch)
        return output

    def _evaluated(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """TRL's generation of held-out prompts; their rewards are kept for `evaluate`."""
        self.rows = inputs
        output = super()._generate_and_score_completions(inputs)
        size = cast(Any, self).num_generations_eval
        sizes_P = np.full(len(self._rewards) // size, size)
        self._held_out.append(self._observer.report(self._rewards, sizes_P).rewards)
        return output

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: Any = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """TRL's; once training has begun, its rewards also reach the run folder, as pass@k."""
        begun, self._held_out = time.perf_counter(), []
        metrics = super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)
        rewards, self._held_out = self._held_out, []
        if rewards and self._written_run is not None and (self.is_in_train or self._written_run.has_begun):
            scores = held_out_scores(np.concatenate(rewards), self.curriculum.table.reward_range)
            name = metric_key_prefix.replace("eval_", "eval/", 1)  # TRL's of one of several data sets
            named = {key.replace("eval", name, 1): value for key, value in scores.items()}
            self._written_run.evaluated(self.state.global_step, named, time.perf_counter() - begun)
        return metrics

    def _replace_statistics(self, rewards: torch.Tensor, verdict: Verdict) -> None:
        """TRL takes every `num_generations` rows for a group: write down the true groups instead."""
        is_flat = self.curriculum.table.is_flat(verdict.informativeness)
        rewards, weights = rewards.double().cpu(), self.reward_weights.double().cpu()
        for name, value in describe_rewards(rewards, self.reward_func_names, weights, is_flat).items():
            self._metrics["train"][name][-1:] = [value]

    def _merged(self, parts: list[Rows], rows: int) -> dict[str, Any]:
        """TRL's output of this process's rows of a batch."""
        accelerator, rank = self.accelerator, self.accelerator.process_index
        output = merge_rows(
            cut(parts, rank * rows, (rank + 1) * rows),
            device=accelerator.device,
            pad_token=cast(Any, self)._tokenizer.pad_token_id,
            pad_to_multiple_of=cast(Any, self).pad_to_multiple_of,
        )
        output["num_items_in_batch"] = accelerator.gather(count_tokens(output)).sum()
        return output

    def _described(self, batch: list[KeptGroup]) -> dict[str, float]:
        """TRL's metrics of generation, under TRL's names, of the groups that are trained on."""
        variances_P = np.array([group.verdict.informativeness[0] for group in batch])
        return describe_batch(
            batch,
            self.reward_func_names,
            self.reward_weights.double().cpu(),
            self.curriculum.table.is_flat(variances_P),
            pad_token=cast(Any, self)._tokenizer.pad_token_id,
            ends=cast(Any, self).eos_token_ids,
        )
