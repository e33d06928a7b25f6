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
from curro.errors import CheckpointError, ConfigError, ExhaustedError, RewardError
from curro.prompts import PromptTable
from curro.selection.base import Outcome, Selection
from curro.tickets import TicketLedger

FORMAT = 1
_SIGNAL_RATE = 1 / 256
_LARGEST = 1e15
"""Rewards up to here, in reward ranges, keep squares finite in float32 and steps of 1 in float64."""


@dataclass(frozen=True)
class Draw:
    """Prompts to roll out; arrays of shape (P,).

    Attributes:
        prompts: int64, the prompts' numbers in the data set, distinct.
        tickets: int64, to be settled by `observe` or `drop`.
        probabilities: float64, of drawing this prompt when it was drawn; NaN where nothing was random,
            or it is not known.
        weights: float64, importance weights.
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
        weights: float64 (P,), importance weights at draw time.
        informativeness: float64 (P,), the within-group variance mean((r - mean r)^2), in squared
            units of the reward; p(1-p) for 0/1 rewards.
    """

    prompts: np.ndarray
    admitted: np.ndarray
    advantages: np.ndarray
    weights: np.ndarray
    informativeness: np.ndarray


class Curriculum:
    """Decides which prompts are rolled out next, and learns from their rewards.

    Args:
        selection: which prompts are rolled out next: a method's name ("prioritized-replay"), the name
            with options as a dict or as text ("prioritized-replay:variant=published"),
            "module:Class" of your own, or a `Selection`.
        prompts: the number of prompts, the sequence of their keys, or anything with `keys` and
            `fingerprint` (a `curro.data.PromptSet`).
        advantage: how rollouts are credited; the same forms. None leaves the crediting to the host
            framework, and verdicts carry A = r - mean(r).
        reward_range: the rewards of complete failure and complete success. Only what needs a success
            rate uses it; other rewards are allowed.
        seed: of all random choices. Same seed, same feedback: same draws.

    Raises:
        ConfigError: a wrong name or option, an empty data set, duplicate keys.
    """

    def __init__(
        self,
        selection: str | Mapping[str, Any] | Selection,
        prompts: int | Sequence[str] | Any,
        *,
        advantage: str | Mapping[str, Any] | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        seed: int = 0,
    ) -> None:
        keys = getattr(prompts, "keys", None)
        self.table = PromptTable(
            prompts if keys is None or callable(keys) else keys,
            fingerprint=getattr(prompts, "fingerprint", None),
            reward_range=reward_range,
        )
        self.config = {
            "selection": _describe("selection", selection),
            "advantage": _describe("advantage", advantage),
            "reward_range": list(self.table.reward_range),
            "seed": operator.index(seed),
        }
        self.rng = np.random.default_rng(seed)
        self.ledger = TicketLedger()
        self.step = 0
        self.signal = 0.0
        self.credits = advantage is not None
        self.advantage = registry.build("advantage", advantage or "group")
        if not callable(self.advantage):
            raise ConfigError(f"advantage {advantage!r} cannot be called: see curro.advantage.group")
        self.selection = (
            selection if isinstance(selection, Selection) else registry.build("selection", selection)
        )
        if not isinstance(self.selection, Selection):
            raise ConfigError(f"selection {selection!r} is not a curro.Selection: derive its class from that")
        self.selection.bind(self.table, self.rng)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], prompts: int | Sequence[str] | Any) -> Curriculum:
        """Build from a dict of `selection`, `advantage`, `reward_range`, `seed`, as TOML or YAML give it."""
        known = ("selection", "advantage", "reward_range", "seed")
        for name in config:
            if name not in known:
                raise ConfigError(f"a curriculum has no setting {name!r}; there are: {', '.join(known)}")
        if "selection" not in config:
            raise ConfigError("the curriculum's configuration lacks `selection`: name a method")
        return cls(prompts=prompts, **config)

    @property
    def free(self) -> int:
        """How many prompts are not in flight."""
        return self.table.size - len(self.ledger)

    def select(self, n: int, *, step: int) -> Draw:
        """Choose n prompts to roll out.

        Args:
            n: how many; several small calls in a step draw what one large call would.
            step: the host's training step; never smaller than in an earlier call.

        Raises:
            ExhaustedError: fewer than n prompts are free; nothing was selected.
            ConfigError: n < 1, or a step that goes back.
        """
        n, step = operator.index(n), operator.index(step)
        if n < 1:
            raise ConfigError(f"select needs n >= 1, not {n}")
        if step < self.step:
            raise ConfigError(
                f"step {step} is before step {self.step}: report the training step, which only grows"
            )
        if n > self.free:
            raise ExhaustedError(
                f"{n} prompts were asked for and {self.free} of {self.table.size} are free, "
                f"{len(self.ledger)} are in flight: observe or drop some, or ask for fewer"
            )
        self.step = step
        choice = self.selection.select(n, step)
        self.table["in_flight"][choice.prompts] = True
        tickets = self.ledger.open(choice.prompts, step, choice.weights)
        return Draw(choice.prompts, tickets, choice.probabilities, choice.weights, choice.reasons, step)

    def observe(self, tickets: ArrayLike, rewards: ArrayLike, *, scored: ArrayLike | None = None) -> Verdict:
        """Settle tickets with the rewards of their groups. On an error nothing is settled or learnt.

        Args:
            tickets: (P,), of one or several draws, in any order.
            rewards: (P, G), any real numbers.
            scored: bool (P, G), which rollouts have a reward; all by default. A group without one
                is dropped: its advantages are 0 and it is not admitted.

        Raises:
            TicketError: an unknown, settled or repeated ticket.
            RewardError: rewards of another shape, NaN, infinite, or beyond 1e15 in size (times the
                reward range where that is below 1).
        """
        rows = self.ledger.find(tickets)
        prompts = self.ledger.prompts[rows]
        rewards_PG, scored_PG = self._check(rewards, scored, prompts)
        count_P = scored_PG.sum(axis=1)
        # counted from the lowest reward, so that a group of equal rewards has a variance of exactly 0
        lowest_P = np.where(count_P > 0, rewards_PG.min(axis=1, where=scored_PG, initial=np.inf), 0.0)
        above_PG = np.where(scored_PG, rewards_PG - lowest_P[:, None], 0.0)
        mean_P = lowest_P + above_PG.sum(axis=1) / np.maximum(count_P, 1)
        centred_PG = np.where(scored_PG, rewards_PG - mean_P[:, None], 0.0)
        variance_P = np.square(centred_PG).sum(axis=1) / np.maximum(count_P, 1)
        advantages_PG = self.advantage(rewards_PG, scored_PG, mean_P, variance_P)
        weights_P = self.ledger.weights[rows]

        seen = count_P > 0
        outcome = Outcome(
            prompts=prompts[seen],
            steps=self.ledger.steps[rows][seen],
            rewards=rewards_PG[seen],
            scored=scored_PG[seen],
            mean=mean_P[seen],
            variance=variance_P[seen],
            advantages=advantages_PG[seen],
        )
        self._settle(rows[seen], observed=True)
        self.selection.observe(outcome)
        self._remember(outcome)
        if not seen.all():
            self.drop(np.atleast_1d(tickets)[~seen])
        return Verdict(prompts, seen, advantages_PG, weights_P, variance_P)

    def drop(self, tickets: ArrayLike) -> None:
        """Settle tickets whose rollouts were cancelled, failed or are stale: nothing is learned.

        Raises:
            TicketError: an unknown, settled or repeated ticket.
        """
        rows = self.ledger.find(tickets)
        prompts = self.ledger.prompts[rows]
        self._settle(rows, observed=False)
        self.selection.release(prompts)

    def _settle(self, rows: np.ndarray, *, observed: bool) -> None:
        self.table["in_flight"][self.ledger.prompts[rows]] = False
        self.ledger.settle(rows, observed=observed)

    def _remember(self, outcome: Outcome) -> None:
        self.table["visits"][outcome.prompts] += 1
        self.table["last_step"][outcome.prompts] = outcome.steps
        self.table["reward_mean"][outcome.prompts] = outcome.mean
        self.table["reward_variance"][outcome.prompts] = outcome.variance
        kept = (1 - _SIGNAL_RATE) ** np.arange(len(outcome.variance), -1, -1)
        self.signal = float(kept[0] * self.signal + _SIGNAL_RATE * (kept[1:] @ outcome.variance))

    def _check(
        self, rewards: ArrayLike, scored: ArrayLike | None, prompts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        try:
            rewards_PG = np.asarray(rewards, np.float64)
            scored_PG = np.asarray(np.ones(rewards_PG.shape) if scored is None else scored, np.bool_)
        except (TypeError, ValueError) as error:
            raise RewardError(f"rewards are a number a rollout, groups of one length: {error}") from error
        if rewards_PG.ndim != 2 or len(rewards_PG) != len(prompts) or not rewards_PG.shape[1]:
            raise RewardError(
                f"rewards have shape {rewards_PG.shape}; {len(prompts)} tickets need ({len(prompts)}, G), "
                "a row a ticket and a column a rollout"
            )
        if scored_PG.shape != rewards_PG.shape:
            raise RewardError(f"`scored` has shape {scored_PG.shape}, rewards have {rewards_PG.shape}")
        rewards_PG = np.where(scored_PG, rewards_PG, 0.0)
        low, high = self.table.reward_range
        limit = _LARGEST * min(1.0, high - low)
        fine = np.abs(rewards_PG) <= limit
        if not fine.all():
            row, rollout = np.argwhere(~fine)[0]
            raise RewardError(
                f"rollout {rollout} of prompt {self.table.key(int(prompts[row]))!r} has the reward "
                f"{rewards_PG[row, rollout]}: rewards are finite and at most {limit:g} in size; "
                "say in `scored` what could not be scored"
            )
        return rewards_PG, scored_PG

    def metrics(self) -> dict[str, float]:
        """Counts of the port and the method's own numbers, a flat dict."""
        return {
            "selected": float(self.ledger.selected),
            "observed": float(self.ledger.observed),
            "dropped": float(self.ledger.dropped),
            "in_flight": float(len(self.ledger)),
            **self.table.metrics(),
            **self._signal(),
            **self.selection.metrics(),
        }

    def _signal(self) -> dict[str, float]:
        """The advantage's mean square of recent groups against what uniform sampling would see.

        "Prioritized Replay for RL Post-training", section 4.3: gradients grow with it, so a learning
        rate tuned for uniform sampling may have to come down. Uniform's is the mean over all
        prompts seen so far of the variance at their latest visit.
        """
        seen = self.table["visits"] > 0
        uniform = float(self.table["reward_variance"][seen].mean(dtype=np.float64)) if seen.any() else 0.0
        observed = self.ledger.observed
        recent = self.signal / (1 - (1 - _SIGNAL_RATE) ** observed) if observed else np.nan
        return {
            "signal/mean_square_advantage": recent,
            "signal/uniform": uniform,
            "signal/ratio": recent / uniform if uniform > 0 else np.nan,
        }

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next draws depend on: nested dicts of arrays and plain values."""
        return {
            "format": FORMAT,
            "config": self.config,
            "fingerprint": self.table.fingerprint,
            "step": self.step,
            "signal": self.signal,
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
            CheckpointError: the state of another data set, configuration or version.
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
            self.step, self.signal = state["step"], state["signal"]
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


def _describe(kind: str, spec: Any) -> Any:
    """The spec as JSON gives it back, for the checkpoint to compare."""
    if isinstance(spec, str):
        spec = registry.parse(kind, spec)
    elif isinstance(spec, Selection):
        options = {name: value for name, value in vars(spec).items() if not name.startswith("_")}
        spec = {"name": f"{type(spec).__module__}:{type(spec).__qualname__}", **options}
    return json.loads(json.dumps(spec, default=lambda value: type(value).__qualname__))
