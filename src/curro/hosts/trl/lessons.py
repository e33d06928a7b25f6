"""The second loss: what the curriculum wants the policy trained on besides the rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from trl.trainer.utils import pad

from curro.lessons import Lessons

if TYPE_CHECKING:
    from curro.hosts.trl.trainer import CurriculumGRPOTrainer


def slots_of(lessons: int, slots: int) -> np.ndarray:
    """The slot (J,) of each lesson: as even as can be, and like the rollouts, not one after the other.

    Lessons come in the order of the draw, the most promising first; so neighbours go to different slots.
    """
    used = min(lessons, slots)
    return np.arange(lessons) % used * slots // used


def share_out(trainer: CurriculumGRPOTrainer, lessons: Sequence[Lessons]) -> None:
    """Put this process's share of a generation's lessons beside its rollouts that wait to be trained on.

    The J lessons are dealt out over the processes and the S = `steps_per_generation` parts of the generation,
    scaled by (processes x S) / J. Processes are averaged, and an optimizer step sums its parts over their
    number, so that it trains on the mean of its lessons: with one optimizer step a generation that is (9)
    exactly, with several it is (9) on average, as a mini-batch of rollouts is of (2). Every share has equally
    many rows, where a lesson is missing one of two tokens with advantage 0: all processes do the same.

    The tensors stay with the rollouts in TRL's buffer, and so in checkpoints.
    """
    asked = [ids for part in lessons for ids in part.prompt_ids]
    answered = [ids for part in lessons for ids in part.completion_ids]
    if not asked:
        return
    advantages_J = np.concatenate([part.advantages for part in lessons])
    weights_J = np.repeat([part.weight for part in lessons], [len(part.prompt_ids) for part in lessons])
    parts = cast(int, trainer.args.steps_per_generation)
    slots = parts * trainer.accelerator.num_processes
    slot_J = slots_of(len(asked), slots)
    blank = (asked[0][-1:], answered[0][:1])
    for part, inputs in enumerate(trainer._buffered_inputs or []):
        mine = np.flatnonzero(slot_J == trainer.accelerator.process_index * parts + part)
        missing = -(-len(asked) // slots) - len(mine)
        rows = [(asked[j], answered[j]) for j in mine] + [blank] * missing
        scaled = np.pad(advantages_J[mine] * slots / len(asked), (0, missing))
        inputs |= _tensors(trainer, rows, scaled, np.pad(weights_J[mine], (0, missing)))


def _tensors(
    trainer: CurriculumGRPOTrainer,
    rows: Sequence[tuple[Sequence[int], Sequence[int]]],
    advantages: np.ndarray,
    weights: np.ndarray,
) -> dict[str, torch.Tensor]:
    """Rows padded as TRL pads its own: prompts left, completions right."""
    device, fill = trainer.accelerator.device, cast(Any, trainer)._tokenizer.pad_token_id
    tensors = {
        "lesson_advantages": torch.tensor(advantages, dtype=torch.float32, device=device),
        "lesson_weights": torch.tensor(weights, dtype=torch.float32, device=device),
    }
    for name, side, column in (("prompt", "left", 0), ("completion", "right", 1)):
        ids = [torch.tensor(row[column], dtype=torch.long) for row in rows]
        masks = [torch.ones_like(row) for row in ids]
        tensors[f"lesson_{name}_ids"] = pad(ids, padding_value=fill, padding_side=side).to(device)
        tensors[f"lesson_{name}_mask"] = pad(masks, padding_value=0, padding_side=side).to(device)
    return tensors


def lesson_loss(trainer: CurriculumGRPOTrainer, model: Any, inputs: dict[str, Any]) -> torch.Tensor | float:
    """weight x L_judge of a micro-batch: -1/J sum_j advantage_j sum_t log pi(token_t), by METIS (9) and (10).

    It is part of the loss that TRL divides by nothing any more. With `num_iterations` > 1 lessons are trained
    on in the first pass over the rollouts alone: (9) has no ratio to correct for an older policy.
    """
    parts = cast(int, trainer.args.steps_per_generation)
    if "lesson_advantages" not in inputs or trainer._step % (parts * trainer.num_iterations) >= parts:
        return 0.0
    completion_ids = inputs["lesson_completion_ids"]
    completion_mask = inputs["lesson_completion_mask"]
    logps, _, _ = trainer._get_per_token_logps_and_entropies(
        model,
        torch.cat([inputs["lesson_prompt_ids"], completion_ids], dim=1),
        torch.cat([inputs["lesson_prompt_mask"], completion_mask], dim=1),
        completion_ids.size(1),
        batch_size=trainer.args.per_device_train_batch_size,
    )
    rows = -inputs["lesson_advantages"] * (logps * completion_mask).sum(dim=1)
    everyone = trainer.accelerator.gather(rows.sum().detach())
    trainer._metrics["train"]["judge/loss"].append(everyone.mean().item())
    return (inputs["lesson_weights"] * rows).sum() / trainer.current_gradient_accumulation_steps
