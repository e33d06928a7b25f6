"""TRL's rows of rewards as the groups that a curriculum and its listeners take, and what TRL logs of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import numpy as np
import torch

from curro.core.curriculum import Curriculum
from curro.core.groups import Feedback, sum_of_parts
from curro.core.verdicts import Draw, Verdict
from curro.rollout.evaluation_results import held_out_scores
from curro.runs.writer import Completion, RunWriter

T = TypeVar("T")


def by_group(rollouts: Sequence[T], sizes: Sequence[int]) -> list[list[T]]:
    """Cut what is known of each rollout, group after group, into groups of these sizes."""
    rest = iter(rollouts)
    return [list(islice(rest, size)) for size in sizes]


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


def scores_of(feedback: Feedback, prompts: int | None, curriculum: Curriculum) -> dict[str, float]:
    """Held-out scores `eval/...` of an evaluation's first `prompts` groups."""
    parts_RPG = [feedback.named[name] for name in curriculum.signal_parts]
    signal_PG = sum_of_parts(parts_RPG)[:prompts] if parts_RPG else None
    return held_out_scores(feedback.rewards[:prompts], curriculum.table.reward_range, signal_PG)


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


LOGGED_METRICS = {
    "curriculum/admitted", "curriculum/signal/mean_square_advantage", "curriculum/signal/uniform",
    "curriculum/signal/uniform_share", "curriculum/table/unseen", "curriculum/table/success_rate_mean",
    "curriculum/prediction/rank_correlation", "fill/given_out", "fill/rejected", "fill/topped_up",
}  # fmt: skip
"""What TRL logs by default of a curriculum and its fill, beside the selection's own metrics."""


def log_metrics(
    logged: dict[str, list[float]], values: Mapping[str, float], names: Collection[str] | None
) -> None:
    """Write a curriculum's numbers into TRL's metrics, which TRL averages over its logging window.

    What is counted for each batch (`fill/...`) is summed over the window, so that the log has counts. The
    curriculum's other numbers are totals or states: the latest one counts.

    Args:
        names: which to log; None: all. Numbers that are not known yet are left out.
    """
    for name, value in values.items():
        if not np.isnan(value) and (names is None or name in names):
            is_count = name.startswith("fill/") and name != "fill/rejected_reward"
            logged[name] = [value + sum(logged[name]) if is_count else value]
