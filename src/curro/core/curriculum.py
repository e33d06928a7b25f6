"""The port: everything a training framework asks of a curriculum, in NumPy."""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from curro.core import checkpoint, registry
from curro.core.bases import (
    Advantage,
    Allocation,
    Choice,
    Gate,
    Outcome,
    Selection,
    checked_answer,
    checked_choice,
    checked_division,
)
from curro.core.checkpoint import check_alike, check_state
from curro.core.configuration import (
    BASES,
    SUM,
    build_part,
    check_configuration,
    check_names,
    describe_part,
    read_signal,
)
from curro.core.errors import CheckpointError, ConfigError, ExhaustedError
from curro.core.groups import Feedback, Groups, outcome_parts, read_groups
from curro.core.identity import DatasetRows, check_same_rows
from curro.core.meters import GroupMeter, RangeMeter, ShapingMeter, SurvivalMeter
from curro.core.policy import Policy, PolicyUse
from curro.core.prompts import PromptTable
from curro.core.sources import SourceMixture, read_weights
from curro.core.text import abbreviated, did_you_mean
from curro.core.tickets import TicketLedger
from curro.core.verdicts import Credited, Draw, Verdict, multiply_credit

FORMAT = 3
"""Version of the checkpoint format; other versions are refused."""

LAST_STEP = 2**31 - 2
"""Largest training step: the prompt table stores steps as int32."""

P = ParamSpec("P")
R = TypeVar("R")


