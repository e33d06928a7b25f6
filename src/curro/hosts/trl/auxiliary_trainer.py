"""A GRPOTrainer whose policy a curriculum may ask, and that also trains on what comes of the answers."""

from __future__ import annotations

from typing import Any, cast

import torch
from datasets import Dataset

from curro.environments.environment import Environment
from curro.hosts.trl.auxiliary import auxiliary_loss, share_out, tokens_divisor
from curro.hosts.trl.checkpointed import CheckpointedTrainer
from curro.hosts.trl.policy import ModelAccess, TrainedPolicy
from curro.policy import AuxiliarySamples

SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
"""Of the rollouts, and of the answers of a policy that is asked something."""


class AuxiliaryLossTrainer(CheckpointedTrainer):
    """Adds the loss of a generation's auxiliary samples to TRL's, in the same optimizer steps.

    Attributes:
        policy: what the curriculum asks; its seconds are logged.
        environment: plays the rollouts, where they have several turns.
    """

    train_dataset: Dataset
    policy: TrainedPolicy
    environment: Environment | None
    _auxiliary: list[AuxiliarySamples]

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        inputs = super()._prepare_inputs(generation_batch)
        if self.model.training and self._auxiliary:  # type: ignore[union-attr]
            share_out(
                self._buffered_inputs or [],
                self._auxiliary,
                rank=self.accelerator.process_index,
                processes=self.accelerator.num_processes,
                divisor=self._tokens_divisor(),
                device=self.accelerator.device,
                pad_token=cast(Any, self)._tokenizer.pad_token_id,
            )
            self._auxiliary = []
        if self.policy.seconds:
            self._metrics["train"]["judge/seconds"].append(self.policy.seconds)
            self.policy.seconds = 0.0
        return inputs

    def _tokens_divisor(self) -> float:
        tokens = cast(Any, self._buffered_inputs)[0]["num_items_in_batch"]
        return tokens_divisor(
            self.loss_type,
            longest=cast(int, self.max_completion_length),
            tokens=int(tokens),
            rollouts=cast(int, self.args.generation_batch_size),
        )

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        """TRL's loss and, in the first pass over a generation, that of the auxiliary samples.

        METIS (9) has no ratio that would correct for an older policy, so with `num_iterations` > 1 they are
        trained on once. "judge/loss" in the log is (9) itself.
        """
        loss = super()._compute_loss(model, inputs)
        parts = cast(int, self.args.steps_per_generation)
        is_first_pass = self._step % (parts * self.num_iterations) < parts
        if not (self.model.training and "auxiliary_advantages" in inputs and is_first_pass):  # type: ignore[union-attr]
            return loss

        def log_probs(ids: torch.Tensor, mask: torch.Tensor, last: int) -> torch.Tensor:
            size = self.args.per_device_train_batch_size
            return self._get_per_token_logps_and_entropies(model, ids, mask, last, batch_size=size)[0]

        weighted, plain = auxiliary_loss(inputs, log_probs)
        self._metrics["train"]["judge/loss"].append(self.accelerator.gather(plain).mean().item())
        return loss + weighted / self.current_gradient_accumulation_steps

    def _model_access(self) -> ModelAccess:
        """What a policy needs of this trainer."""
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
