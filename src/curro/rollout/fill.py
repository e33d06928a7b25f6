"""The fill: which groups were given out for a batch, what became of each, and why a batch stays short.

The state machine does no I/O. Three drivers feed it: `curro.rollout.filler` from an event loop,
`curro.hosts.trl` in rounds of generation, and `curro.hosts.verl` as it polls verl's queue.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from curro.core.bases import Reason
from curro.core.curriculum import Curriculum
from curro.core.errors import ExhaustedError, FillError
from curro.core.groups import Feedback
from curro.core.verdicts import Draw, Verdict
from curro.rollout.fill_settings import FillSettings


@dataclass
class FillCounts:
    """What fills have done, in groups.

    `given_out = admitted + rejected + failed + stale + cancelled + in flight` at all times.

    Attributes:
        draws: how often prompts were drawn.
        given_out: groups that were sent to be rolled out.
        repeats: prompts that were drawn again for the same batch, and not rolled out again.
        admitted, rejected: groups that the curriculum observed, by what its gate said.
        failed: groups that the curriculum dropped because they have no reward: their generation or scoring
            failed, or nothing scored them.
        stale: groups that were dropped because they were too old.
        cancelled: groups that were given up before they ended.
        filtered, expired: admitted groups that did not stay: a filter of the trainer's own removed them, or
            they grew too old before a batch took them.
        topped_up: rejected groups that came into a batch because it was short.
        rejected_reward: the sum of the rejected groups' mean rewards.
    """

    draws: int = 0
    given_out: int = 0
    repeats: int = 0
    admitted: int = 0
    rejected: int = 0
    failed: int = 0
    stale: int = 0
    cancelled: int = 0
    filtered: int = 0
    expired: int = 0
    topped_up: int = 0
    rejected_reward: float = 0.0

    @property
    def dropped(self) -> int:
        """Groups that the curriculum never observed."""
        return self.failed + self.stale + self.cancelled

    @property
    def ended(self) -> int:
        """Groups that came to an end; groups that were cancelled before did not."""
        return self.admitted + self.rejected + self.failed + self.stale

    def since(self, before: Self) -> Self:
        """What was counted after `before`."""
        names = [count.name for count in fields(self)]
        return type(self)(**{name: getattr(self, name) - getattr(before, name) for name in names})

    def metrics(self) -> dict[str, float]:
        """The counts under the names `fill/...`; the mean reward of rejected groups if there are any."""
        counts = {count.name: float(getattr(self, count.name)) for count in fields(self)}
        total = counts.pop("rejected_reward")
        if self.rejected:
            counts["rejected_reward"] = total / self.rejected
        return {f"fill/{name}": number for name, number in counts.items()}


GroupT = TypeVar("GroupT")


@dataclass(frozen=True)
class _Rejected(Generic[GroupT]):
    """A rejected group, by which a batch that stays short may be topped up."""

    informativeness: float
    ticket: int
    prompt: int
    group: GroupT


LOSSES = {
    "rejected": "rejected by the gate",
    "failed": "failed",
    "stale": "too old",
    "filtered": "removed by the trainer's own filter",
    "expired": "too old before they were trained on",
}
"""Why a group that ended is not in the batch, as messages say it."""

ADVICE = {
    "rejected": "widen the gate",
    "failed": "look for the errors of the engine and of the reward",
    "stale": "allow older groups",
    "filtered": "turn the trainer's own filter off",
    "expired": "allow older groups",
    "limit": "raise the limit of the fill",
    "prompts": "take more data or smaller batches",
    "short": "choose another `when_short`",
}
"""What a user can do about each loss, and about what ran out."""


@dataclass(frozen=True)
class InFlight:
    """A group that was given out and has not ended.

    Attributes:
        prompt, step: its prompt, and the step that asked for it.
        is_estimate: whether it was drawn to estimate the prompt's difficulty (`Reason.ESTIMATE`).
    """

    prompt: int
    step: int
    is_estimate: bool = False


class Fill(Generic[GroupT]):
    """Fills one batch after another with admitted groups.

    A driver does for each batch:

    1. It calls `begin`.
    2. Until `missing` is 0, or `reason` says why no more groups may be given out, it draws prompts with
       `select_unseen` and reports every group that ends: to `settle` if the curriculum observed it, else to
       `mark_failed`.
    3. It calls `take`, which returns the groups of the batch, and drops the tickets that `release` returns.

    The driver settles the tickets with the curriculum; this class only counts them. It gives each
    prompt out once a batch. A prompt whose estimate was rejected may come once more, to be trained on.

    Args:
        settings: when to give up, and what to do then.
        size: the number of prompts of the data set.
        weigh: what a group counts for in the size of a batch. By default a group counts for 1, and sizes are
            numbers of groups; where it counts for its rows, sizes and the limit are numbers of rows.
        unit: what sizes are numbers of, for messages.
        counts: where to count.
        advice: what to do about a loss or about what ran out, in place of entries of `ADVICE`.

    Attributes:
        n, step: the size of the batch that is being filled, as `weigh` counts, and how many training steps
            have finished before it.
        in_flight: groups that were given out and have not ended, by ticket.
        admitted: groups for this batch, by ticket, in the order in which they ended. What `take` leaves
            stays for the next batch.
        prompts_given_out: the prompts that this batch has had, by ticket.
        held: open tickets of prompts that were drawn again for this batch. They stay open while it is filled,
            or the same prompts could be drawn for ever.
        exhausted: the curriculum has no prompt left that this batch has not had.
        failures: groups that have failed in a row.
        last_failure: which group of the batch failed last, and why, where the driver knows.
    """

    def __init__(
        self,
        settings: FillSettings,
        *,
        size: int,
        weigh: Callable[[GroupT], int] = lambda group: 1,
        unit: str = "groups",
        counts: FillCounts | None = None,
        advice: Mapping[str, str] | None = None,
    ) -> None:
        self.settings, self.size = settings, size
        self.weigh, self.unit = weigh, unit
        self.counts = FillCounts() if counts is None else counts
        self.advice = dict(advice or {})
        self.n, self.step = 0, 0
        self.in_flight: dict[int, InFlight] = {}
        self.admitted: dict[int, GroupT] = {}
        self.prompts_given_out: dict[int, int] = {}
        self.held: list[int] = []
        self.exhausted = False
        self.failures, self.last_failure = 0, ""
        self._ended = 0  # groups that ended, as `weigh` counts
        self._unique_prompts: set[int] = set()
        self._estimated: set[int] = set()  # prompts of this batch whose estimates were rejected
        self._rejected: list[_Rejected[GroupT]] = []  # the most informative first
        self._before = replace(self.counts)

    # ------------------------------ one batch ------------------------------

    def begin(self, n: int, step: int, *, waiting: Collection[int] | None = None) -> None:
        """Start a batch of this size; groups in flight and groups that were left over may come into it.

        Args:
            waiting: the tickets, of those, that are still to be had. None: all of them.
        """
        self.n, self.step, self.exhausted, self.failures, self.last_failure = n, step, False, 0, ""
        self._estimated.clear()
        self._rejected, self._before = [], replace(self.counts)
        if waiting is not None:
            self.admitted = {ticket: self.admitted[ticket] for ticket in self.admitted if ticket in waiting}
        self._ended = 0
        carried = self.in_flight.keys() | self.admitted.keys()
        self._set_given_out(
            {ticket: prompt for ticket, prompt in self.prompts_given_out.items() if ticket in carried}
        )

    def restore(self, in_flight: Mapping[int, InFlight], admitted: Mapping[int, tuple[int, GroupT]]) -> None:
        """Continue with the groups of a saved run.

        Args:
            in_flight: groups that have not ended, by ticket.
            admitted: (prompt, group) of the admitted groups that no batch has taken, by ticket.
        """
        self.in_flight = dict(in_flight)
        self.admitted = {ticket: group for ticket, (_, group) in admitted.items()}
        self.counts.given_out += len(self.in_flight) + len(self.admitted)
        self.counts.admitted += len(self.admitted)
        prompts = {ticket: group.prompt for ticket, group in self.in_flight.items()}
        self._set_given_out(prompts | {ticket: prompt for ticket, (prompt, _) in admitted.items()})

    @property
    def _have(self) -> int:
        return sum(map(self.weigh, self.admitted.values()))

    @property
    def missing(self) -> int:
        """How many admitted groups, as `weigh` counts, the batch still lacks."""
        return max(0, self.n - self._have)

    @property
    def untried(self) -> int:
        """How many prompts the batch has not had."""
        return self.size - len(self._unique_prompts)

    @property
    def batch_counts(self) -> FillCounts:
        """What was counted since the batch was begun."""
        return self.counts.since(self._before)

    @property
    def reason(self) -> str:
        """Why no more groups may be given out for this batch; empty where more may."""
        if self.n and self._ended >= self.settings.limit * self.n:
            return "limit"
        return "prompts" if self.exhausted else ""

    def take(self) -> list[GroupT]:
        """The groups of the batch: the admitted ones, and of a short batch what `when_short` says.

        Raises:
            FillError: the batch is short. The admitted groups stay for the next one.
        """
        batch, size = self._until_full(self.admitted.values(), self.n)
        best, more = self._until_full([entry.group for entry in self._rejected], self.n - size)
        if size + more < self.n and self.settings.when_short != "finish":
            raise FillError(self.explain())
        for ticket in list(self.admitted)[: len(batch)]:
            del self.admitted[ticket]
        self.counts.topped_up += len(best)
        return batch + best

    def explain(self, reason: str = "") -> str:
        """The sentence that says why the batch is short and what to do; it counts steps from 1."""
        counts, reason, advice = self.batch_counts, reason or self.reason, ADVICE | self.advice
        losses = sorted((-getattr(counts, name), name) for name in LOSSES if getattr(counts, name))
        losses_text = ", ".join(f"{-number} {LOSSES[name]}" for number, name in losses)
        # the most frequent loss is what to mend first
        causes = [name for _, name in losses[:1]] + [reason] * bool(reason)
        causes += ["short"] * (self.settings.when_short == "error")
        remedies = [advice[name] for name in causes if advice[name]]
        ran_out = {
            "limit": f"the limit of {self.settings.limit:g} batches was reached",
            "prompts": f"all {self.size} prompts were tried or are in flight",
        }.get(reason, "no more groups could be had")
        return (
            f"step {self.step + 1} cannot be filled: {ran_out}, and {self._have} of {self.n} {self.unit} are "
            f"admitted. {len(self.prompts_given_out)} groups were given out"
            f"{f' ({losses_text})' if losses else ''}: {', or '.join(remedies) or 'ask for smaller batches'}"
            f"{f'; the last that failed, {self.last_failure}' if self.last_failure else ''}"
        )

    # ------------------------------ what is given out ------------------------------

    def has_had(self, prompts: Iterable[int]) -> np.ndarray:
        """Whether each prompt was already given out for this batch; bool (P,)."""
        return np.array([int(prompt) in self._unique_prompts for prompt in prompts], np.bool_)

    def keep_open(self, tickets: Iterable[int]) -> None:
        """Keep the tickets of prompts that were drawn again open until `release`."""
        tickets = [int(ticket) for ticket in tickets]
        self.held += tickets
        self.counts.repeats += len(tickets)

    def give_out(self, draw: Draw) -> None:
        """Count the groups of this draw as in flight."""
        self.counts.draws += 1
        self.counts.given_out += len(draw)
        is_estimate_P = draw.reasons == Reason.ESTIMATE
        rows = zip(draw.tickets.tolist(), draw.prompts.tolist(), is_estimate_P.tolist(), strict=True)
        for ticket, prompt, is_estimate in rows:
            self.in_flight[ticket] = InFlight(prompt, draw.step, is_estimate)
            self.prompts_given_out[ticket] = prompt
            self._unique_prompts.add(prompt)

    def release(self) -> list[int]:
        """The held tickets, for the driver to drop when the batch is filled or given up."""
        held, self.held = self.held, []
        return held

    def older_than(self, steps: int) -> list[int]:
        """The tickets of groups in flight that were asked for more than so many steps ago."""
        return [ticket for ticket, group in self.in_flight.items() if self.step - group.step > steps]

    # ------------------------------ what becomes of a group ------------------------------

    def settle(
        self,
        feedback: Feedback,
        verdict: Verdict,
        groups: Sequence[GroupT],
        sizes: Sequence[int] | None = None,
    ) -> None:
        """Take in P groups that the curriculum observed.

        Groups that it dropped have failed and were not rejected: no gate has seen them, so that the advice to
        widen the gate would be wrong.

        Args:
            feedback, verdict: on the groups.
            groups: in the order of the feedback.
            sizes: what each counts for in the limit if it was dropped (`mark_failed`); by default 1.
        """
        dropped_P, means_P = verdict.dropped, feedback.means
        for row, (ticket, group) in enumerate(zip(feedback.tickets.tolist(), groups, strict=True)):
            if dropped_P[row]:
                self.mark_failed(ticket, "failed", size=1 if sizes is None else sizes[row])
            elif verdict.admitted[row]:
                self.admit(ticket, group)
            else:
                variance, mean = float(verdict.informativeness[row]), float(means_P[row])
                self.reject(ticket, group, informativeness=variance, reward=mean)

    def admit(self, ticket: int, group: GroupT) -> None:
        """Take in a group that the gate admitted."""
        self._end_judged(ticket)
        self.counts.admitted += 1
        self.failures = 0
        self.admitted[ticket] = group
        self._ended += self.weigh(group)

    def reject(self, ticket: int, group: GroupT, *, informativeness: float, reward: float) -> None:
        """Count a group that the gate rejected.

        Args:
            informativeness: its reward variance; the most informative rejected groups top a short batch up.
            reward: its mean reward.
        """
        ended = self._end_judged(ticket)
        if ended.is_estimate:
            self._unique_prompts.discard(ended.prompt)
            self._estimated.add(ended.prompt)
        self.counts.rejected += 1
        self.counts.rejected_reward += reward
        self.failures = 0
        self._ended += self.weigh(group)
        if self.settings.when_short == "top-up":
            self._rejected.append(_Rejected(informativeness, ticket, ended.prompt, group))
            self._rejected.sort(key=lambda entry: (-entry.informativeness, entry.ticket))
            # no more of them than could be needed, for their rollouts take memory; one whose prompt may be
            # drawn again replaces none, since it goes when its prompt's next group ends
            size, missing = 0, self.missing
            for place, entry in enumerate(self._rejected):
                if size >= missing:
                    del self._rejected[place:]
                    break
                size += 0 if entry.prompt in self._estimated else self.weigh(entry.group)

    def withdraw(self, ticket: int, why: str) -> None:
        """Remove an admitted group that no batch will take: `why` is "filtered" or "expired"."""
        del self.admitted[ticket]
        setattr(self.counts, why, getattr(self.counts, why) + 1)

    def mark_failed(self, ticket: int, why: str, size: int = 1) -> None:
        """Count a group from which the curriculum learns nothing.

        Args:
            why: "failed", "stale" or "cancelled".
            size: what a group that failed or is stale counts for in the limit, in the unit of `weigh`: its
                rollouts have been paid for.
        """
        self._end(ticket)
        setattr(self.counts, why, getattr(self.counts, why) + 1)
        self._ended += size * (why in ("failed", "stale"))
        if why == "failed":
            self.failures += 1

    def _end(self, ticket: int) -> InFlight:
        if ticket not in self.in_flight:
            raise KeyError(f"ticket {ticket} is not in flight: a group ends once")
        return self.in_flight.pop(ticket)

    def _end_judged(self, ticket: int) -> InFlight:
        ended = self._end(ticket)
        if ended.prompt in self._estimated:
            # a batch has each prompt once
            self._rejected = [entry for entry in self._rejected if entry.prompt != ended.prompt]
        return ended

    def _until_full(self, groups: Iterable[GroupT], missing: int) -> tuple[list[GroupT], int]:
        """The first groups that fill what is missing, and their size."""
        chosen, size = list[GroupT](), 0
        for group in groups:
            if size >= missing:
                break
            chosen.append(group)
            size += self.weigh(group)
        return chosen, size

    def _set_given_out(self, prompts: dict[int, int]) -> None:
        self.prompts_given_out, self._unique_prompts = prompts, set(prompts.values())


class Port(Protocol):
    """A `Curriculum`, or a client that forwards calls to one."""

    def select(self, n: int, *, step: int, rollouts: int | None = None) -> Draw: ...

    def drop(self, tickets: Any, cause: str = ...) -> None: ...


def select_unseen(port: Port, fill: Fill[Any], n: int, *, step: int, rollouts: int | None = None) -> Draw:
    """Draws n prompts as `Curriculum.select` does, none that this batch has had, and gives them out.

    A prompt is free as soon as its group is observed, and a method that looks for the most informative
    prompts would choose the just admitted ones once more. The ticket of such a prompt is held
    open, so that the next `select` cannot draw it again, and another prompt is drawn in its place, with its
    rollouts if there is a budget.

    Raises:
        ExhaustedError: fewer than n prompts are free that the batch has not had. Nothing was given out.
    """
    if n > fill.untried:
        fill.exhausted = True
        raise ExhaustedError(
            f"{n} prompts were asked for that the batch of step {step + 1} has not had, and it has had all "
            f"but {fill.untried} of {fill.size}: take smaller batches or more data"
        )
    parts: list[Draw] = []
    missing, budget = n, rollouts
    while missing:
        try:
            draw = port.select(missing, step=step, **({} if budget is None else {"rollouts": budget}))
        except BaseException as error:
            tickets = [ticket for part in parts for ticket in part.tickets.tolist()]
            if tickets:
                port.drop(tickets, "")
            fill.exhausted = isinstance(error, ExhaustedError)
            raise
        again_P = fill.has_had(draw.prompts.tolist())
        fill.keep_open(draw.tickets[again_P].tolist())
        parts.append(draw.take(~again_P) if again_P.any() else draw)
        missing = int(again_P.sum())
        budget = None if budget is None else int(draw.rollouts[again_P].sum())
    fresh = Draw.join(parts)
    fill.give_out(fresh)
    return fresh


def release(curriculum: Curriculum, tickets: Iterable[int], cause: str = "") -> None:
    """Drop tickets, except settled ones, for a `cause` as `Curriculum.drop` takes it."""
    tickets_P = np.array(list(tickets), np.int64)
    tickets_P = tickets_P[np.isin(tickets_P, curriculum.ledger.tickets)]
    if len(tickets_P):
        curriculum.drop(tickets_P, cause)


def sized(draw: Draw, size: int) -> Draw:
    """The draw, with `size` rollouts a prompt where the curriculum leaves their number to the host."""
    return draw if draw.rollouts.any() else replace(draw, rollouts=np.full(len(draw), size))
