"""Groups that are rolled out in several rounds: what there is of each so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from curro.draws import Draw, joined
from curro.hosts.trl.kept_groups import KeptGroup, Logs, Rows, cut
from curro.run_writer import Completion
from curro.verdicts import Verdict


@dataclass
class OpenGroup:
    """A group whose ticket is open.

    Attributes:
        draw: of this one prompt.
        rows: its rows of TRL's outputs so far, in parts that were padded alike.
        rewards: (rollouts, reward functions) a round, NaN where a function returned None.
        logs: what TRL logs of its rows, by name.
        completions: what was generated, a row each.
    """

    draw: Draw
    rows: list[Rows] = field(default_factory=list)
    rewards: list[torch.Tensor] = field(default_factory=list)
    logs: Logs = field(default_factory=dict)
    completions: list[Completion] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(len(part) for part in self.rewards)

    def closed(self, verdict: Verdict) -> KeptGroup:
        """What is trained on of the group, with the curriculum's verdict of it."""
        group = KeptGroup(self.rows, torch.cat(self.rewards), self.logs, verdict)
        kept_G = verdict.kept[0, : len(group)]
        return group if kept_G.all() else group.take(np.flatnonzero(kept_G))


class OpenGroups:
    """The open groups of a batch, by ticket."""

    def __init__(self) -> None:
        self._groups: dict[int, OpenGroup] = {}

    def start(self, draw: Draw) -> None:
        """Open the groups of a draw."""
        for row, ticket in enumerate(draw.tickets.tolist()):
            self._groups[ticket] = OpenGroup(draw.take([row]))

    def prompts(self, numbers: Mapping[int, int]) -> list[int]:
        """The prompts of a round, one a row, for so many rollouts of each ticket."""
        return [
            int(self._groups[ticket].draw.prompts[0])
            for ticket, number in numbers.items()
            for _ in range(number)
        ]

    def add(
        self,
        numbers: Mapping[int, int],
        rows: Sequence[Rows],
        rewards: torch.Tensor,
        logs: Logs,
        completions: Sequence[Completion],
    ) -> None:
        """Add the rollouts of a round.

        Args:
            numbers: how many of each ticket, in the order of the rows.
            rows: the rows of every process, in the order of the processes.
            rewards, logs, completions: of all of them.
        """
        start = 0
        for ticket, number in numbers.items():
            group, stop = self._groups[ticket], start + number
            group.rows += cut(rows, start, stop)
            group.rewards.append(rewards[start:stop].cpu())
            group.completions += completions[start:stop]
            for name, values in logs.items():
                group.logs.setdefault(name, []).extend(values[start:stop])
            start = stop

    def sizes(self, tickets: Sequence[int]) -> np.ndarray:
        """How many rollouts each group has so far, int64 (P,)."""
        return np.array([len(self._groups[ticket]) for ticket in tickets])

    def rewards(self, tickets: Sequence[int]) -> torch.Tensor:
        """(rollouts, reward functions) of these groups, one after the other."""
        return torch.cat([part for ticket in tickets for part in self._groups[ticket].rewards])

    def completions(self, tickets: Sequence[int]) -> list[Completion]:
        """What was generated of these groups, one after the other."""
        return [one for ticket in tickets for one in self._groups[ticket].completions]

    def drawn(self, tickets: Sequence[int]) -> Draw:
        """As these groups were drawn, with the rollouts that each has."""
        parts = [self._groups[ticket].draw for ticket in tickets]
        return replace(joined(parts), rollouts=self.sizes(tickets))

    def close(self, tickets: Sequence[int], verdict: Verdict) -> list[KeptGroup]:
        """The groups of these tickets, which are open no more."""
        return [self._groups.pop(ticket).closed(verdict.take(row)) for row, ticket in enumerate(tickets)]