def locked(method: Callable[Concatenate[Curriculum, P], R]) -> Callable[Concatenate[Curriculum, P], R]:
    """Hold the curriculum's lock while the method runs, so that several threads may call it."""

    @functools.wraps(method)
    def call(self: Curriculum, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._lock:
            return method(self, *args, **kwargs)

    return call


class Curriculum:
    """Decides which prompts are rolled out next, and learns from their rewards.

    Several threads may call it: every call waits for the one before.

    Args:
        selection: which prompts are rolled out next: a method's name ("prioritized-replay"), the name
            with options as a dict or as text ("prioritized-replay:variant=published"),
            "module:Class" of your own, or a `Selection`. The text may name the other parts too, as every
            host takes it: "frontier admission=band:0.2,0.8 allocation=knapsack".
        prompts: a `datasets.Dataset` or a list of rows, dicts with a `prompt`; a `curro.data.PromptSet`, or
            anything else with `keys`, `fingerprint` and, for methods that look at them, `rows`; the sequence
            of the prompts' keys; or their number.
        advantage: how rollouts are credited; the same forms. None leaves the crediting to the host
            framework, and verdicts carry A = r - mean(r).
        admission: which finished groups are trained on ("band:0.3,0.7"); the same forms. None: all.
        allocation: how many rollouts each prompt gets of a budget ("knapsack"); the same forms. None: equal.
        reward_range: the rewards of complete failure and complete success, the scale of success rates and
            variances; other rewards are allowed.
        signal: the part of the reward by which prompts are ranked, predicted, gated and counted: a name of
            `observe`'s `named`, or several whose sum it is ("math+code", or a list); `reward_range` is then
            the signal's. Advantages use the trained reward, which is "sum". None: the same, unless a host
            that knows the parts of the reward takes the verifying ones (`default_signal`).
        source_weights: fixed shares of the data's sources: a weight for each of them, as a mapping or as text
            ("math=2,code=1"). None: the selection decides.
        seed: of all random choices. Same seed, same feedback: same draws.

    Attributes:
        config: the arguments, without the prompts, as plain values.
        signal_parts: the parts of the reward that are the signal; empty: the trained reward.
        table: what is remembered of every prompt.
        ledger: the tickets in flight.
        step: how many training steps had finished at the latest `select`.
        admitted: how many groups were admitted.

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
        signal: str | Sequence[str] | None = None,
        source_weights: str | Mapping[str, float] | None = None,
        seed: int = 0,
    ) -> None:
        if _are_rows(prompts):
            prompts = DatasetRows(cast(Sequence[Mapping[str, Any]], prompts))
        keys = getattr(prompts, "keys", None)
        self.table = PromptTable(
            prompts if keys is None or callable(keys) else keys,
            fingerprint=getattr(prompts, "fingerprint", None),
            rows=getattr(prompts, "rows", None),
            reward_range=reward_range,
        )
        self._was_numbered = self.table.is_numbered
        parts: dict[str, Any] = {
            "advantage": advantage, "admission": admission, "allocation": allocation, "signal": signal,
            "source_weights": source_weights,
        }  # fmt: skip
        named = "curriculum" if isinstance(selection, str) else "selection"
        parts = registry.expand_curriculum({named: selection, **parts})
        signal = parts["signal"]
        self.config: dict[str, Any] = {
            **{part: describe_part(part, parts[part]) for part in BASES},
            "reward_range": list(self.table.reward_range),
            "seed": _whole_number("seed", seed, least=0),
        }
        self.table.signal_parts = read_signal(signal)
        self._names_signal = signal is not None
        if self._names_signal:
            self.config["signal"] = list(self.signal_parts) or [SUM]
        weights = read_weights(parts["source_weights"])
        self.config |= {"source_weights": weights} if weights else {}
        self.rng = np.random.default_rng(self.config["seed"])
        self._lock = RLock()
        self.ledger = TicketLedger(self.table)
        self.step = self.admitted = 0
        self._groups, self._survival = GroupMeter(self.table), SurvivalMeter(self.table)
        self._range, self._shaping = RangeMeter(self.table), ShapingMeter(self.table)
        self.has_advantage = parts["advantage"] is not None
        self.advantage: Advantage = build_part("advantage", parts["advantage"] or "group")
        known_columns = set(self.table.columns)
        self.advantage.bind(self.table)
        self._advantage_columns = [
            column for name, column in self.table.columns.items() if name not in known_columns
        ]
        self.admission: Gate = build_part("admission", parts["admission"] or "everything")
        self.admission.bind(self.table)
        self.selection: Selection = build_part("selection", parts["selection"])
        self.table.has_shares = bool(weights)
        self.selection.bind(self.table, self.rng)
        for part in (self.advantage, self.admission, self.selection):
            if getattr(part, "table", None) is not self.table:
                raise ConfigError(f"{type(part).__name__}.bind has to call super().bind with its arguments")
        self.mixture: SourceMixture | None = None
        if weights:
            name = self.config["selection"]["name"]
            self.mixture = SourceMixture(self.table, self.selection, name, weights)
        self.has_admission = parts["admission"] is not None or self.selection.leaves_out == "groups"
        self.has_allocation = parts["allocation"] is not None
        self.allocation: Allocation = build_part("allocation", parts["allocation"] or "equal")
        self.allocation.bind(self.table, self.selection)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], prompts: int | Sequence[str] | Any) -> Curriculum:
        """Build from a dict of the arguments' names, as TOML or YAML give it."""
        check_names(config)
        return cls(prompts=prompts, **config)

    @locked
    def default_signal(self, names: Sequence[str]) -> tuple[str, ...]:
        """Take the parts of the reward that verify the answer as the signal, where the user named none.

        Hosts that know the names of the reward's parts call this before the first outcome. The choice is
        saved, and a run that began with another signal goes on with that one.

        Returns:
            The signal, where this call has chosen one. None is chosen where the user named a signal, or a
            reward range other than (0, 1), the verifiers'; nor if no part or all parts verify the answer
            (`curro.core.groups.outcome_parts`).
        """
        is_settled = self._names_signal or self.signal_parts or self.ledger.observed
        if is_settled or self.table.reward_range != (0.0, 1.0):
            return ()
        self.table.signal_parts = outcome_parts(names)
        return self.signal_parts

    @property
    def signal_parts(self) -> tuple[str, ...]:
        return self.table.signal_parts

    def check_reward(self, names: Collection[str], group: int, *, setting: str = "signal") -> str:
        """Refuse a signal that the reward lacks, and a gate that no group of 0/1 rewards can pass.

        Args:
            names: of the reward's parts.
            group: rollouts of each prompt.
            setting: what the user calls the signal.

        Raises:
            ConfigError: such a signal, or such a gate if all parts are 0 or 1; if rewards may be graded, the
                sentence on the gate is returned.
        """
        for name in self.signal_parts:
            if name not in names:
                raise ConfigError(
                    f"{setting} {name}: the reward has no such part{did_you_mean(name, names)}; "
                    f"it has: {', '.join(names)}"
                )
        sentence = "" if self.has_allocation else self.admission.why_empty(group)
        if sentence and all(name in registry.VERIFIERS for name in self.signal_parts or names):
            raise ConfigError(sentence)
        return sentence

    def _read(
        self, tickets: ArrayLike, rewards: ArrayLike, named: Mapping[str, ArrayLike] | None
    ) -> tuple[np.ndarray, Groups, Groups]:
        """The rows of these tickets in the ledger, and their groups: as trained on, and with the signal."""
        feedback, ledger = Feedback.read(tickets, rewards, named), self.ledger
        rows = ledger.find(feedback.tickets)
        groups = read_groups(self.table, ledger.prompts[rows], ledger.steps[rows], feedback)
        return rows, *(groups.by_parts(self.signal_parts) if self.signal_parts else (groups, groups))

    @locked
    def check_rows(self, rows: Any, name: str = "the data set") -> None:
        """Refuse rows that are not this curriculum's prompts in this order; hosts call this before training.

        A curriculum that was built from a bare number takes over their keys, their fingerprint and their
        columns. Its method does not look at them any more, because it was built without them.

        Args:
            rows: what the host trains on, with `keys`, `fingerprint` and `rows`, as `DatasetRows` has them.
            name: of the rows, for the message.

        Raises:
            ConfigError: another number of rows, or another fingerprint.
        """
        check_same_rows(self.table.size, self.table.fingerprint, rows, name)
        if self.table.is_numbered:
            self.table.adopt(rows)

    @locked
    def attach(self, policy: Policy) -> None:
        """Lend the policy to a method that asks it something (METIS); hosts call this before training."""
        self.selection.attach(policy)

    @locked
    def expect(self, steps: int) -> None:
        """Say how many training steps the run has; hosts that know it call this before training.

        After a tenth of them, and without this call after 128 groups, the log says so where the method finds
        no more than uniform sampling. The number is not saved.

        Raises:
            ConfigError: steps < 1.
        """
        self._groups.steps = _whole_number("steps", steps, least=1)

    @property
    @locked
    def free(self) -> int:
        """How many prompts are not in flight, without sources of weight 0."""
        if self.mixture is not None:
            return int(self.mixture.free(self.ledger.prompts).sum())
        return self.table.size - len(self.ledger)

    @locked
    def select(self, n: int, *, step: int, rollouts: int | None = None) -> Draw:
        """Choose n prompts to roll out.

        Args:
            n: how many. Several small calls in a step draw what one large call would, except with methods
                that compare candidates (`frontier`, `posterior`, `pcl`, `metis`), where each call compares
                its own, and with shares of sources.
            step: how many training steps have finished, 0 at first; never smaller than in an earlier call.
            rollouts: the budget that the allocation divides between the n prompts. A prompt that gets nothing
                of it is not drawn, so that the draw may have fewer than n. None: the host decides how many
                rollouts a prompt gets.

        Raises:
            ExhaustedError: fewer than n prompts are free; nothing was selected.
            ConfigError: n < 1, a step that goes back or is beyond 2,147,483,646, a method that did not choose
                n free prompts, no budget for the curriculum's allocation, or one that it cannot spend.
        """
        n, step, rollouts = self.read_request(n, step, rollouts)
        self.step = step

        def ask(count: int) -> Choice:
            return checked_choice(self.selection.select(count, step), count, self.selection)

        if self.mixture is None:
            choice = ask(n)
            uniform = self.selection.uniform_weights(choice)
            uniform_P = checked_answer(uniform, (n,), "fiu", self.selection, or_nan=True)
        else:  # uniform sampling has other shares of sources
            choice, uniform_P = self.mixture.choose(n, ask), np.full(n, np.nan)
        offsets = self.selection.prediction_offsets(choice)
        offsets_P = checked_answer(offsets, (n,), "fiu", self.selection)
        choice, rollouts_P = self._divide(choice, step, rollouts)
        tickets = self.ledger.open(choice.prompts, step, choice.weights, rollouts_P)
        if self.mixture is not None:
            self.mixture.count(choice.prompts)
        if len(tickets) == n:
            self._groups.draw(tickets, uniform_P, offsets_P)
        return Draw(**vars(choice), tickets=tickets, rollouts=rollouts_P, step=step)

    def _divide(self, choice: Choice, step: int, budget: int | None) -> tuple[Choice, np.ndarray]:
        """The prompts that get rollouts, and how many each gets, int64 (P,); 0 where the host decides."""
        if budget is None:
            initial, n = self.allocation.initial(choice.reasons), len(choice.prompts)
            return choice, checked_division(initial, n, 2**62, self.allocation, spends_all=False)
        division = self.allocation(choice.prompts, budget, step)
        rollouts_P = checked_division(division, len(choice.prompts), budget, self.allocation)
        if rollouts_P.all():
            return choice, rollouts_P
        self.selection.release(choice.prompts[rollouts_P == 0])
        return choice.take(rollouts_P > 0), rollouts_P[rollouts_P > 0]

    def read_request(self, n: Any, step: Any, rollouts: Any) -> tuple[int, int, int | None]:
        """The arguments of `select` as whole numbers; draws nothing.

        Raises:
            ExhaustedError, ConfigError: as `select` does.
        """
        n, step = _whole_number("n", n, least=1), _whole_number("step", step)
        rollouts = None if rollouts is None else _whole_number("rollouts", rollouts)
        if step < self.step:
            raise ConfigError(
                f"step {step} is before step {self.step}: report the training step, which only grows"
            )
        if step > LAST_STEP:
            raise ConfigError(f"step {step} is beyond {LAST_STEP}, the last step that can be counted")
        if n > self.free:
            raise ExhaustedError(
                f"{n} prompts were asked for and {self.free} of {self.table.size} are free, "
                f"{len(self.ledger)} are in flight: observe or drop some, or ask for fewer"
            )
        if rollouts is None and self.has_allocation and self.allocation.needs_budget:
            raise ConfigError(
                "the curriculum has an allocation and was asked for no rollouts: pass the budget of these "
                "prompts as `rollouts`, or leave the allocation out with a host that does not"
            )
        if rollouts is not None and not self.allocation.needs_budget:
            name = self.config["allocation"]["name"]
            raise ConfigError(f"the allocation {name} divides no budget: leave `rollouts` out")
        if rollouts is not None:
            self.allocation.check(n, rollouts)
        return n, step, rollouts

    @locked
    def observe(
        self,
        tickets: ArrayLike,
        rewards: ArrayLike,
        *,
        named: Mapping[str, ArrayLike] | None = None,
    ) -> Verdict:
        """Settle tickets with the rewards of their groups. On an error nothing is settled or learnt.

        What is observed changes the next `select`: predictors take it in at the start of that call.

        Args:
            tickets: (P,), of one or several draws, in any order.
            rewards: (P, G), any real numbers; NaN for a rollout that was not scored, and beyond the end of
                groups that are smaller than the largest. A group of NaN alone is dropped: its advantages are
                0 and it is not admitted.
            named: what the rewards were made of (accuracy, format, ...), (P, G) each, NaN where a
                rollout has no such part; the signal may be among them. A group in which no
                rollout has the signal is dropped too.

        Raises:
            TicketError: an unknown, settled or repeated ticket.
            RewardError: rewards of another shape, infinite, or beyond 1e15 in size (times the reward range
                where that is below 1); a part of the signal is missing.
            ConfigError: the selection returned auxiliary samples, and its `policy_use` lacks that.
        """
        rows, groups, signal_groups = self._read(tickets, rewards, named)
        prompts, weights_P, tickets_P = groups.prompts, self.ledger.weights[rows], self.ledger.tickets[rows]
        # before anything is settled: a user may have made warnings errors
        self._range.observe(signal_groups)
        is_scored_P = signal_groups.count > 0
        seen, lost = np.flatnonzero(is_scored_P), tickets_P[~is_scored_P]
        with self._undone_on_error(prompts):
            outcome, credited_PG = self._judge(groups, signal_groups)
            learnt, admitted_P = outcome.take(seen) if len(lost) else outcome, outcome.admitted
            self._survival.settle(learnt.prompts, learnt.admitted)
            self._shaping.observe(groups.variance[admitted_P], signal_groups.variance[admitted_P])
            self.ledger.settle(rows[seen], observed=True)
            auxiliary_samples = self.selection.observe(learnt)
            if auxiliary_samples is not None and PolicyUse.TRAINED not in self.selection.policy_use:
                raise ConfigError(
                    f"{type(self.selection).__qualname__}.observe returned samples to train the policy on, "
                    "and its policy_use lacks PolicyUse.TRAINED, by which hosts make room in their loss"
                )
            self.allocation.observe(learnt)
            if len(lost):
                self._free(self.ledger.find(lost))
        self.table.visit(learnt.prompts, learnt.steps, learnt.mean, learnt.variance)
        self._groups.observe(tickets_P[seen], learnt.prompts, learnt.variance, learnt.mean, step=self.step)
        if len(lost):
            self._groups.drop(lost)
            self._survival.settle(prompts[~is_scored_P], None, "unscored")
        self.admitted += int(np.count_nonzero(admitted_P))
        mean_P = np.where(is_scored_P, signal_groups.mean, np.nan)
        return Verdict(
            admitted_P, outcome.advantages, weights_P, signal_groups.variance, mean_P, credited_PG,
            auxiliary_samples,
        )  # fmt: skip

    def _free(self, rows: np.ndarray) -> None:
        """Settle the open tickets in these rows of the ledger without an outcome, and tell the selection."""
        prompts = self.ledger.prompts[rows]
        self.ledger.settle(rows, observed=False)
        self.selection.release(prompts)

    @contextmanager
    def _undone_on_error(self, prompts: np.ndarray) -> Iterator[None]:
        """Where a user's method raises, reopen the tickets and take back what the advantage noted."""
        open_tickets = self.ledger.open_tickets
        noted = [(column, column[prompts]) for column in self._advantage_columns]
        remembered = self.advantage.state_dict()
        try:
            yield
        except BaseException:
            for column, values_P in noted:
                column[prompts] = values_P
            self.advantage.load_state_dict(remembered)
            self.ledger.reopen(open_tickets)
            raise

    def _judge(self, groups: Groups, signal_groups: Groups) -> tuple[Outcome, np.ndarray]:
        """What becomes of finished groups, and the rollouts that may update the policy, bool (P, G)."""
        advantages_PG = checked_answer(self.advantage(groups), groups.rewards.shape, "fiu", self.advantage)
        advantages_PG = np.where(groups.scored, advantages_PG, 0.0)
        passes_P = checked_answer(self.admission(signal_groups), groups.mean.shape, "b", self.admission)
        admitted_P, credited_PG = (signal_groups.count > 0) & passes_P, signal_groups.scored
        without_P = self.selection.without_update(signal_groups)
        if without_P is not None:
            without_P = checked_answer(without_P, groups.mean.shape, "b", self.selection)
            credited_PG = credited_PG & ~without_P[:, None]
            advantages_PG = np.where(without_P[:, None], 0.0, advantages_PG)
            if self.selection.leaves_out == "groups":
                admitted_P &= ~without_P
        return Outcome.of(signal_groups, advantages_PG, admitted_P), credited_PG

    @locked
    def more(
        self,
        tickets: ArrayLike,
        rewards: ArrayLike,
        *,
        rollouts: int,
        named: Mapping[str, ArrayLike] | None = None,
    ) -> np.ndarray:
        """How many further rollouts each of these open groups gets of a budget, int64 (P,).

        Nothing is settled or learnt: the host rolls that many more out, and passes all of a group's rewards
        to `observe`. Among curro's rules `probe` alone gives further rollouts.

        Args:
            tickets, rewards, named: as `observe` takes them. Every column is a rollout that each of the
                groups has had, with a reward or without.
            rollouts: the budget, from 0; the answer sums to at most that.

        Raises:
            TicketError, RewardError: as `observe` does.
            ConfigError: a budget below 0.
        """
        budget = _whole_number("rollouts", rollouts, least=0)
        rows, _, signal_groups = self._read(tickets, rewards, named)
        further = self.allocation.more(signal_groups, budget)
        return checked_division(further, len(rows), budget, self.allocation, spends_all=False)

    def credit(self, verdicts: Verdict | Credited | Sequence[Verdict | Credited]) -> np.ndarray:
        """What multiplies each rollout's log-probabilities in the loss: advantages times importance weights.

        Some methods relate these weights to the largest of the batch (PSPO, equation 11), so this is asked
        once, for the verdicts of the complete batch (`Verdict.take` picks rows).

        Returns:
            float64 (P, G), a row a group in the order given. G is the size of the largest group; the rows of
            smaller ones end in zeros.
        """

        def batch_weights(weights_P: np.ndarray) -> np.ndarray:
            answer = self.selection.batch_weights(weights_P)
            return checked_answer(answer, weights_P.shape, "fiu", self.selection)

        return multiply_credit(verdicts, batch_weights)

    @locked
    def drop(self, tickets: ArrayLike, cause: str = "dropped") -> None:
        """Settle tickets whose rollouts were cancelled, failed or are stale: nothing is learned.

        Args:
            cause: why, which names a metric, `<cause>/success_rate`; empty if nothing was rolled out.

        Raises:
            TicketError: an unknown, settled or repeated ticket.
        """
        rows = self.ledger.find(tickets)
        prompts = self.ledger.prompts[rows]
        dropped = self.ledger.tickets[rows]
        with self._undone_on_error(prompts):
            self._free(rows)
        self._groups.drop(dropped)
        self._survival.settle(prompts, None, cause)

    @locked
    def metrics(self) -> dict[str, float]:
        """Counts of the port and the method's own numbers, a flat dict."""
        return {
            "selected": float(self.ledger.selected),
            "observed": float(self.ledger.observed),
            "dropped": float(self.ledger.dropped),
            "admitted": float(self.admitted),
            "in_flight": float(len(self.ledger)),
            **self.table.metrics(),
            **self._groups.metrics(),
            **self._survival.metrics(),
            **self.selection.metrics(),
        }

    @locked
    def state_dict(self) -> dict[str, Any]:
        """Everything that the next draws depend on: nested dicts of arrays and plain values."""
        return {
            "format": FORMAT,
            "config": self.config,
            "fingerprint": self.table.fingerprint,
            "step": self.step,
            "meters": self._groups.state_dict(),
            "admitted": self.admitted,
            "signal_parts": list(self.signal_parts),
            "rng": self.rng.bit_generator.state,
            "ledger": self.ledger.state_dict(),
            "table": self.table.state_dict(),
            "selection": self.selection.state_dict(),
            "allocation": self.allocation.state_dict(),
            **({} if self.mixture is None else {"mixture": self.mixture.state_dict()}),
            **({"advantage": remembered} if (remembered := self.advantage.state_dict()) else {}),
        }

    @locked
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where `state` was taken: the next draws are the draws that would have come.

        Prompts in flight still are; `drop(curriculum.ledger.tickets)` frees them where rollouts are lost.

        Raises:
            CheckpointError: the state was saved with other rows, another configuration or another version; or
                the state is damaged. The curriculum may be half loaded then: discard it.
        """
        try:
            here = self.state_dict()
            if state.get("format") != FORMAT:
                raise CheckpointError(
                    f"checkpoint format {state.get('format')!r:.20} cannot be read; this version of curro "
                    f"reads format {FORMAT}: resume with the version that saved it, or start a new run"
                )
            saved = state.get("fingerprint")
            # a curriculum that was built from a bare number may have been saved before it met its rows
            is_numbered = self._was_numbered and saved == f"{self.table.size} prompts"
            if not is_numbered and saved != self.table.fingerprint:
                raise CheckpointError(
                    f"the checkpoint is of another data set: it has {abbreviated(saved)!r}, this curriculum "
                    f"{abbreviated(self.table.fingerprint)!r}; resume with the same rows in the same order, "
                    "or start a new run with --known RUN, which takes over the earlier run's pass rates"
                )
            check_configuration(state.get("config"), self.config)
            check_alike(state, here)
            self._load(state)
        except CheckpointError:
            raise
        except Exception as error:  # whatever a damaged state makes of the code that reads it
            problem = f"{type(error).__name__}: {error}"
            raise CheckpointError(f"the checkpoint lacks what this curriculum needs: {problem}") from error

    def _load(self, state: Mapping[str, Any]) -> None:
        self.step, self.admitted = state["step"], state["admitted"]
        self.table.load_state_dict(state["table"])
        self.ledger.load_state_dict(state["ledger"])
        latest = max(0, int(self.table["last_step"].max()), int(self.ledger.steps.max(initial=0)))
        check_state(latest <= self.step <= LAST_STEP, "step", "is before others, or none")
        check_state(0 <= self.admitted <= self.ledger.observed, "admitted")
        parts = state.get("signal_parts", [])
        check_state(all(isinstance(name, str) for name in parts), "signal_parts")
        if not self._names_signal:
            self.table.signal_parts = tuple(parts)
        self._groups.load_state_dict(state["meters"])
        if self.mixture is not None:
            self.mixture.load_state_dict(state["mixture"])
        if "advantage" in state:
            self.advantage.load_state_dict(state["advantage"])
        self.rng.bit_generator.state = state["rng"]
        self.selection.load_state_dict(state["selection"])
        self.allocation.load_state_dict(state["allocation"])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `state_dict` to one file, atomically.

        Raises:
            CheckpointError: nothing can be written there; what was saved before is still there.
        """
        try:
            checkpoint.save_state(path, self.state_dict())
        except OSError as error:
            raise CheckpointError(
                f"the curriculum cannot be saved as {os.fspath(path)!r}: {error.strerror or error}"
            ) from error

    def load(self, path: str | os.PathLike[str]) -> None:
        """Read what `save` wrote; raises CheckpointError as `load_state_dict` does."""
        self.load_state_dict(checkpoint.load_state(path))

    def __repr__(self) -> str:
        parts = [f"{part}={self.config[part]['name']}" for part in BASES if self.config[part] is not None]
        seen = self.table.census()[0]
        return (
            f"Curriculum({', '.join(parts)}: {self.table.size} prompts, {seen} seen, "
            f"{len(self.ledger)} in flight, step {self.step})"
        )


def _are_rows(prompts: Any) -> bool:
    """Whether these are a data set's rows themselves: a `datasets.Dataset`, or a list of dicts."""
    if hasattr(prompts, "keys"):
        return False
    is_list = isinstance(prompts, Sequence) and len(prompts) > 0 and isinstance(prompts[0], Mapping)
    return is_list or hasattr(prompts, "column_names")


def _whole_number(name: str, value: Any, least: int = 1 - 2**62) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or not least <= number < 2**62:
        rule = "a whole number" if least < 0 else f"a whole number from {least}"
        raise ConfigError(f"{name} is {rule}, not {value!r:.50}")
    return number
