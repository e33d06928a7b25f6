"""A GRPOTrainer that rolls out the prompts a curriculum chooses, with no lag between rewards and choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from datasets import Dataset
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from trl import GRPOConfig, GRPOTrainer

from curro.admission.gate import Gate
from curro.curriculum import Curriculum, Draw, Verdict
from curro.environments.environment import Environment, episode_reward
from curro.errors import ConfigError
from curro.hosts.fresh_draws import Source
from curro.hosts.trl import checkpoint as checkpoints
from curro.hosts.trl.episodes import EpisodeRollouts
from curro.hosts.trl.identity import RowIdentity
from curro.hosts.trl.lessons import lesson_loss, share_out
from curro.hosts.trl.owner import on_owner
from curro.hosts.trl.policy import TrainedPolicy
from curro.hosts.trl.refill import RefillSettings, fill
from curro.lessons import Lessons
from curro.reward.trl import trl_reward
from curro.selection.base import Selection


@dataclass(frozen=True)
class GroupRecord:
    """The groups of one generation: what was drawn, its rewards (P, G), NaN where not scored, the verdict."""

    step: int
    draw: Draw
    rewards: np.ndarray
    verdict: Verdict


class CurriculumGRPOTrainer(GRPOTrainer):
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
            one, each generation goes on until its batch is full of admitted groups; rejected ones are
            observed, and appear in the metrics `refill/...` alone.
        refill: what filling a batch may cost.
        environment: plays every rollout, of evaluations too, as an episode of several turns, and scores it,
            unless reward functions are given, which find its reward in the column `episode_reward`.
        on_groups: called on the main process with every `GroupRecord`, rejected groups included.
        args, kwargs: as GRPOTrainer takes them; `train_dataset` is a `datasets.Dataset`.

    Raises:
        ConfigError: a dataset without length, one smaller than a batch, a curriculum over another number
            of prompts, or a batch that cannot be refilled.
        FillError: while training, a batch that was not filled within `refill`'s limit.
    """

    args: GRPOConfig
    train_dataset: Dataset
    num_generations: int
    _logs: dict[str, Any]
    rows: list[dict[str, Any]]
    _buffered_inputs: list[dict[str, torch.Tensor]] | None  # type: ignore[assignment]

    def __init__(
        self,
        *args: Any,
        curriculum: Curriculum | Selection | str | Mapping[str, Any],
        admission: Gate | str | Mapping[str, Any] | None = None,
        refill: RefillSettings = RefillSettings(),  # noqa: B008 - frozen
        environment: Environment | None = None,
        on_groups: Callable[[GroupRecord], None] | None = None,
        **kwargs: Any,
    ) -> None:
        if environment is not None:
            if kwargs.get("rollout_func") is not None:
                raise ConfigError("an environment plays the rollouts: give it or a rollout_func, not both")
            if len(args) < 2:
                kwargs.setdefault("reward_funcs", trl_reward(episode_reward("environment")))
        super().__init__(*args, **kwargs)
        if environment is not None:
            self.rollout_func = cast(Any, EpisodeRollouts(environment))
        self.environment = environment
        self.on_groups, self.refill = on_groups, refill
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
        batch = cast(int, self.args.generation_batch_size) // self.num_generations
        if curriculum.table.size != prompts:
            raise ConfigError(
                f"the curriculum is over {curriculum.table.size} prompts, train_dataset has {prompts}"
            )
        if curriculum.filters:
            self._check_refill()
        if batch > prompts:
            raise ConfigError(
                f"a batch takes {batch} prompts and the data set has {prompts}: lower "
                "per_device_train_batch_size or steps_per_generation, or raise num_generations"
            )
        self._lessons: list[Lessons] = []
        self.policy = TrainedPolicy(self)
        if self.accelerator.is_main_process:
            curriculum.attach(self.policy)

    def _check_refill(self) -> None:
        local = cast(int, self.args.generation_batch_size) // self.accelerator.num_processes
        if local % self.num_generations:
            raise ConfigError(
                f"admission needs whole groups on every process: {local} completions a process are not "
                f"divided by num_generations = {self.num_generations}"
            )
        if self.args.scale_rewards == "batch" and not self.curriculum.credits:
            raise ConfigError(
                'scale_rewards="batch" divides by the deviation of rejected groups too: '
                'choose "group" or "none", or give the curriculum an advantage'
            )

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        if not self.model.training:  # type: ignore[union-attr]
            self.rows = inputs
            return super()._generate_and_score_completions(inputs)
        self._lessons, self.policy.seconds = [], 0.0
        if self.curriculum.filters:
            return fill(self, len(inputs))
        output, _, verdict = self.roll_out(len(inputs), self.curriculum)
        if self.curriculum.credits:
            self._credit(output, verdict, len(inputs))
        return output

    def roll_out(self, rows: int, source: Source) -> tuple[dict[str, Any], Draw, Verdict]:
        """Choose prompts for `rows` completions on every process, generate and observe them."""
        processes, rank = self.accelerator.num_processes, self.accelerator.process_index
        number = rows * processes // self.num_generations
        step, local = self.state.global_step, slice(rank * rows, (rank + 1) * rows)
        draw = on_owner(self.accelerator, lambda: source.select(number, step=step))
        try:
            prompts = np.repeat(draw.prompts, self.num_generations)[local].tolist()
            row = {prompt: self.train_dataset[prompt] for prompt in dict.fromkeys(prompts)}
            self.rows = [dict(row[prompt]) for prompt in prompts]
            output = super()._generate_and_score_completions(self.rows)
        except BaseException:
            if self.accelerator.is_main_process:
                self.curriculum.drop(draw.tickets)
            raise
        verdict = on_owner(self.accelerator, lambda: self._observe(draw))
        if verdict.lessons is not None:
            self._lessons.append(verdict.lessons)
        return output, draw, verdict

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        inputs = super()._prepare_inputs(generation_batch)
        if self.model.training and self._lessons:  # type: ignore[union-attr]
            share_out(self, self._lessons)
            self._lessons = []
        if self.policy.seconds:
            self._metrics["train"]["judge/seconds"].append(self.policy.seconds)
            self.policy.seconds = 0.0
        return inputs

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        loss = super()._compute_loss(model, inputs)
        return loss + lesson_loss(self, model, inputs) if self.model.training else loss  # type: ignore[union-attr]

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        self.gathered_rewards: torch.Tensor = super()._calculate_rewards(*args, **kwargs)
        return self.gathered_rewards

    def _observe(self, draw: Draw) -> Verdict:
        """Report the rewards of all processes to the curriculum; runs on the owner."""
        per_function = self.gathered_rewards.double().cpu().numpy()
        weights = self.reward_weights.double().cpu().numpy()
        scored_PG = (~np.isnan(per_function).all(axis=1)).reshape(len(draw), -1)
        rewards_PG = np.nansum(per_function * weights, axis=1).reshape(len(draw), -1)
        named = {
            name: per_function[:, i].reshape(len(draw), -1) for i, name in enumerate(self.reward_func_names)
        }
        try:
            verdict = self.curriculum.observe(draw.tickets, rewards_PG, scored=scored_PG, named=named)
        except BaseException:
            self.curriculum.drop(draw.tickets)
            raise
        for name, value in self.curriculum.metrics().items():
            self._metrics["train"][f"curriculum/{name}"].append(value)
        if self.on_groups is not None:
            rewards = np.where(scored_PG, rewards_PG, np.nan)
            self.on_groups(GroupRecord(self.state.global_step, draw, rewards, verdict))
        return verdict

    def _credit(self, output: dict[str, Any], verdict: Verdict, rows: int) -> None:
        """Train on, and log, the curriculum's advantages times its importance weights."""
        rank = self.accelerator.process_index
        weights_P = self.curriculum.batch_weights(verdict.weights)
        credit = torch.from_numpy((verdict.advantages * weights_P[:, None]).ravel())
        output["advantages"] = credit[rank * rows : (rank + 1) * rows].to(output["advantages"])
        logged = self._logs["advantages"]
        for _ in range(min(len(credit), len(logged))):
            logged.pop()
        logged.extend(credit.tolist())

    def save_checkpoint(self) -> None:
        """Save one of the last finished step, for use between steps and after errors."""
        self._save_checkpoint(self.model, None)

    def restore(self, checkpoint: Path) -> None:
        """Load the model and the curriculum of a checkpoint, to use them without more training."""
        self._load_from_checkpoint(str(checkpoint))
        checkpoints.load(self, checkpoint)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        folder = f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        checkpoint = Path(self._get_output_dir(trial=trial)) / folder
        checkpoints.clear(self, checkpoint)
        super()._save_checkpoint(model, trial)
        checkpoints.save(self, checkpoint)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            checkpoints.load(self, Path(checkpoint))
