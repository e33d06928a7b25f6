"""The port: everything a training framework asks of a curriculum, in NumPy."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from curro.admission.gate import Gate
from curro.advantage.base import Advantage
from curro.allocation.base import Allocation
from curro.allocation.budget_division import BudgetDivision
from curro.credited_groups import credit_groups
from curro.curriculum_state import CurriculumState
from curro.draw_requests import check_budget, read_request
from curro.draws import Draw
from curro.errors import ExhaustedError
from curro.groups import read_groups
from curro.html_table import html_table
from curro.method_specs import build_method, check_names, describe_method
from curro.one_at_a_time import one_at_a_time
from curro.policy import Policy
from curro.prompts import PromptTable
from curro.selection.base import Selection, checked
from curro.signal_meter import SignalMeter
from curro.source_meter import SourceMeter
from curro.tickets import TicketLedger
from curro.verdicts import Credited, Verdict, multiply_credit


class Curriculum(CurriculumState):
    """Decides which prompts are rolled out next, and learns from their rewards.

    Several threads may call it: every call waits for the one before.

    Args:
        selection: which prompts are rolled out next: a method's name ("prioritized-replay"), the name
            with options as a dict or as text ("prioritized-replay:variant=published"),
            "module:Class" of your own, or a `Selection`.
        prompts: the number of prompts, the sequence of their keys, or anything with `keys`,
            `fingerprint` and, for methods that look at them, `rows` (a `curro.data.PromptSet`).
        advantage: how rollouts are credited; the same forms. None leaves the crediting to the host
            framework, and verdicts carry A = r - mean(r).
        admission: which finished groups are trained on ("band:0.3,0.7"); the same forms. None: all.
        allocation: how many rollouts each prompt gets of a budget ("knapsack"); the same forms. None: as many
            as any other.
        reward_range: the rewards of complete failure and complete success: the scale of success rates, and
            of variances that are compared with those of 0/1 rewards; other rewards are allowed.
        seed: of all random choices. Same seed, same feedback: same draws.

    Raises:
        ConfigError: a wrong name or option, an empty data set, duplicate keys.
    """

    def __init__(
        self,
        selection: str | Mapping[str, Any] | Selection,
        prompts: int | Sequence[str] | Any,
        *,
        advantage: str | Mapping[str, Any] | Advantage | None = None,
        admission: str | Mapping[str, Any] | Gate | None = None,
        allocation: str | Mapping[str, Any] | Allocation | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        seed: int = 0,
    ) -> None:
        keys = getattr(prompts, "keys", None)
        self.table = PromptTable(
            prompts if keys is None or callable(keys) else keys,
            fingerprint=getattr(prompts, "fingerprint", None),
            rows=getattr(prompts, "rows", None),
            reward_range=reward_range,
        )
        specs = {
            "selection": selection, "advantage": advantage, "admission": admission, "allocation": allocation
        }  # fmt: skip
        self.config = {
            **{kind: describe_method(kind, spec) for kind, spec in specs.items()},
            "reward_range": list(self.table.reward_range),
            "seed": operator.index(seed),
        }
        self.rng = np.random.default_rng(seed)
        self._lock = RLock()
        self.ledger = TicketLedger(self.table)
        self.step = 0
        self.signal = SignalMeter(self.table)
        self.sources = SourceMeter(self.table)
        self.admitted = 0
        self.has_advantage = advantage is not None
        self.advantage: Advantage = build_method("advantage", advantage or "group")
        self.advantage.bind(self.table)
        self.admission: Gate = build_method("admission", admission or "everything")
        self.admission.bind(self.table)
        self.selection: Selection = build_method("selection", selection)
        self.selection.bind(self.table, self.rng)
        self.has_admission = admission is not None or self.selection.replaces_uncredited
        self.has_allocation = allocation is not None
        self.allocation: Allocation = build_method("allocation", allocation or "equal")
        self.division = BudgetDivision(self.allocation, self.selection, self.table)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], prompts: int | Sequence[str] | Any) -> Curriculum:
        """Build from a dict of the arguments' names, as TOML or YAML give it."""
        check_names(config)
        return cls(prompts=prompts, **config)

    @one_at_a_time
    def attach(self, policy: Policy) -> None:
        """Lend the policy to a method that asks it something (METIS); hosts call this before training."""
        self.selection.attach(policy)

    @property
    @one_at_a_time
    def free(self) -> int:
        """How many prompts are not in flight."""
        open_prompts = np.unique(self.ledger.prompts) if self.selection.repeats else self.ledger.prompts
        return self.table.size - len(open_prompts)

    @one_at_a_time
    def select(self, n: int, *, step: int, rollouts: int | None = None) -> Draw:
        """Choose n prompts to roll out.

        Args:
            n: how many; several small calls in a step draw what one large call would.
            step: the host's training step; never smaller than in an earlier call.
            rollouts: the budget that the allocation divides between the n prompts. A prompt that gets nothing
                of it is not drawn, so that the draw may have fewer than n. None: the host decides how many
                rollouts a prompt gets.

        Raises:
            ExhaustedError: fewer than n prompts are free; nothing was selected.
            ConfigError: n < 1, a step that goes back or is beyond 2,147,483,646, a method that did not choose
                n free prompts, no budget for the curriculum's allocation, or one that it cannot spend.
        """
        n, step, rollouts = read_request(n, step, rollouts, latest=self.step)
        if not self.selection.repeats and n > self.free:
            raise ExhaustedError(
                f"{n} prompts were asked for and {self.free} of {self.table.size} are free, "
                f"{len(self.ledger)} are in flight: observe or drop some, or ask for fewer"
            )
        check_budget(n, rollouts, self.allocation, is_required=self.has_allocation)
        self.step = step
        choice = checked(self.selection.select(n, step), n, self.selection)
        choice, rollouts_P = self.division.divide(choice, step, rollouts)
        tickets = self.ledger.open(
            choice.prompts, step, choice.weights, rollouts_P, repeats=self.selection.repeats
        )
        return Draw(**vars(choice), tickets=tickets, rollouts=rollouts_P, step=step)

    @one_at_a_time
    def observe(
        self,
        tickets: ArrayLike,
        rewards: ArrayLike,
        *,
        scored: ArrayLike | None = None,
        named: Mapping[str, ArrayLike] | None = None,
    ) -> Verdict:
        """Settle tickets with the rewards of their groups. On an error nothing is settled or learnt.

        Args:
            tickets: (P,), of one or several draws, in any order.
            rewards: (P, G), any real numbers.
            scored: bool (P, G), which rollouts have a reward; all by default. A group without one
                is dropped: its advantages are 0 and it is not admitted.
            named: what the rewards were made of (accuracy, format, ...), (P, G) each, NaN where a
                rollout has no such part; an admission gate may decide by one of them.

        Raises:
            TicketError: an unknown, settled or repeated ticket.
            RewardError: rewards of another shape, NaN, infinite, or beyond 1e15 in size (times the
                reward range where that is below 1); a named reward that the gate needs is missing.
        """
        rows = self.ledger.find(tickets)
        prompts = self.ledger.prompts[rows]
        groups = read_groups(self.table, prompts, self.ledger.steps[rows], rewards, scored, named)
        outcome, kept_PG = credit_groups(
            groups, self.table, selection=self.selection, admission=self.admission,
            advantage=self.advantage, allocation=self.allocation,
        )  # fmt: skip
        admitted_P, advantages_PG = outcome.admitted, outcome.advantages
        weights_P = self.ledger.weights[rows]
        lost = np.empty(0, np.int64) if scored is None else np.flatnonzero(groups.count == 0)
        if len(lost):
            admitted_P[lost], seen = False, np.flatnonzero(groups.count)
            rows, outcome = rows[seen], outcome.take(seen)
        self.ledger.settle(rows, observed=True)
        self.division.observe(outcome)
        auxiliary_samples = self.selection.observe(outcome)
        self.table.visit(outcome.prompts, outcome.steps, outcome.mean, outcome.variance)
        self.signal.observe(outcome.variance)
        self.sources.observe(outcome.prompts, outcome.mean, outcome.variance)
        if len(lost):
            self.drop(np.atleast_1d(tickets)[lost])
        self.admitted += int(np.count_nonzero(admitted_P))
        return Verdict(
            prompts, admitted_P, advantages_PG, weights_P, groups.variance, kept_PG, auxiliary_samples
        )

    @one_at_a_time
    def more(
        self,
        tickets: ArrayLike,
        rewards: ArrayLike,
        *,
        scored: ArrayLike | None = None,
        named: Mapping[str, ArrayLike] | None = None,
    ) -> np.ndarray:
        """How many further rollouts each of these open tickets is to get, int64 (P,); 0: observe it now.

        Nothing is settled, learnt or kept: the host keeps the rewards, asks the engine for that many more
        rollouts, and passes all of them again, here or to `observe`. It may observe at any time instead.
        Allocations that let groups go on are `screen` and `until`; with others the answer is 0.

        Args:
            tickets, rewards, scored, named: as `observe` takes them, all rollouts of each group so far.

        Raises:
            TicketError, RewardError: as `observe` does.
        """
        rows = self.ledger.find(tickets)
        prompts, steps = self.ledger.prompts[rows], self.ledger.steps[rows]
        groups = read_groups(self.table, prompts, steps, rewards, scored, named)
        return self.allocation.more(groups, self.table).astype(np.int64)

    def credit(self, verdicts: Credited | Sequence[Credited]) -> np.ndarray:
        """What multiplies each rollout's log-probabilities in the loss of the batch that is trained on.

        It is the advantages times the importance weights. Some methods relate these weights to the largest of
        the batch (PSPO, equation 11), so this is asked once, when the batch is complete, and for all of it.

        Args:
            verdicts: of the groups of the batch; where they come from several, in any order: `Verdict.take`
                picks rows.

        Returns:
            float64 (P, G), a row a group in the order given. G is the size of the largest group; the rows of
            smaller ones end in zeros.
        """
        return multiply_credit(verdicts, self.selection.batch_weights)

    @one_at_a_time
    def drop(self, tickets: ArrayLike) -> None:
        """Settle tickets whose rollouts were cancelled, failed or are stale: nothing is learned.

        Raises:
            TicketError: an unknown, settled or repeated ticket.
        """
        rows = self.ledger.find(tickets)
        prompts = self.ledger.prompts[rows]
        self.ledger.settle(rows, observed=False)
        self.selection.release(prompts)

    @one_at_a_time
    def metrics(self) -> dict[str, float]:
        """Counts of the port and the method's own numbers, a flat dict."""
        return {
            "selected": float(self.ledger.selected),
            "observed": float(self.ledger.observed),
            "dropped": float(self.ledger.dropped),
            "admitted": float(self.admitted),
            "in_flight": float(len(self.ledger)),
            **self.table.metrics(),
            **self.signal.metrics(),
            **self.sources.metrics(),
            **self.selection.metrics(),
        }

    def _repr_html_(self) -> str:
        """In a notebook: what it is made of, and what it knows so far."""
        parts = [(name, value) for name, value in self.config.items() if value is not None]
        counts = [(name, value) for name, value in self.metrics().items() if value == value]
        return html_table("Curriculum", ("part", "is"), parts) + html_table("So far", ("", ""), counts)
