"""The port: everything a training framework asks of a curriculum, in NumPy."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from curro import checkpoint, registry
from curro.admission.gate import Gate
from curro.advantage.base import Advantage
from curro.errors import CheckpointError, ConfigError, ExhaustedError
from curro.groups import read_groups
from curro.lessons import Lessons, Policy
from curro.prompts import PromptTable
from curro.selection.base import Outcome, Selection, checked
from curro.signal_meter import SignalMeter
from curro.tickets import TicketLedger

FORMAT = 2


@dataclass(frozen=True)
class Draw:
    """Prompts to roll out; arrays of shape (P,).

    Attributes:
        prompts: int64, the prompts' numbers in the data set, distinct.
        tickets: int64, to be settled by `observe` or `drop`.
        probabilities: float64, of drawing this prompt when it was drawn; NaN where nothing was random,
            or it is not known.
        weights: float64, importance weights, for `Curriculum.batch_weights`.
        reasons: uint8, why each was chosen (`curro.Reason`).
        step: the training step that asked.
    """

    prompts: np.ndarray
    tickets: np.ndarray
    probabilities: np.ndarray
    weights: np.ndarray
    reasons: np.ndarray
    step: int

    def __len__(self) -> int:
        return len(self.prompts)


@dataclass(frozen=True)
class Verdict:
    """What the update needs to know of finished groups.

    Attributes:
        prompts: int64 (P,).
        admitted: bool (P,), whether the group is trained on.
        advantages: float64 (P, G); 0 for rollouts that were not scored.
        weights: float64 (P,), importance weights at draw time, for `Curriculum.batch_weights`.
        informativeness: float64 (P,), the within-group variance mean((r - mean r)^2), in squared
            units of the reward; p(1-p) for 0/1 rewards.
        lessons: further sequences to train on, of methods that ask the policy something.
    """

    prompts: np.ndarray
    admitted: np.ndarray
    advantages: np.ndarray
    weights: np.ndarray
    informativeness: np.ndarray
    lessons: Lessons | None = None


class Curriculum:
    """Decides which prompts are rolled out next, and learns from their rewards.

    Args:
        selection: which prompts are rolled out next: a method's name ("prioritized-replay"), the name
            with options as a dict or as text ("prioritized-replay:variant=published"),
            "module:Class" of your own, or a `Selection`.
        prompts: the number of prompts, the sequence of their keys, or anything with `keys`,
            `fingerprint` and, for methods that look at them, `rows` (a `curro.data.PromptSet`).
        advantage: how rollouts are credited; the same forms. None leaves the crediting to the host
            framework, and verdicts carry A = r - mean(r).
        admission: which finished groups are trained on ("band:0.3,0.7"); the same forms. None: all.
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
        self.config = {
            "selection": _describe("selection", selection),
            "advantage": _describe("advantage", advantage),
            "admission": _describe("admission", admission),
            "reward_range": list(self.table.reward_range),
            "seed": operator.index(seed),
        }
        self.rng = np.random.default_rng(seed)
        self.ledger = TicketLedger(self.table)
        self.step = 0
        self.signal = SignalMeter(self.table)
        self.admitted = 0
        self.credits, self.filters = advantage is not None, admission is not None
        self.advantage: Advantage = _built("advantage", advantage or "group", Advantage)
        self.advantage.bind(self.table)
        self.admission: Gate = _built("admission", admission or "everything", Gate)
        self.admission.bind(self.table)
        self.selection: Selection = _built("selection", selection, Selection)
        self.selection.bind(self.table, self.rng)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], prompts: int | Sequence[str] | Any) -> Curriculum:
        """Build from a dict of the arguments' names, as TOML or YAML give it."""
        known = ("selection", "advantage", "admission", "reward_range", "seed")
        for name in config:
            if name not in known:
                raise ConfigError(f"a curriculum has no setting {name!r}; there are: {', '.join(known)}")
        if "selection" not in config:
            raise ConfigError("the curriculum's configuration lacks `selection`: name a method")
        return cls(prompts=prompts, **config)

    def attach(self, policy: Policy) -> None:
        """Lend the policy to a method that asks it something (METIS); hosts call this before training."""
        self.selection.attach(policy)

    @property
    def free(self) -> int:
        """How many prompts are not in flight."""
        open_prompts = np.unique(self.ledger.prompts) if self.selection.repeats else self.ledger.prompts
        return self.table.size - len(open_prompts)

    def select(self, n: int, *, step: int) -> Draw:
        """Choose n prompts to roll out.

        Args:
            n: how many; several small calls in a step draw what one large call would.
            step: the host's training step; never smaller than in an earlier call.

        Raises:
            ExhaustedError: fewer than n prompts are free; nothing was selected.
            ConfigError: n < 1, a step that goes back, or a method that did not choose n free prompts.
        """
        n, step = operator.index(n), operator.index(step)
        if n < 1:
            raise ConfigError(f"select needs n >= 1, not {n}")
        if step < self.step:
            raise ConfigError(
                f"step {step} is before step {self.step}: report the training step, which only grows"
            )
        if not self.selection.repeats and n > self.free:
            raise ExhaustedError(
                f"{n} prompts were asked for and {self.free} of {self.table.size} are free, "
                f"{len(self.ledger)} are in flight: observe or drop some, or ask for fewer"
            )
        self.step = step
        choice = checked(self.selection.select(n, step), n, self.selection)
        tickets = self.ledger.open(choice.prompts, step, choice.weights, repeats=self.selection.repeats)
        return Draw(choice.prompts, tickets, choice.probabilities, choice.weights, choice.reasons, step)

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
        admitted_P = np.ones(len(rows), np.bool_) & self.admission(groups)
        advantages_PG = self.advantage(groups)
        weights_P = self.ledger.weights[rows]

        outcome = Outcome(
            groups.prompts, groups.steps, groups.rewards, groups.scored, groups.mean, groups.variance,
            groups.named, advantages=advantages_PG, admitted=admitted_P,
        )  # fmt: skip
        lost = np.empty(0, np.int64) if scored is None else np.flatnonzero(groups.count == 0)
        if len(lost):
            admitted_P[lost], seen = False, np.flatnonzero(groups.count)
            rows, outcome = rows[seen], outcome.take(seen)
        self.ledger.settle(rows, observed=True)
        self.selection.observe(outcome)
        lessons, self.selection.lessons = self.selection.lessons, None
        self.table.visit(outcome.prompts, outcome.steps, outcome.mean, outcome.variance)
        self.signal.observe(outcome.variance)
        if len(lost):
            self.drop(np.atleast_1d(tickets)[lost])
        self.admitted += int(np.count_nonzero(admitted_P))
        return Verdict(prompts, admitted_P, advantages_PG, weights_P, groups.variance, lessons)

    def batch_weights(self, weights_P: ArrayLike) -> np.ndarray:
        """The factors (P,) of a batch's groups in its loss.

        Some methods relate importance weights to the largest of the batch that is trained on (PSPO, equation
        11), and only who puts it together knows which groups those are.

        Args:
            weights_P: of the batch's groups, as `Verdict` has them, from any number of draws.
        """
        return self.selection.batch_weights(np.asarray(weights_P, np.float64))

    def drop(self, tickets: ArrayLike) -> None:
        """Settle tickets whose rollouts were cancelled, failed or are stale: nothing is learned.

        Raises:
            TicketError: an unknown, settled or repeated ticket.
        """
        rows = self.ledger.find(tickets)
        prompts = self.ledger.prompts[rows]
        self.ledger.settle(rows, observed=False)
        self.selection.release(prompts)

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
            **self.selection.metrics(),
        }

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next draws depend on: nested dicts of arrays and plain values."""
        return {
            "format": FORMAT,
            "config": self.config,
            "fingerprint": self.table.fingerprint,
            "step": self.step,
            "signal": self.signal.state_dict(),
            "admitted": self.admitted,
            "rng": self.rng.bit_generator.state,
            "ledger": self.ledger.state_dict(),
            "table": self.table.state_dict(),
            "selection": self.selection.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where `state` was taken: the next draws are the draws that would have come.

        Prompts that were in flight still are; `drop(curriculum.ledger.tickets)` frees them where their
        rollouts are lost.

        Raises:
            CheckpointError: the state of another data set, configuration or version; or it is damaged, and
                this curriculum, of which a part may be loaded, is of no more use.
        """
        for what, saved, here in (
            ("format", state.get("format"), FORMAT),
            ("data set", state.get("fingerprint"), self.table.fingerprint),
            ("configuration", state.get("config"), self.config),
        ):
            if saved != here:
                raise CheckpointError(
                    f"the checkpoint is of another {what}: it has {saved!r}, this curriculum {here!r}; "
                    "resume with what saved it, or start a new run"
                )
        try:
            self.table.load_state_dict(state["table"])
            self.ledger.load_state_dict(state["ledger"])
            self.step, self.admitted = state["step"], state["admitted"]
            self.signal.load_state_dict(state["signal"])
            self.rng.bit_generator.state = state["rng"]
            self.selection.load_state_dict(state["selection"])
        except CheckpointError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CheckpointError(f"the checkpoint lacks what this curriculum needs: {error!r}") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `state_dict` to one file, atomically."""
        checkpoint.save_state(path, self.state_dict())

    def load(self, path: str | os.PathLike[str]) -> None:
        """Read what `save` wrote; raises CheckpointError as `load_state_dict` does."""
        self.load_state_dict(checkpoint.load_state(path))


def _built(kind: str, spec: Any, base: type) -> Any:
    method = spec if isinstance(spec, base) else registry.build(kind, spec)
    if not isinstance(method, base):
        raise ConfigError(f"{kind} {spec!r} is not a curro.{base.__name__}: derive its class from that")
    return method


def _describe(kind: str, spec: Any) -> Any:
    """The spec as JSON gives it back, for the checkpoint to compare."""
    if isinstance(spec, str):
        spec = registry.parse(kind, spec)
    elif isinstance(spec, Selection | Advantage | Gate):
        options = {name: value for name, value in vars(spec).items() if not name.startswith("_")}
        spec = {"name": f"{type(spec).__module__}:{type(spec).__qualname__}", **options}
    return json.loads(json.dumps(spec, default=lambda value: type(value).__qualname__))
