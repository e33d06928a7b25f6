"""verl's trainer with prompts chosen, groups admitted and credit given by a curriculum."""

from __future__ import annotations

import json
import logging
import os
import time
import uuid
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import transfer_queue as tq
from omegaconf import open_dict
from torchdata.stateful_dataloader import StatefulDataLoader
from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.trainer.ppo.v1.trainer_colocate_async import PPOTrainerColocateAsync
from verl.trainer.ppo.v1.trainer_separate_async import PPOTrainerSeparateAsync
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils import tensordict_utils as tu
from verl.utils.config import omega_conf_to_dataclass

from curro.core.configuration import describe_signal
from curro.core.errors import CheckpointError, FillError
from curro.core.files import replacing
from curro.core.groups import largest_reward
from curro.core.identity import repeated_rows
from curro.hosts.verl.auxiliary import ResizedWorkers, add_auxiliary, ranks_of, rows_divisor
from curro.hosts.verl.credit import ppo_loss_with_auxiliary, withhold_credit, write_credit
from curro.hosts.verl.owner import CurriculumClient, held_out_rewards, start_owner
from curro.hosts.verl.policy import Serving, VerlRows
from curro.hosts.verl.replay import (
    PROMPT,
    ReportingBuffer,
    ReportingReplayBuffer,
    ReportingReplayBufferAsync,
    held_out_signal,
    parts_of,
    scored_rewards,
    ticket_of,
    uid_of,
)
from curro.hosts.verl.reward import check_rows
from curro.hosts.verl.settings import (
    FILL_ADVICE,
    VerlSettings,
    choose_manager,
    refuse_conflicts,
    refuse_large_batch,
    reward_parts,
)
from curro.rollout.evaluation_results import held_out_scores
from curro.rollout.fill import Port
from curro.rollout.polled_fill import PolledFill

if TYPE_CHECKING:
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer as Host
else:
    Host = object


ROLLOUTS = "__rollout_n__"
"""verl's column with the number of rollouts of a prompt."""

FILE = Path("curro") / "curriculum.npz"
"""The curriculum's file in the folder of a checkpoint."""

ESTIMATES = Path("curro") / "estimates.json"
"""Beside it: the tickets in flight whose groups only estimate a difficulty."""


