"""What becomes of finished groups: which are trained on, and how each of their rollouts is credited."""

from __future__ import annotations

import numpy as np

from curro.admission.gate import Gate
from curro.advantage.base import Advantage
from curro.allocation.base import Allocation
from curro.groups import Groups
from curro.prompts import PromptTable
from curro.selection.base import Outcome, Selection


def credit_groups(
    groups: Groups,
    table: PromptTable,
    *,
    selection: Selection,
    admission: Gate,
    advantage: Advantage,
    allocation: Allocation,
) -> tuple[Outcome, np.ndarray]:
    """Ask the parts of a curriculum about finished groups.

    Rollouts have an advantage of 0 where the selection does not credit their group, and where the allocation
    keeps others of it.

    Returns:
        The outcome, and which rollouts the allocation keeps, bool (P, G).
    """
    admitted_P = np.ones(len(groups.prompts), np.bool_) & admission(groups)
    advantages_PG = advantage(groups)
    if (uncredited_P := selection.uncredited(groups)) is not None:
        advantages_PG = np.where(uncredited_P[:, None], 0.0, advantages_PG)
        if selection.replaces_uncredited:
            admitted_P &= ~uncredited_P
    kept_PG = allocation.kept(groups, table)
    if allocation.keep is not None:
        advantages_PG = np.where(kept_PG, advantages_PG, 0.0)
    outcome = Outcome(
        groups.prompts, groups.steps, groups.rewards, groups.scored, groups.mean, groups.variance,
        groups.named, advantages=advantages_PG, admitted=admitted_P,
    )  # fmt: skip
    return outcome, kept_PG
