"""The tasks of the benchmark: pools of prompts, and the settings that suit uniform sampling."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """A pool of prompts, a warm model, and the settings that were chosen with uniform sampling.

    Attributes:
        name: FAMILY/hard or FAMILY/easy.
        data: as `curro train --data` takes it; its warm model and held-out prompts come with it.
        learning_rate: the best of those tried with uniform sampling; `chosen_by` says which were.
        rollouts: the budget of a run.
        prompts: how many there are to choose from.
        prompts_per_step, rollouts_per_prompt: P and G of a step.
        judges: whether the warm model can judge prompts, as METIS asks it to.
    """

    name: str
    data: str
    learning_rate: float
    chosen_by: str
    rollouts: int = 12_800
    prompts: int = 1000
    prompts_per_step: int = 4
    rollouts_per_prompt: int = 8
    judges: bool = False

    @property
    def hard(self) -> bool:
        return self.name.endswith("/hard")

    @property
    def steps(self) -> int:
        """Updates that the budget pays for without rejected groups."""
        return self.rollouts // (self.prompts_per_step * self.rollouts_per_prompt)


_UNTRIED = "untried"

TASKS = {
    task.name: task
    for task in (
        Task("chains/hard", "lab:chains_judge", 3e-4, _UNTRIED, judges=True),
        Task("chains/easy", "lab:chains_judge/easy", 3e-4, _UNTRIED, judges=True),
        Task("chain_sum/hard", "lab:chain_sum", 1e-4, _UNTRIED),
        Task("chain_sum/easy", "lab:chain_sum/easy", 1e-4, _UNTRIED),
        Task("spell_backward/hard", "lab:spell_backward", 1e-4, _UNTRIED),
        Task("spell_backward/easy", "lab:spell_backward/easy", 1e-4, _UNTRIED),
        Task("chains_share/hard", "lab:chains_share", 3e-4, _UNTRIED),
        Task("chains_share/easy", "lab:chains_share/easy", 3e-4, _UNTRIED),
    )
}
