"""Until: rounds of rollouts until a group has what it takes."""

from __future__ import annotations

import numpy as np

from curro.core.allocation import Allocation, successes
from curro.core.errors import ConfigError
from curro.core.groups import Groups
from curro.core.prompts import PromptTable

ENDS = ("balanced", "success")


class Until(Allocation):
    """Rounds of rollouts until the group is balanced or has a success; a fixed number is trained on.

    A success is a reward above the middle of the reward range. The rollouts that are trained on are half
    successes and half failures where there are enough of both; their baseline is that of all rollouts.

    Source: "Reinforce-Ada" (arXiv 2510.04996).

    Args:
        each: rollouts of a round.
        rounds: at most; rollouts that are not scored count towards them.
        end: "balanced": there are `keep` / 2 or more of both successes and failures (`each` / 2 without
            `keep`); "success": there is a success.
        keep: how many rollouts of a group are trained on at most; None: all.

    Raises:
        ConfigError: each or keep below 2, rounds below 1, or another end.
    """

    needs_budget = needs_belief = False

    def __init__(
        self, *, each: int = 8, rounds: int = 4, end: str = "balanced", keep: int | None = 8
    ) -> None:
        if each < 2 or rounds < 1 or (keep is not None and keep < 2):
            raise ConfigError(f"each and keep are from 2 and rounds from 1, not {each}, {keep} and {rounds}")
        if end not in ENDS:
            raise ConfigError(f"end is one of {', '.join(ENDS)}, not {end!r}")
        self.each, self.rounds, self.end, self.first, self.keep = each, rounds, end, each, keep

    def more(self, groups: Groups, table: PromptTable) -> np.ndarray:
        right_P = successes(groups, table).sum(axis=1)
        done_P = right_P >= 1
        if self.end == "balanced":
            done_P = 2 * np.minimum(right_P, groups.count - right_P) >= (self.keep or self.each)
        missing = min(self.each, max(0, self.each * self.rounds - groups.scored.shape[1]))
        return np.where(done_P | (groups.count == 0), 0, missing)
