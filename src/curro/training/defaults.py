"""What settings are where nobody chose them: the lab's recipe for a task, or common values."""

from __future__ import annotations

from typing import Any

DEFAULTS: dict[str, Any] = {
    "prompts_per_step": 16,
    "rollouts_per_prompt": 8,
    "learning_rate": 1e-6,
    "warmup_steps": 10,
    "max_completion_length": 256,
    "eval_prompts": 500,
}


def recipe_values(name: str, data: str) -> dict[str, Any]:
    """The settings that belong to a family of the lab, by their names.

    Args:
        name: the family.
        data: the data setting that named it.
    """
    from curro.lab import family

    recipe = family(name).recipe
    return {
        "model": f"lab:{name}",
        "eval_data": data,
        "prompts_per_step": recipe.prompts_per_step,
        "rollouts_per_prompt": recipe.rollouts_per_prompt,
        "learning_rate": recipe.learning_rate,
        "warmup_steps": recipe.warmup_steps,
        "max_completion_length": recipe.max_completion_length,
        "eval_prompts": recipe.held_out_prompts,
    }
