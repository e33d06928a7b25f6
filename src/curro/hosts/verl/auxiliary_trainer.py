"""A trainer of verl's that also trains on what the curriculum wants trained on besides the rollouts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from verl.utils.config import omega_conf_to_dataclass

from curro.hosts.verl.auxiliary import AuxiliaryWorkers, add_auxiliary, ranks_of, rows_divisor
from curro.hosts.verl.credit import ppo_loss_with_auxiliary

if TYPE_CHECKING:
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer as Host
else:
    Host = object


class AuxiliaryTrainer(Host):
    """Puts a step's auxiliary samples into verl's batch and mini-batches; to be mixed in before a trainer."""

    config: Any
    replay_buffer: Any
    actor_rollout_wg: Any
    ref_policy_wg: Any
    use_reference_policy: bool
    ref_in_actor: bool

    _auxiliary_rows = 0

    def _train_on_auxiliary(self) -> None:
        """Give the actor's workers the loss that knows auxiliary samples."""
        actor = omega_conf_to_dataclass(self.config.actor_rollout_ref.actor)
        self.actor_rollout_wg.set_loss_fn(partial(ppo_loss_with_auxiliary, actor))

    def _balance_batch(self, batch: Any, metrics: dict, *args: Any, **kwargs: Any) -> Any:
        """verl's, and the auxiliary samples of this step dealt out over the balanced parts."""
        batch = super()._balance_batch(batch, metrics, *args, **kwargs)
        auxiliary_samples, self.replay_buffer.auxiliary_samples = self.replay_buffer.auxiliary_samples, []
        self._auxiliary_rows = 0
        if auxiliary_samples:
            before = len(batch)
            self._mini_batches = before // self._mini_batch
            split = {"ranks": ranks_of(self.actor_rollout_wg, "actor"), "mini_batches": self._mini_batches}
            own_reference = self.use_reference_policy and not self.ref_in_actor
            ref_ranks = ranks_of(self.ref_policy_wg, "ref") if own_reference else None
            divisor = rows_divisor(self.config, **split, ref_ranks=ref_ranks)
            end = self.tokenizer.eos_token_id
            batch = add_auxiliary(batch, auxiliary_samples, **split, divisor=divisor, end=end)
            self._auxiliary_rows = len(batch) - before
        return batch

    @property
    def _mini_batch(self) -> int:
        """Rollouts of an optimizer step."""
        rollout = self.config.actor_rollout_ref
        return rollout.actor.ppo_mini_batch_size * rollout.rollout.n

    def _update_actor(self, batch: Any, metrics: dict) -> Any:
        plain = self.actor_rollout_wg
        if self._auxiliary_rows:
            longer = self._mini_batch + self._auxiliary_rows // self._mini_batches
            self.actor_rollout_wg = AuxiliaryWorkers(plain, longer)
        try:
            return super()._update_actor(batch, metrics)
        finally:
            self.actor_rollout_wg = plain
