"""A GRPOTrainer whose checkpoints hold a curriculum, and the rollouts that are still to be trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import torch
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from trl import GRPOConfig, GRPOTrainer

from curro.curriculum import Curriculum
from curro.hosts.trl import checkpoint as checkpoints


class CheckpointedTrainer(GRPOTrainer):
    """TRL's GRPOTrainer, saved so that a resumed run goes on as an uninterrupted one."""

    args: GRPOConfig
    curriculum: Curriculum
    _buffered_inputs: list[dict[str, torch.Tensor]] | None  # type: ignore[assignment]

    def save_checkpoint(self) -> None:
        """Save a checkpoint of the last finished step, for use between steps and after errors."""
        self._save_checkpoint(self.model, None)

    def restore(self, checkpoint: Path) -> None:
        """Load the model and the curriculum of a checkpoint, to use them without more training."""
        self._load_from_checkpoint(str(checkpoint))
        with checkpoints.reading(checkpoint):
            self._load_curriculum(checkpoint)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        folder = f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        checkpoint = Path(self._get_output_dir(trial=trial)) / folder
        checkpoints.clear(checkpoint, self.accelerator)
        rollouts = None
        generation = cast(int, self.args.steps_per_generation) * self.num_iterations
        if self._step % generation and self._buffered_inputs is not None:
            rollouts = checkpoints.Rollouts(self._step, self._buffered_inputs)
        with checkpoints.saving(checkpoint):
            super()._save_checkpoint(model, trial)
            checkpoints.save(checkpoint, self.accelerator, self.curriculum, rollouts)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        with checkpoints.reading(Path(resume_from_checkpoint)):
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        with checkpoints.reading(Path(checkpoint or "")):
            super()._load_rng_state(checkpoint)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is None:
            super()._load_optimizer_and_scheduler(checkpoint)
            return
        with checkpoints.reading(Path(checkpoint)):
            super()._load_optimizer_and_scheduler(checkpoint)
            self._load_curriculum(Path(checkpoint))

    def _load_curriculum(self, checkpoint: Path) -> None:
        parts = cast(int, self.args.steps_per_generation)
        rollouts = checkpoints.load(checkpoint, self.accelerator, self.curriculum, parts)
        if rollouts is not None:
            self._step, self._buffered_inputs = rollouts.step, rollouts.parts
