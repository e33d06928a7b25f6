"""TRL's settings for a run of `curro train`."""

from __future__ import annotations

import torch
from trl import GRPOConfig

from curro.storage.run_folder import RunFolder
from curro.training.settings import TrainSettings


def grpo_arguments(settings: TrainSettings, folder: RunFolder, reward_weights: list[float]) -> GRPOConfig:
    """TRL's settings: GRPO without a reference model, on the GPU in bfloat16 where there is one.

    Args:
        settings: complete.
        folder: the run's; TRL's checkpoints go there.
        reward_weights: of the reward's parts.
    """
    device_batch = settings.device_batch or settings.rollouts_per_step
    return GRPOConfig(
        output_dir=str(folder.checkpoints),
        per_device_train_batch_size=device_batch,
        gradient_accumulation_steps=settings.rollouts_per_step // device_batch,
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
        scale_rewards="none",
        beta=0.0,
        seed=settings.seed,
        save_strategy="steps",
        save_steps=settings.save_every,
        save_total_limit=2,
        logging_steps=10 if settings.log is None else 1,
        report_to=[] if settings.log is None else [settings.log],
        disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(),
        bf16=torch.cuda.is_available(),
        dataloader_pin_memory=torch.cuda.is_available(),
        # it saves a GPU memory for a second forward pass; the numbers are the same
        activation_checkpointing=torch.cuda.is_available(),
    )
