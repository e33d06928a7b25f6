"""A GRPOTrainer that computes less: every prompt once, no gradient for flat groups, weights rounded once.

What is trained stays the same up to rounding. The curriculum stands on none of this: where TRL or the model
lacks something, `AcceleratedGRPOTrainer` is TRL's own trainer, and the log says why in one line.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, cast

import torch
from trl import GRPOConfig, GRPOTrainer

from curro.hosts.trl.fast.flat_groups import (
    join_rows,
    only_advantages_teach,
    rows_with_gradient,
    sampled_values,
    with_sampled,
)
from curro.hosts.trl.fast.shared_prompts import SharedPrompts
from curro.rollout.engines.plain_generation import SampledLogProbs, backbone_of, shared_prefixes


class AcceleratedGRPOTrainer(GRPOTrainer):
    """TRL's GRPOTrainer with three accelerations.

    - A prompt that stands in several rows is computed once, while generating and while training.
    - Rollouts with advantage 0 get no backward pass, and before the first update no forward pass.
    - Under autocast, weights are rounded once a generation and not once a token; on a CPU one uniform number
      draws a token instead of one exponential number for each token of the vocabulary.

    Args:
        share_prompts: compute a prompt once for its group.
        lacks: why this TRL cannot be accelerated; empty if it can.
        args, kwargs: as GRPOTrainer takes them.
    """

    args: GRPOConfig
    _shared_prompts: SharedPrompts | None = None
    _rows_with_gradient: torch.Tensor | None = None
    _flat_values: tuple[torch.Tensor, ...] | None = None
    _sampled: tuple[SampledLogProbs, Any] | None = None
    _merges_rounds = False
    """Whether a batch is put together from several generations; sampling's values of rows are lost then."""

    def __init__(self, *args: Any, share_prompts: bool = True, lacks: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        log = logging.getLogger(__name__)
        self._is_accelerated = not lacks
        is_main = self.accelerator.is_main_process
        if lacks and is_main:
            log.warning("trained in TRL's own way, without accelerations: %s", lacks)
        if share_prompts and not lacks:
            is_whole = not (self.is_fsdp_enabled or self.is_deepspeed_enabled)
            shared = SharedPrompts(
                self.model, probe=is_whole, temperature=self.temperature,
                entropy_has_graph=self._entropy_bonus_enabled,
            )  # fmt: skip
            if not shared.reason:
                self._shared_prompts = shared
            elif is_main:
                log.warning(
                    "every completion is trained on with its own copy of the prompt, which this model cannot "
                    "share: %s", shared.reason,
                )  # fmt: skip

    @property
    def _is_training(self) -> bool:
        return cast(Any, self.model).training

    # ------------------------------ generating ------------------------------

    def _generate_single_turn(self, prompt_ids: Any, *args: Any, **kwargs: Any) -> Any:
        """TRL's, with a prompt that stands in several rows computed once."""
        if (
            not self._is_accelerated
            or self.use_vllm
            or getattr(self, "use_transformers_continuous_batching", False)
        ):
            return super()._generate_single_turn(prompt_ids, *args, **kwargs)
        model = self.accelerator.unwrap_model(self.model)
        if self.accelerator.is_fsdp2:
            # else transformers lets a process stop while the others still need it to gather weights
            cast(Any, model)._is_fsdp_managed_module = True
        draws_own = self.accelerator.mixed_precision != "no" and self.accelerator.device.type == "cpu"
        stands_in = only_advantages_teach(self) and not self._merges_rounds
        config = self.generation_config
        samples = getattr(config, "num_beams", 1) in (None, 1)  # a beam search has no one drawn token a row
        sampled = None
        if self._is_training and samples and (draws_own or stands_in):
            sampled = SampledLogProbs(model, as_transformers=not draws_own)
        shared = nullcontext() if self._shared_prompts is None else shared_prefixes(model, config)
        # one autocast around all tokens: weights are rounded once, not once a token
        with self.accelerator.autocast(), shared, sampled or nullcontext():
            completion_ids, logprobs = super()._generate_single_turn(prompt_ids, *args, **kwargs)
        if sampled is not None and stands_in:
            self._sampled = sampled, completion_ids
        return completion_ids, logprobs

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """TRL's, with what sampling computed of its completions as columns of their rows."""
        self._sampled = None
        output = super()._generate_and_score_completions(inputs)
        sampled, self._sampled = self._sampled, None
        return output if sampled is None else with_sampled(output, *sampled)

    # ------------------------------ training ------------------------------

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        """TRL's loss, in which rollouts with advantage 0 have no graph, where only advantages teach."""
        if not self._is_accelerated or not self._is_training:
            return super()._compute_loss(model, inputs)
        if only_advantages_teach(self):
            self._rows_with_gradient = rows_with_gradient(inputs)
            self._flat_values = sampled_values(self, inputs)
        try:
            return super()._compute_loss(model, inputs)
        finally:
            self._rows_with_gradient = self._flat_values = None

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        """TRL's, accelerated; another library's, which may take other arguments, gets its own."""
        plainly = super()._get_per_token_logps_and_entropies
        return self._log_probs(plainly, *args, **kwargs) if self._is_accelerated else plainly(*args, **kwargs)

    def _log_probs(
        self,
        plainly: Callable[..., Any],
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        compute_aux_loss: bool = False,
        **images: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        """Log-probabilities, entropies and a router's loss, with each prompt computed once for its rows.

        Flat groups get no graph.

        Args:
            plainly: TRL's own method, which has the other arguments.
        """
        has_images = any(value is not None for value in images.values())
        shared_prompts = None if has_images or compute_aux_loss else self._shared_prompts
        whole = self.accelerator.unwrap_model(model)

        def compute(rows: torch.Tensor | slice, has_graph: bool) -> tuple[torch.Tensor | None, ...]:
            if self._flat_values is not None and not has_graph:
                return (*(values[rows] for values in self._flat_values), None)
            run, ids, mask = model if has_graph else whole, input_ids[rows], attention_mask[rows]
            shared = None
            if shared_prompts is not None:
                shared = shared_prompts.log_probs(
                    run, backbone_of(whole), ids, mask, logits_to_keep, batch_size=batch_size,
                    autocast=self.accelerator.autocast, with_entropy=compute_entropy,
                )  # fmt: skip
            if shared is not None:
                return (*shared, None)
            return plainly(
                run, ids, mask, logits_to_keep, batch_size=batch_size, compute_entropy=compute_entropy,
                compute_aux_loss=compute_aux_loss, **images,
            )  # fmt: skip

        rows = self._rows_with_gradient if compute_entropy and not has_images else None  # the loss's
        if rows is None:
            return cast(Any, compute(slice(None), True))
        with self.accelerator.autocast():
            return cast(Any, join_rows(rows, compute))
