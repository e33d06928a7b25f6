"""The tasks of the benchmark: pools of prompts, and the settings that suit uniform sampling."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from curro.training.settings import TrainSettings


@dataclass(frozen=True)
class Task:
    """A pool of prompts, a warm model, and the settings that were chosen with uniform sampling.

    Attributes:
        name: FAMILY/POOL; the lab's pools are hard and easy.
        data: as `curro train --data` takes it; its warm model and held-out prompts come with it.
        learning_rate: the best with uniform sampling of those in `chosen_by`, which has the pass@1 that each
            had when about the budget was spent, one seed.
        rollouts: the budget of a run: uniform sampling is still gaining then.
        prompts: how many there are to choose from; by default all.
        prompts_per_step, rollouts_per_prompt: P and G of a step. With so few the gradient is noisy, and the
            learning rate that suits uniform sampling is limited by that noise, which choosing can lessen.
        judge: the options with which METIS asks this model for judgments; None: it cannot judge.
        train: further settings of `curro train`, by name.
    """

    name: str
    data: str
    learning_rate: float
    rollouts: int
    chosen_by: str = ""
    prompts: int | None = None
    prompts_per_step: int = 4
    rollouts_per_prompt: int = 8
    judge: str | None = None
    train: tuple[tuple[str, Any], ...] = ()

    @property
    def step(self) -> int:
        """Rollouts of a step."""
        return self.prompts_per_step * self.rollouts_per_prompt

    def settings(self) -> TrainSettings:
        """Of `curro train`, without what a run has of its own: method, rate, budget and seed."""
        from curro.training.settings import TrainSettings

        return TrainSettings(
            self.data,
            limit=self.prompts,
            prompts_per_step=self.prompts_per_step,
            rollouts_per_prompt=self.rollouts_per_prompt,
            learning_rate=self.learning_rate,
            rollouts=self.rollouts,
            **dict(self.train),
        )


def pool_of(name: str) -> str:
    """The second part of a task's name."""
    return name.partition("/")[2]


LAB_JUDGE = "template=lab,max_tokens=12"
AS_HARD = "as on the hard pool"
EASY = 1_600
"""Rollouts of a run on an easy pool: uniform sampling has learnt most of it by then."""

TASKS = {
    task.name: replace(task, prompts=1000)
    for task in (
        Task(
            "chains/hard", "lab:chains_judge", 3e-4, 4_800, "1.5e-4 .27, 3e-4 .33, 6e-4 .12", judge=LAB_JUDGE
        ),
        Task("chain_sum/hard", "lab:chain_sum", 1.5e-4, 3_200, "1e-4 .16, 1.5e-4 .18, 3e-4 .15"),
        Task("spell_backward/hard", "lab:spell_backward", 3e-4, 6_400, "1.5e-4 .11, 3e-4 .18, 6e-4 .00"),
        Task("chains_share/hard", "lab:chains_share", 3e-4, 4_800, "3e-4 .31, 6e-4 .27"),
        Task("locks/hard", "lab:locks", 1e-3, 3_200, "3e-4 .28, 6e-4 .43, 1e-3 .54, 1.5e-3 .49"),
        Task("chains/easy", "lab:chains_judge/easy", 3e-4, EASY, "1.5e-4 .80, 3e-4 .85", judge=LAB_JUDGE),
        Task("chain_sum/easy", "lab:chain_sum/easy", 1.5e-4, EASY, AS_HARD),
        Task("spell_backward/easy", "lab:spell_backward/easy", 3e-4, EASY, "1.5e-4 .91, 3e-4 .95"),
        Task("chains_share/easy", "lab:chains_share/easy", 3e-4, EASY, AS_HARD),
        Task("locks/easy", "lab:locks/easy", 1e-3, EASY, "5e-4 .93, 1e-3 .98"),
    )
}
