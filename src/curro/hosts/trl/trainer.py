"""A GRPOTrainer that rolls out the prompts a curriculum chooses, with no lag between rewards and choice."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from accelerate.utils import gather_object
from datasets import Dataset

from curro.admission.gate import Gate
from curro.curriculum import Curriculum
from curro.draws import Draw
from curro.environments.environment import Environment, episode_reward
from curro.errors import ConfigError, ExhaustedError
from curro.evaluation.pass_at_k import held_out_scores
from curro.hosts.trl.arguments import check_admission, check_allocation, check_batch
from curro.hosts.trl.auxiliary_trainer import AuxiliaryLossTrainer
from curro.hosts.trl.books import Metrics, apart, describe_completions, describe_rewards, write
from curro.hosts.trl.episodes import EpisodeRollouts
from curro.hosts.trl.identity import RowIdentity
from curro.hosts.trl.kept_groups import (
    KeptGroup,
    Rows,
    check_mergeable,
    count_tokens,
    cut,
    fitted,
    merge_rows,
    rows_of,
)
from curro.hosts.trl.open_groups import OpenGroups
from curro.hosts.trl.owner import on_owner
from curro.hosts.trl.policy import ModelAccess, TrainedPolicy
from curro.hosts.trl.records import GroupRecord
from curro.hosts.trl.reward_groups import Report
from curro.hosts.trl.rounds import Engine, Settled, fill_in_rounds
from curro.policy import AuxiliarySamples
from curro.reward.trl import completion_text, trl_reward
from curro.rollout.fill import Fill
from curro.rollout.fill_settings import FillSettings
from curro.rollout.fresh_draws import draw_fresh, sized
from curro.rollout.settle import release
from curro.run_writer import Completion, KeepRollouts, RunWriter
from curro.selection.base import Selection
from curro.verdicts import Verdict

SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
"""Of the rollouts, and of the answers of a policy that is asked something."""


class CurriculumGRPOTrainer(AuxiliaryLossTrainer):
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

    train_dataset: Dataset
    num_generations: int
    _logs: dict[str, Any]
    rows: list[dict[str, Any]]

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
        if environment is not None:
            if kwargs.get("rollout_func") is not None:
                raise ConfigError("an environment plays the rollouts: give it or a rollout_func, not both")
            if len(args) < 2:
                kwargs.setdefault("reward_funcs", trl_reward(episode_reward("environment")))
        super().__init__(*args, **kwargs)
        if environment is not None:
            self.rollout_func = cast(Any, EpisodeRollouts(environment, lambda: self.rows))
        self.environment = environment
        self.on_groups = on_groups
        self._writes_run, self._keep = write_run and self.accelerator.is_main_process, keep
        self._writer: RunWriter | None = None
        self._held_out: list[np.ndarray] = []
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
        self._written: Metrics = defaultdict(list)
        self._open = OpenGroups()
        if curriculum.has_admission:
            check_admission(curriculum, self.args, fill.when_short, self.accelerator.num_processes)
        if curriculum.has_allocation:
            check_allocation(curriculum, self.args)
        self._auxiliary: list[AuxiliarySamples] = []
        self.policy = TrainedPolicy(self._model_access())
        if self.accelerator.is_main_process:
            curriculum.attach(self.policy)

    def _model_access(self) -> ModelAccess:
        host = cast(Any, self)
        return ModelAccess(
            accelerator=self.accelerator,
            model=lambda: self.model,
            wrapped=lambda: self.model_wrapped,
            is_split=lambda: self.is_fsdp_enabled or self.is_deepspeed_enabled,
            prompts=lambda number: self.train_dataset[number],
            tokenizer=host._tokenizer,
            template=host.chat_template,
            template_options=host.chat_template_kwargs,
            tokenize_prompts=lambda prompts: host._tokenize_prompts(prompts),
            sampling={name: getattr(host, name) for name in SAMPLING}
            | {
                "pad_token_id": host._tokenizer.pad_token_id,
                "bos_token_id": host._tokenizer.bos_token_id,
                "eos_token_id": host.eos_token_ids,
            },
            environment=self.environment,
            max_completion_length=cast(int, self.max_completion_length),
            reward_functions=host.reward_funcs,
            rows=cast(int, self.args.generation_batch_size) // self.accelerator.num_processes,
            gradient_checkpointing_kwargs=self.args.gradient_checkpointing_kwargs,
        )

    # ------------------------------ generation ------------------------------

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        if not self.model.training:  # type: ignore[union-attr]
            self.rows = inputs
            output = super()._generate_and_score_completions(inputs)
            size = cast(Any, self).num_generations_eval
            sizes = np.full(len(self._rewards) // size, size)
            self._held_out.append(self._report(self._rewards, sizes).rewards)
            return output
        self._auxiliary, self.policy.seconds = [], 0.0
        fill = self._filled if self._needs_rounds else self._drawn
        output = fill(len(inputs))
        if self.accelerator.is_main_process:
            metrics = self.curriculum.metrics()
            for name, value in metrics.items():
                self._metrics["train"][f"curriculum/{name}"].append(value)
            if self._writer is not None:
                self._writer.step(self.state.global_step + 1, metrics | self.generation_metrics())
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
            output = self._roll_out_prompts(np.repeat(drawn.prompts, drawn.rollouts).tolist())
        except BaseException:
            if self.accelerator.is_main_process:
                self.curriculum.drop(drawn.tickets)
            raise
        verdict = self._observed(drawn, self._rewards, gather_object(self._completions))
        if budget is not None:
            self._replace_statistics(verdict)
        if self.curriculum.has_advantage:
            credit_PG = self.curriculum.credit(verdict)
            credit = torch.from_numpy(credit_PG[np.arange(credit_PG.shape[1]) < drawn.rollouts[:, None]])
            output["advantages"] = self._own(credit, rows).to(output["advantages"])
            logged = self._logs["advantages"]
            for _ in range(min(len(credit), len(logged))):
                logged.pop()
            logged.extend(credit.tolist())
        return output

    def _filled(self, rows: int) -> dict[str, Any]:
        """Rounds until the batch is full of finished, admitted groups; every process gets an equal share."""
        processes, total = self.accelerator.num_processes, rows * self.accelerator.num_processes
        self._written, self._open = defaultdict(list), OpenGroups()
        try:
            groups = fill_in_rounds(
                self._fill, total, self.state.global_step, cast(Engine[KeptGroup], self), processes=processes,
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
            output["advantages"] = self._own(credit, rows).to(output["advantages"])
        described = self._described(batch) | self._fill.batch_counts.metrics()
        write(self._metrics["train"], self._logs, self._written, described, batch)
        return output

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: Any = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """TRL's; once training has begun, its rewards also reach the run folder, as pass@k."""
        begun, self._held_out = time.perf_counter(), []
        metrics = super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)
        rewards, self._held_out = self._held_out, []
        if rewards and self._writes_run and (self.is_in_train or self._writer is not None):
            scores = held_out_scores(np.concatenate(rewards), self.curriculum.table.reward_range)
            name = metric_key_prefix.replace("eval_", "eval/", 1)  # TRL's of one of several data sets
            named = {key.replace("eval", name, 1): value for key, value in scores.items()}
            self._run_writer().evaluated(self.state.global_step, named, time.perf_counter() - begun)
        return metrics

    # ------------------------------ what the rounds ask for ------------------------------

    def draw(self, rows: int) -> Draw:
        """New groups for about so many rows."""
        drawn = on_owner(self.accelerator, lambda: self._draw(rows))
        if not self.accelerator.is_main_process:
            self._fill.give_out(drawn)
        self._open.start(drawn)
        return drawn

    def roll_out(self, numbers: Mapping[int, int]) -> None:
        """Generate and score so many rollouts of each of these open tickets."""
        with apart(self._metrics, self._logs) as (metrics, logs):
            output = self._roll_out_prompts(self._open.prompts(numbers))
        check_mergeable(output)
        for name, values in metrics.items():
            self._written[name] += values
        completions = gather_object(self._completions)
        self._open.add(numbers, gather_object([rows_of(output)]), self._rewards, logs, completions)

    def more(self, tickets: Sequence[int]) -> Sequence[int]:
        """How many further rollouts each of these open tickets is to get."""
        if self.curriculum.allocation.needs_budget:
            return [0] * len(tickets)
        report = self._report(self._open.rewards(tickets), self._open.sizes(tickets))
        return on_owner(
            self.accelerator, lambda: self.curriculum.more(tickets, **report.arguments()).tolist()
        )

    def settle(self, tickets: Sequence[int]) -> Settled[KeptGroup]:
        """Observe these groups."""
        drawn, rewards = self._open.drawn(tickets), self._open.rewards(tickets)
        verdict = self._observed(drawn, rewards, self._open.completions(tickets))
        means_P = self._report(rewards, drawn.rollouts).means
        return Settled(verdict, means_P, self._open.close(tickets, verdict))

    def drop(self, tickets: Sequence[int]) -> None:
        """Settle what is still open of these tickets."""
        if self.accelerator.is_main_process:
            release(self.curriculum, tickets)

    def _draw(self, rows: int) -> Draw:
        """Runs on the owner; as `draw`."""
        curriculum, fill, size = self.curriculum, self._fill, self.num_generations
        processes, step = self.accelerator.num_processes, self.state.global_step
        untried, budget = fill.untried, None
        number = -(-rows // size)
        if not curriculum.has_allocation:
            number = int(min(-(-number // processes), untried // processes)) * processes
        elif curriculum.allocation.needs_budget:
            number = int(min(number, untried))
            budget = -(-number * size // processes) * processes
        else:
            first, keep = curriculum.allocation.first, curriculum.allocation.keep
            number = int(min(max(1, rows // min(first, keep or first)), fill.n // size, untried))
        if not number:
            raise ExhaustedError(fill.explain("prompts"))
        return sized(draw_fresh(curriculum, fill, number, step=step, rollouts=budget), size)

    def _roll_out_prompts(self, prompts: list[int]) -> dict[str, Any]:
        """TRL's output of this process's part of these prompts of all processes, one a rollout."""
        mine = self._own(prompts, len(prompts) // self.accelerator.num_processes)
        row = {prompt: self.train_dataset[prompt] for prompt in dict.fromkeys(mine)}
        self.rows = [dict(row[prompt]) for prompt in mine]
        usual = self.num_generations
        if self.curriculum.has_allocation:
            self.num_generations = len(prompts)  # TRL's groups have one size; nothing of them is used
        try:
            return super()._generate_and_score_completions(self.rows)
        finally:
            self.num_generations = usual

    def _generate_single_turn(
        self,
        prompt_ids: Any,
        images: Any,
        multimodal_fields: Any,
        num_generations: int,
        has_tool_images: bool = False,
    ) -> Any:
        """TRL's; of groups of different sizes, a vLLM server is asked for each rollout by itself."""
        if self.curriculum.has_allocation and self.model.training:  # type: ignore[union-attr]
            num_generations = 1
        return super()._generate_single_turn(
            prompt_ids, images, multimodal_fields, num_generations, has_tool_images
        )

    def _calculate_rewards(
        self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any
    ) -> torch.Tensor:
        host = cast(Any, self)
        self._rewards: torch.Tensor = super()._calculate_rewards(
            inputs, prompts, completions, completion_ids_list
        )
        ends = {*host.eos_token_ids, host._tokenizer.pad_token_id}
        self._completions = [
            Completion(completion_text(text), len(ids), not ids or ids[-1] not in ends)
            for text, ids in zip(completions, completion_ids_list, strict=True)
        ]
        return self._rewards

    def _report(self, rewards: torch.Tensor, sizes: np.ndarray) -> Report:
        return Report.of(rewards, self.reward_weights, self.reward_func_names, sizes)

    def _observed(self, draw: Draw, rewards: torch.Tensor, completions: list[Completion]) -> Verdict:
        """The curriculum's verdict on groups with these rollouts of all processes, one after the other."""
        verdict = on_owner(self.accelerator, lambda: self._observe(draw, rewards, completions))
        if verdict.auxiliary_samples is not None:
            self._auxiliary.append(verdict.auxiliary_samples)
        return verdict

    def _observe(self, draw: Draw, rewards: torch.Tensor, completions: list[Completion]) -> Verdict:
        """Report rewards to the curriculum; runs on the owner."""
        report, sizes = self._report(rewards, draw.rollouts), draw.rollouts
        try:
            verdict = self.curriculum.observe(draw.tickets, **report.arguments())
        except BaseException:
            self.curriculum.drop(draw.tickets)
            raise
        ends = np.cumsum(sizes).tolist()
        groups = [completions[end - size : end] for end, size in zip(ends, sizes.tolist(), strict=True)]
        step = self.state.global_step
        if self.on_groups is not None:
            self.on_groups(GroupRecord(step, draw, report.rewards, verdict, groups))
        if self._writes_run:
            self._run_writer().groups(step + 1, draw.reasons, report.rewards, verdict, sizes, groups)
        return verdict

    def _run_writer(self) -> RunWriter:
        if self._writer is None:
            output, config = Path(cast(str, self.args.output_dir)), {"curriculum": self.curriculum.config}
            step, table = self.state.global_step, self.curriculum.table
            self._writer = RunWriter.of_host(output, config, table, step, self._keep)
        return self._writer

    def _replace_statistics(self, verdict: Verdict) -> None:
        """TRL takes every `num_generations` rows for a group: write down the true groups instead."""
        is_flat = self.curriculum.table.is_flat(verdict.informativeness)
        rewards, weights = self._rewards.double().cpu(), self.reward_weights.double().cpu()
        for name, value in describe_rewards(rewards, self.reward_func_names, weights, is_flat).items():
            self._metrics["train"][name][-1:] = [value]

    def _own(self, everyone: Any, rows: int) -> Any:
        """This process's part of what all processes have one after the other."""
        rank = self.accelerator.process_index
        return everyone[rank * rows : (rank + 1) * rows]

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
        return describe_rewards(
            torch.cat([group.rewards for group in batch]).double(),
            self.reward_func_names,
            self.reward_weights.double().cpu(),
            self.curriculum.table.is_flat(variances_P),
        ) | describe_completions(
            [part for group in batch for part in group.rows],
            pad_token=cast(Any, self)._tokenizer.pad_token_id,
            ends=cast(Any, self).eos_token_ids,
        )
