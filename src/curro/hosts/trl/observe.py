"""TRL's rows of rewards as the groups that a curriculum and its listeners take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from curro.core.curriculum import Curriculum
from curro.core.groups import Feedback, sum_of_parts
from curro.core.verdicts import Draw, Verdict
from curro.rollout.evaluation_results import held_out_scores
from curro.runs.writer import Completion, RunWriter


def read_feedback(
    tickets: Sequence[int] | np.ndarray,
    rewards: torch.Tensor,
    sizes_P: np.ndarray,
    *,
    weights: torch.Tensor,
    names: Sequence[str],
) -> Feedback:
    """Turn TRL's rewards of P groups, one after the other, into what the port takes.

    The rewards are the weighted sums, and the parts are the functions' own values.

    Args:
        tickets: (P,), one a group.
        rewards: (rollouts, functions), NaN where a function gave no value.
        sizes_P: rollouts of each group.
        weights, names: (functions,).
    """
    values = rewards.double().cpu()
    sums = (values * weights.double().cpu()).nansum(dim=1)
    sums[values.isnan().all(dim=1)] = torch.nan
    ends = np.cumsum(sizes_P)[:-1]
    parts = [dict(zip(names, group.T, strict=True)) for group in np.split(values.numpy(), ends)]
    return Feedback.of_groups([*map(int, tickets)], np.split(sums.numpy(), ends), parts)


def scores_of(groups: Sequence[Feedback], prompts: int | None, curriculum: Curriculum) -> dict[str, float]:
    """Held-out scores `eval/...` of an evaluation's first `prompts` groups."""
    parts = curriculum.signal_parts
    rewards_PG = np.concatenate([group.rewards for group in groups])[:prompts]
    parts_RPG = [np.concatenate([group.named[name] for group in groups]) for name in parts]
    signal_PG = sum_of_parts(parts_RPG)[:prompts] if parts else None
    return held_out_scores(rewards_PG, curriculum.table.reward_range, signal_PG)


@dataclass(frozen=True)
class GroupRecord:
    """The groups of one generation, for `on_groups`.

    Attributes:
        step: training steps that had finished before it, as `Curriculum.select` takes it.
        draw, verdict: what the curriculum drew, and its verdict on the rewards.
        rewards: float64 (P, G), NaN where a rollout was not scored and behind the end of smaller groups.
        completions: the completions of each group.
    """

    step: int
    draw: Draw
    rewards: np.ndarray
    verdict: Verdict
    completions: Sequence[Sequence[Completion]] = ()

    @property
    def sizes(self) -> np.ndarray:
        """Rollouts generated for each group, int64 (P,)."""
        return self.draw.rollouts

    def write_to(self, writer: RunWriter) -> None:
        """Write the groups into a run's folder under the step that trains on them."""
        writer.drawn(self.draw)
        draw, sizes = self.draw, self.sizes
        writer.groups(
            self.step + 1, draw.tickets, draw.prompts, self.rewards, self.verdict, sizes, self.completions
        )
