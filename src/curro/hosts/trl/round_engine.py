"""What the rounds of a batch ask for: draws, rollouts, verdicts, the same on every process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from accelerate import Accelerator
from accelerate.utils import gather_object

from curro.draws import Draw
from curro.errors import ExhaustedError
from curro.hosts.trl.books import Metrics, apart
from curro.hosts.trl.generated import Generated
from curro.hosts.trl.kept_groups import KeptGroup, check_mergeable, rows_of
from curro.hosts.trl.observer import GroupObserver
from curro.hosts.trl.open_groups import OpenGroups
from curro.hosts.trl.owner import on_owner
from curro.hosts.trl.rounds import Settled
from curro.rollout.fill import Fill
from curro.rollout.fresh_draws import draw_fresh, sized
from curro.rollout.settle import release


class RoundEngine:
    """Rolls out the groups of one batch; see `curro.hosts.trl.rounds.Engine`.

    Args:
        accelerator: the trainer's.
        fill: counts the groups that are given out.
        observer: reports finished groups to its curriculum.
        roll_out_prompts: generates and scores one rollout of each prompt of all processes.
        size: rollouts of a group, where the curriculum does not divide a budget.
        step: the training step.
        metrics, logs: TRL's `_metrics` and `_logs`.

    Attributes:
        written: what TRL wrote in all rounds, by metric.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        fill: Fill[KeptGroup],
        observer: GroupObserver,
        roll_out_prompts: Callable[[list[int]], Generated],
        *,
        size: int,
        step: int,
        metrics: dict[str, Metrics],
        logs: dict[str, Any],
    ) -> None:
        self.accelerator, self.fill, self.observer = accelerator, fill, observer
        self.curriculum, self.roll_out_prompts = observer.curriculum, roll_out_prompts
        self.size, self.step, self.metrics, self.logs = size, step, metrics, logs
        self.written: Metrics = defaultdict(list)
        self._open = OpenGroups()

    def draw(self, rows: int) -> Draw:
        """New groups for about so many rows."""
        drawn = on_owner(self.accelerator, lambda: self._draw(rows))
        if not self.accelerator.is_main_process:
            self.fill.give_out(drawn)
        self._open.start(drawn)
        return drawn

    def roll_out(self, numbers: Mapping[int, int]) -> None:
        """Generate and score so many rollouts of each of these open tickets."""
        with apart(self.metrics, self.logs) as (metrics, logs):
            generated = self.roll_out_prompts(self._open.prompts(numbers))
        check_mergeable(generated.output)
        for name, values in metrics.items():
            self.written[name] += values
        rows = gather_object([rows_of(generated.output)])
        self._open.add(numbers, rows, generated.rewards, logs, generated.completions)

    def more(self, tickets: Sequence[int]) -> Sequence[int]:
        """How many further rollouts each of these open tickets is to get."""
        if self.curriculum.allocation.needs_budget:
            return [0] * len(tickets)
        return self.observer.more(tickets, self._open.rewards(tickets), self._open.sizes(tickets))

    def settle(self, tickets: Sequence[int]) -> Settled[KeptGroup]:
        """Observe these groups."""
        drawn, rewards = self._open.drawn(tickets), self._open.rewards(tickets)
        verdict = self.observer.observe(drawn, rewards, self._open.completions(tickets), self.step)
        means_P = self.observer.report(rewards, drawn.rollouts).means
        return Settled(verdict, means_P, self._open.close(tickets, verdict))

    def drop(self, tickets: Sequence[int]) -> None:
        """Settle what is still open of these tickets."""
        if self.accelerator.is_main_process:
            release(self.curriculum, tickets)

    def _draw(self, rows: int) -> Draw:
        """Runs on the owner; as `draw`."""
        curriculum, fill, size = self.curriculum, self.fill, self.size
        processes, untried, budget = self.accelerator.num_processes, fill.untried, None
        number = -(-rows // size)
        if not curriculum.has_allocation:
            number = int(min(-(-number // processes), untried // processes)) * processes
        elif curriculum.allocation.needs_budget:
            number = int(min(number, untried))
            budget = -(-number * size // processes) * processes
        else:
            first, keep = curriculum.allocation.first, curriculum.allocation.keep
            number = int(min(max(1, rows // min(first, keep or first)), fill.n // size, untried))
        if not number:
            raise ExhaustedError(fill.explain("prompts"))
        return sized(draw_fresh(curriculum, fill, number, step=self.step, rollouts=budget), size)
