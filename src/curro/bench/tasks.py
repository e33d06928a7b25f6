"""The tasks of the benchmark: pools of prompts, and the settings that suit uniform sampling."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """A pool of prompts, a warm model, and the settings that were chosen with uniform sampling.

    Attributes:
        name: FAMILY/hard or FAMILY/easy.
        data: as `curro train --data` takes it; its warm model and held-out prompts come with it.
        learning_rate: the best with uniform sampling of those in `chosen_by`, which has the pass@1 that each
            ended with after 9,600 rollouts, one seed.
        rollouts: the budget of a run.
        prompts: how many there are to choose from.
        prompts_per_step, rollouts_per_prompt: P and G of a step.
        judges: whether the warm model can judge prompts, as METIS asks it to.
    """

    name: str
    data: str
    learning_rate: float
    chosen_by: str
    rollouts: int = 9_600
    prompts: int = 1000
    prompts_per_step: int = 8
    rollouts_per_prompt: int = 8
    judges: bool = False

    @property
    def hard(self) -> bool:
        return self.name.endswith("/hard")


AS_HARD = "as on the hard pool"
EASY = 4_800
"""Rollouts of a run on an easy pool: uniform sampling has learnt most of it by then."""

TASKS = {
    task.name: task
    for task in (
        Task("chains/hard", "lab:chains_judge", 3e-4, "1.5e-4 .40, 3e-4 .58, 6e-4 .26", judges=True),
        Task("chain_sum/hard", "lab:chain_sum", 1.5e-4, "1.5e-4 .21, 3e-4 .17, 6e-4 .07"),
        Task("spell_backward/hard", "lab:spell_backward", 3e-4, "1.5e-4 .13, 3e-4 .18, 6e-4 .02"),
        Task("chains_share/hard", "lab:chains_share", 3e-4, "3e-4 .57, 6e-4 .52"),
        Task("locks/hard", "lab:locks", 6e-4, "3e-4 .54, 6e-4 .68"),
        Task("chains/easy", "lab:chains_judge/easy", 3e-4, AS_HARD, EASY, judges=True),
        Task("chain_sum/easy", "lab:chain_sum/easy", 1.5e-4, AS_HARD, EASY),
        Task("spell_backward/easy", "lab:spell_backward/easy", 3e-4, AS_HARD, EASY),
        Task("chains_share/easy", "lab:chains_share/easy", 3e-4, AS_HARD, EASY),
        Task("locks/easy", "lab:locks/easy", 6e-4, AS_HARD, EASY),
    )
}