class CurriculumTrainer(Host):
    """What a curriculum adds to verl's trainers, as a class to be mixed in before one of them.

    verl's `fit` calls the methods below in each step: `prepare_step` begins a fill; `_next_train_batch` draws
    prompts, in place of verl's data loader; while verl polls its queue, the replay buffer reports finished
    groups to the curriculum; `_balance_batch`, `_compute_advantage` and `_update_actor` train on the batch;
    `step` writes the metrics.

    Attributes:
        mode: verl's own name of the mode, which it compares with in many places.
        buffer: the class of the replay buffer.
        owner: the client of the curriculum's actor. Other processes find that by its name,
            `config.curro_owner`.

    Raises:
        ConfigError: on construction, a mistake under `curro`, or settings of verl that would break the
            curriculum; when the data is loaded, more prompts in flight at a time than the data set has.
        FillError: while training, a batch that is not full when the limit `curro.fill_limit` is reached, or
            when all prompts have been tried for it.
    """

    reads_curro = True
    mode: str
    buffer: type[ReportingBuffer]

    owner: CurriculumClient
    train_dataloader: Any
    total_training_steps: int
    actor_rollout_wg: Any

    _mini_batches, _owed = 1, 0
    _resized: tuple[int, float] | None = None

    def __init__(self, config: Any) -> None:
        self.settings = VerlSettings(config.get("curro", None))
        refuse_conflicts(config, self.settings)
        choose_manager(config)
        config.trainer.v1.trainer_mode = self.mode
        if self.settings.has_gate:
            # verl then fetches prompts one by one and replaces every failed group, and so the rejected ones
            # too
            config.trainer.v1.sampler.sync_refill_failed_groups = True
        with open_dict(config):
            config.curro_owner = f"curro-{uuid.uuid4().hex[:8]}"
        super().__init__(config)

    def _build_replay_buffer(self) -> Any:
        buffer = self.buffer.like(super()._build_replay_buffer())
        buffer.group_size = self.config.actor_rollout_ref.rollout.n
        buffer.has_advantage = self.settings.advantage is not None
        buffer.longest = self.config.data.max_response_length
        rule = self.settings.allocation
        buffer.first = rule.first if rule is not None and rule.looks_first else 0
        buffer.generate = self._generate_further
        return buffer

    def _init_dataloader(self) -> None:
        super()._init_dataloader()
        settings, size = self.settings, len(self.train_dataset)
        refuse_large_batch(self.config, self.mode, size)
        # verl saves the state of its loader, which would start its workers, though nothing is loaded from it
        loader = self.train_dataloader
        self.train_dataloader = StatefulDataLoader(
            self.train_dataset, loader.batch_size, num_workers=0, collate_fn=loader.collate_fn, drop_last=True
        )
        rows = VerlRows(self.train_dataset, self.config.data.get("prompt_key", "prompt"))
        if not settings.no_check:
            warn = logging.getLogger(__name__).warning
            check_rows(self.config, [dict(row) for row in rows.rows], warn)
            if repeated := repeated_rows(rows.row_digests):
                warn(repeated)
        folder = Path(self.config.trainer.default_local_dir).absolute()
        model = self.config.actor_rollout_ref.model.path if settings.selection.policy_use else None
        self.owner = start_owner(self.config.curro_owner, settings.owner_gpus)
        parts = reward_parts(self.config, (row.get("data_source") for row in rows.rows))
        signal = self.owner.build(settings.curriculum, rows, folder, settings.keep, model, parts)
        self.owner.expect(max(self.total_training_steps, 1))
        if signal and "signal" not in settings.curriculum:
            logging.getLogger(__name__).warning(describe_signal(signal))
        if settings.keep.per_group:
            self.replay_buffer.decode = lambda ids: self.tokenizer.decode(ids, skip_special_tokens=True)
        self.replay_buffer.owner = self.owner
        self.replay_buffer.largest = largest_reward(settings.curriculum["reward_range"])
        self.replay_buffer.named = tuple(dict.fromkeys([*settings.named, *signal]))
        self.fill = PolledFill(cast(Port, self.owner), settings.fill_limit, size=size, advice=FILL_ADVICE)
        self.replay_buffer.fill = self.fill

    def on_init_end(self) -> None:
        super().on_init_end()
        if self.settings.selection.policy_use:
            client = self.get_llm_client()
            self.owner.serve(Serving.of(client, self.tokenizer, self.config))
            # the workers' loss has to add the auxiliary samples'
            actor = omega_conf_to_dataclass(self.config.actor_rollout_ref.actor)
            self.actor_rollout_wg.set_loss_fn(partial(ppo_loss_with_auxiliary, actor))

    # ------------------------------ which prompts ------------------------------

    @property
    def _finished_steps(self) -> int:
        """What the curriculum takes as the step; verl counts from 1, and from 0 while it warms up."""
        return max(self.global_steps - 1, 0)

    def _next_train_batch(self, num_prompts: int | None = None) -> Any:
        """The prompts that the curriculum draws now; the uid of each carries its ticket."""
        number = num_prompts
        if number is None:
            number, self._owed = self.config.data.train_batch_size + self._owed, 0
        budget = number * self.config.actor_rollout_ref.rollout.n if self.settings.divides_budget else None
        draw = self.fill.draw(number, step=self._finished_steps, rollouts=budget)
        uids = [uid_of(ticket) for ticket in draw.tickets.tolist()]
        rollouts = None if self.settings.allocation is None else draw.rollouts.tolist()
        return self._batch(uids, draw.prompts.tolist(), rollouts)

    def _generate_further(self, rollouts: Mapping[str, int]) -> None:
        """Ask for so many more rollouts of each group, by the uid under which they are asked for."""
        in_flight = self.fill.fill.in_flight
        prompts = [in_flight[ticket_of(uid.split("_")[0])].prompt for uid in rollouts]
        self._submit_batch_to_rollout(self._batch(list(rollouts), prompts, list(rollouts.values())))

    def _batch(self, uids: list[str], prompts: list[int], rollouts: list[int] | None) -> Any:
        """What verl's agent loops take: these rows of the data set, under these uids.

        Args:
            rollouts: how many of each; None for `rollout.n`.
        """
        columns = self.train_dataloader.collate_fn([self.train_dataset[prompt] for prompt in prompts])
        batch = tu.get_tensordict(columns | {"uid": np.array(uids, dtype=object)})
        tu.assign_non_tensor_data(batch, "global_steps", self.global_steps)
        if rollouts is not None:
            tu.assign_non_tensor_stack(batch, ROLLOUTS, rollouts)
        return batch

    def _add_prompts_to_generate(self, num_prompts: int) -> int:
        """As many new prompts; where a full batch may have no more, the next one begins with them.

        The asynchronous modes replace every group that is thrown away, also of those beyond the batch.
        """
        try:
            self.fill.check()
            return super()._add_prompts_to_generate(num_prompts)
        except FillError:
            if self.fill.fill.missing:
                raise
        self._owed += num_prompts
        return 0

    def prepare_step(self) -> dict:
        waiting = map(ticket_of, self._queued_groups())
        self.replay_buffer.unspent = 0
        self.fill.begin(self.config.data.train_batch_size, self._finished_steps, waiting)
        return super().prepare_step()

    def step(self, metrics: dict, timing_raw: dict) -> Any:
        try:
            batch = super().step(metrics, timing_raw)
        except RuntimeError as error:
            # where no group has ended well, verl's mode "sync" names a setting of its own and no cause
            if self.fill.fill.admitted or not self.fill.fill.batch_counts.failed:
                raise
            raise FillError(self.fill.fill.explain()) from error
        finally:
            self.fill.end()
        fill = self.fill.metrics() if self.settings.has_gate else {}
        curriculum = self.owner.write_step(self.global_steps, fill)
        metrics.update({f"curriculum/{name}": value for name, value in curriculum.items()} | fill)
        return batch

    # ------------------------------ held-out scores ------------------------------

    def _validate(self) -> dict[str, float]:
        begun = time.perf_counter()
        metrics = super()._validate()
        scores = held_out_scores(
            self._held_out, self.settings.curriculum["reward_range"], self._held_out_signal
        )
        self.owner.write_evaluation(self.global_steps, scores, time.perf_counter() - begun)
        return metrics

    def _val_metrics_update(self, sources: Any, uids: Any, infos: Any, *rest: Any, **options: Any) -> Any:
        expected = options.get("expected_acc_counts")
        self._held_out = held_out_rewards(uids, scored_rewards(infos), expected)
        self._held_out_signal = None
        if parts := self.owner.signal():
            signal = held_out_signal(sources, infos, parts, self.replay_buffer.largest)
            self._held_out_signal = held_out_rewards(uids, signal, expected)
        return super()._val_metrics_update(sources, uids, infos, *rest, **options)

    # ------------------------------ which credit ------------------------------

    def _compute_advantage(self, batch: Any, metrics: dict) -> Any:
        batch = super()._compute_advantage(batch, metrics)
        if self.settings.advantage is not None:
            write_credit(batch, self.owner.credit)
        else:
            withhold_credit(batch)
        return batch

    # ------------------------------ auxiliary samples ------------------------------

    def _get_required_batch_multiple(self, dp_size: int) -> int:
        """verl pads to whole mini-batches of `rollout.n` rollouts a prompt, which could be as much again."""
        if not self.settings.has_ragged_groups:
            return super()._get_required_batch_multiple(dp_size)
        return dp_size * self._mini_batches * self._divisor(dp_size)

    def _divisor(self, ranks: int) -> int:
        own_reference = self.use_reference_policy and not self.ref_in_actor
        ref_ranks = ranks_of(self.ref_policy_wg, "ref") if own_reference else None
        return rows_divisor(self.config, ranks=ranks, mini_batches=self._mini_batches, ref_ranks=ref_ranks)

    def _balance_batch(self, batch: Any, metrics: dict, *args: Any, **kwargs: Any) -> Any:
        """verl's balanced batch, with the step's auxiliary samples dealt out over its parts.

        They are added after the balancing because from here on verl cuts the batch into its workers'
        mini-batches by position, and every mini-batch has to hold equally many of them.
        """
        actor = self.config.actor_rollout_ref.actor
        groups = len({parts_of(key)[0] for key in batch.keys})
        self._mini_batches, self._resized = max(1, groups // actor.ppo_mini_batch_size), None
        batch = super()._balance_batch(batch, metrics, *args, **kwargs)
        auxiliary_samples, self.replay_buffer.auxiliary_samples = self.replay_buffer.auxiliary_samples, []
        per_step = actor.ppo_mini_batch_size * self.config.actor_rollout_ref.rollout.n
        rollouts: float = per_step
        if self.settings.has_ragged_groups:
            real = sum(not tag.get("is_padding", False) for tag in batch.tags)
            rollouts = real / self._mini_batches
        else:
            self._mini_batches = len(batch) // per_step
        if auxiliary_samples:
            ranks = ranks_of(self.actor_rollout_wg, "actor")
            batch = add_auxiliary(
                batch, auxiliary_samples, ranks=ranks, mini_batches=self._mini_batches,
                divisor=self._divisor(ranks), end=self.tokenizer.eos_token_id,
            )  # fmt: skip
        if auxiliary_samples or self.settings.has_ragged_groups:
            self._resized = len(batch) // self._mini_batches, rollouts
        return batch

    def _update_actor(self, batch: Any, metrics: dict) -> Any:
        """verl's update; its mini-batches have other numbers of rows with auxiliary samples or a budget."""
        plain = self.actor_rollout_wg
        if self._resized is not None:
            self.actor_rollout_wg = ResizedWorkers(plain, *self._resized)
        try:
            return super()._update_actor(batch, metrics)
        finally:
            self.actor_rollout_wg = plain

    # ------------------------------ checkpoints ------------------------------

    def _save_checkpoint(self) -> None:
        """Save the curriculum, then verl's parts: verl calls a checkpoint complete when those are written."""
        folder = Path(self.config.trainer.default_local_dir) / f"global_step_{self.global_steps}"
        self.owner.save(folder.absolute() / FILE)
        (folder / ESTIMATES).parent.mkdir(parents=True, exist_ok=True)
        with replacing(folder / ESTIMATES) as part:
            part.write_text(json.dumps(self.fill.estimates), encoding="utf-8")
        super()._save_checkpoint()

    def _load_checkpoint(self) -> None:
        super()._load_checkpoint()
        if not self.global_steps:
            return
        trainer = self.config.trainer
        folder = os.path.join(trainer.default_local_dir, f"global_step_{self.global_steps}")
        if trainer.resume_mode == "resume_path":
            folder = trainer.resume_from_path
        groups = self._queued_groups()
        self._restored_tq_prompt_count = len(groups)  # verl counts a group's further rollouts as another
        kept = self.replay_buffer.resume(groups.items())
        ledger = self.owner.load(Path(folder).absolute() / FILE, kept=kept, step=self.global_steps)
        if lost := ledger.pop("lost"):
            logging.getLogger(__name__).warning(
                f"{lost} prompts were in flight when the checkpoint of step {self.global_steps} was saved, "
                "and their rollouts are lost: nothing is learned from them, and they may be drawn again"
            )
        observed = {ticket_of(uid): tag[PROMPT] for uid, tag in groups.items() if PROMPT in tag}
        path = Path(folder) / ESTIMATES
        try:
            estimates = json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"{path} is missing or damaged ({error}): resume from an earlier checkpoint, with "
                "trainer.resume_mode=resume_path and trainer.resume_from_path"
            ) from error
        self.fill.restore(ledger, observed, estimates)

    def _queued_groups(self) -> dict[str, dict[str, Any]]:
        """The tags of the groups in verl's queue, by their uids."""
        queue = (tq.kv_list("train") or {}).get("train", {})
        return {uid: tag for uid, tag in queue.items() if tag.get("is_prompt", False) and "_" not in uid}


@register_trainer("curro_sync")
class CurriculumTrainerSync(CurriculumTrainer, PPOTrainerSync):
    """verl's mode "sync" with a curriculum: `trainer.v1.trainer_mode=curro_sync`."""

    mode = "sync"
    buffer = ReportingReplayBuffer


@register_trainer("curro_colocate_async")
class CurriculumTrainerColocateAsync(CurriculumTrainer, PPOTrainerColocateAsync):
    """verl's mode "colocate_async" with a curriculum: `trainer.v1.trainer_mode=curro_colocate_async`."""

    mode = "colocate_async"
    buffer = ReportingReplayBufferAsync


@register_trainer("curro_separate_async")
class CurriculumTrainerSeparateAsync(CurriculumTrainer, PPOTrainerSeparateAsync):
    """verl's mode "separate_async" with a curriculum: `trainer.v1.trainer_mode=curro_separate_async`.

    A step is `parameter_sync_step` updates on a part of its batch each; the fill covers the whole batch.
    """

    mode = "separate_async"
    buffer = ReportingReplayBufferAsync
