"""What a selection method is: it chooses prompts, learns from their outcomes, and can be saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any, Literal

import numpy as np

from curro.core.errors import ConfigError
from curro.core.groups import Groups
from curro.core.policy import AuxiliarySamples, Policy, PolicyUse
from curro.core.prompts import PromptTable


class Reason(IntEnum):
    """Why a prompt was chosen."""

    PRIORITY = 0
    EXPLORATION = 1
    RETEST_SOLVED = 2
    RETEST_UNSOLVED = 3
    UNSEEN = 4
    UNIFORM = 5
    ESTIMATE = 6

    @staticmethod
    def by_visits(visits: np.ndarray) -> np.ndarray:
        """uint8 like `visits`: UNSEEN for prompts of 0 visits, PRIORITY (which is 0) for others."""
        return np.uint8(Reason.UNSEEN) * (visits == 0)


@dataclass(frozen=True)
class Choice:
    """What a method chose.

    Attributes:
        prompts: int64 (P,), distinct, unless the selection repeats prompts.
        reasons: uint8 (P,), values of `Reason`.
        probabilities: float64 (P,), of drawing this prompt next when it was drawn; NaN where the
            choice was not a random draw (the top of a heap) or its probability has no formula.
        weights: float64 (P,), importance weights; 1 where a method has none.
    """

    prompts: np.ndarray
    reasons: np.ndarray
    probabilities: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(
        cls, prompts: np.ndarray, reason: Reason | np.ndarray, probabilities: np.ndarray | float = np.nan
    ) -> Choice:
        """A choice with importance weights of 1; scalars are repeated for every prompt.

        Raises:
            ConfigError: prompts that are not whole numbers.
        """
        numbers = np.asarray(prompts)
        if numbers.dtype.kind not in "iu" and numbers.size:
            raise ConfigError(f"a choice is of prompts' numbers, which are whole, not {numbers.dtype}")
        n = len(numbers)
        return cls(
            numbers.astype(np.int64, copy=False),
            np.full(n, reason, np.uint8),
            np.full(n, probabilities, np.float64),
            np.ones(n),
        )

    def take(self, rows: np.ndarray) -> Choice:
        """The prompts at `rows`."""
        return Choice(*(array[rows] for array in vars(self).values()))

    @classmethod
    def join(cls, parts: list[Choice]) -> Choice:
        """The parts one after the other."""
        if len(parts) == 1:
            return parts[0]
        names = ("prompts", "reasons", "probabilities", "weights")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


@dataclass(frozen=True)
class Outcome(Groups):
    """What became of P groups of G rollouts.

    Attributes:
        advantages: float64 (P, G), as the curriculum credits them; 0 where not scored.
        admitted: bool (P,), whether the group is trained on.
    """

    advantages: np.ndarray = field(kw_only=True)
    admitted: np.ndarray = field(kw_only=True)

    @classmethod
    def of(cls, groups: Groups, advantages_PG: np.ndarray, admitted_P: np.ndarray) -> Outcome:
        """The outcome of these groups."""
        columns = {field.name: getattr(groups, field.name) for field in fields(Groups)}
        return cls(**columns, advantages=advantages_PG, admitted=admitted_P)


class Selection:
    """Base of all selection methods: override `select`, and of the rest what the method needs.

    The port calls `bind` once before anything else. It marks chosen prompts in `table["in_flight"]`
    after `select` returns, and frees them before it calls `observe` or `release`.

    Attributes:
        repeats: whether prompts in flight may be chosen again, and one twice in a call. False: the port
            asks for no more prompts than are free, and outcomes have distinct prompts.
        has_weights: whether choices have importance weights other than 1; hosts that do not apply them refuse
            the method.
        leaves_out: what becomes of groups that `without_update` names. "nothing": it names none; "credit":
            they may be admitted, with advantages of 0, and hosts that cannot leave their updates out refuse
            the method; "groups": they are rejected, and hosts fill the batch with others.
        needs_second_visits: whether the method chooses a prompt by its own earlier outcomes, so that it has
            nothing to go by where a run visits most prompts once.
        orders_everything: whether the method goes through the whole data set in an order of its own, so that
            shares of sources (`SourceMixture`) have no place in it.
        policy_use: what it does with the policy.
        posterior: the Beta distributions of success rates that the method keeps, which allocations read: an
            object with `learn()` and `belief(prompts, step)`, as `FadedPosterior` has them; None without.
    """

    repeats = False
    has_weights = False
    leaves_out: Literal["nothing", "credit", "groups"] = "nothing"
    needs_second_visits = False
    orders_everything = False
    policy_use = PolicyUse.NONE
    posterior: Any = None
    table: PromptTable
    rng: np.random.Generator

    def bind(self, table: PromptTable, rng: np.random.Generator) -> None:
        """Keep the prompt table and the curriculum's random numbers; add columns, build indexes."""
        self.table, self.rng = table, rng

    def attach(self, policy: Policy) -> None:
        """A host lends the policy, to methods that ask it something; before the first `select`."""

    def select(self, n: int, step: int) -> Choice:
        """Choose n distinct prompts that are not in flight; at least n are free when this is called."""
        raise NotImplementedError

    def uniform_weights(self, choice: Choice) -> np.ndarray:
        """Weights (P,) that turn outcomes of the latest choice into an estimate for uniform sampling.

        They are in proportion to one over the probability with which a prompt is drawn, so that weighted
        means of outcomes estimate uniform sampling's; NaN for a group that says nothing of others. All
        are NaN where some prompts cannot be drawn, or if nothing is known of the probabilities. They are
        expected to have a mean of 1, or more: from a mean below 1 follows that prompts which are hardly
        ever drawn are missing, and there is no estimate.
        """
        return np.full(len(choice.prompts), np.nan)

    def prediction_offsets(self, choice: Choice) -> np.ndarray:
        """Predictions of the latest choice less the mean of all candidates', float64 (P,).

        Their mean over uniform draws from the candidates is 0. They make the estimate of
        uniform sampling sharper (`UniformMeter`). 0 without predictions.
        """
        return np.zeros(len(choice.prompts))

    def without_update(self, groups: Groups) -> np.ndarray | None:
        """Finished groups, bool (P,), by which the policy is not updated: their advantages become 0.

        It is asked before `observe`, and `leaves_out` says what else becomes of them. None: there are none.
        """
        return None

    def observe(self, outcome: Outcome) -> AuxiliarySamples | None:
        """Learn from finished groups; their prompts are free again.

        Returns:
            What the policy is to be trained on besides the rollouts, if anything.
        """
        return None

    def release(self, prompts: np.ndarray) -> None:
        """Prompts (P,) came back without an outcome: they are free again, nothing is learned."""

    def take_back(self, choice: Choice) -> None:
        """A part of what `select` chose is not rolled out after all: its sources have their shares."""
        self.release(choice.prompts)

    def batch_weights(self, weights_P: np.ndarray) -> np.ndarray:
        """Importance weights as the loss of a batch takes them, from its prompts' choices."""
        return weights_P

    def metrics(self) -> dict[str, float]:
        """The method's own numbers, a flat dict."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """What the method remembers beside the prompt table and the random numbers."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore `state_dict`; the prompt table has been restored before, indexes are rebuilt from it."""


def sequential_weights(chance_P: np.ndarray, free: int) -> np.ndarray:
    """The uniform weights (P,) of prompts drawn one after the other without replacement.

    With draw j of P, the total of any quantity y over all free prompts is estimated without bias by
    y_1 + ... + y_{j-1} + y_j / q_j (Des Raj, 1956). The mean of the P estimates counts y_j with
    (1 / q_j + P - j) / P.

    Args:
        chance_P: q, the probability of each draw among the prompts that the draws before it left.
        free: how many prompts were free before the first draw.
    """
    return (1 / chance_P + np.arange(len(chance_P))[::-1]) / free


def refuse_weights(has_weights: bool, host: str, remedy: str = "") -> None:
    """For a host that trains on advantages of its own: called with the selection's `has_weights`.

    Args:
        remedy: what else a user can do, after a comma.
    """
    if has_weights:
        raise ConfigError(
            f"this selection has importance weights, and {host} multiplies its own advantages by none: set "
            f"pspo:beta=0, which has none{remedy}"
        )


def refuse_left_out(selection: Selection, host: str, *, but: str = "nothing") -> None:
    """Refuse a selection that leaves groups out of the update, for a host that cannot.

    Args:
        but: what the host can leave out (`Selection.leaves_out`).
    """
    if selection.leaves_out not in ("nothing", but):
        raise ConfigError(
            f"this selection wants no update by some groups whose rewards differ, and {host} trains on every "
            "group: set prioritized-replay's tolerance=0 or adcl's train_estimates=true, or train with TRL, "
            "verl or slime"
        )


def checked(choice: Any, n: int, selection: Selection) -> Choice:
    """Check that a user's method returned a choice of n prompts, and return it."""
    problem = f"{type(selection).__qualname__}.select was asked for {n} prompts and returned"
    if not isinstance(choice, Choice):
        raise ConfigError(
            f"{problem} {type(choice).__qualname__}: return a curro.Choice, as `Choice.of` makes"
        )
    for name, array_P in vars(choice).items():
        if array_P.shape != (n,):
            raise ConfigError(f"{problem} {name} of shape {array_P.shape}, not ({n},)")
    if choice.prompts.dtype != np.int64:
        raise ConfigError(f"{problem} prompts of type {choice.prompts.dtype}, not int64")
    if not selection.has_weights and (choice.weights != 1).any():
        raise ConfigError(
            f"{problem} weights other than 1, but its has_weights is False: set it to True, by which hosts "
            "know that they have to apply them"
        )
    return choice


def checked_samples(
    auxiliary_samples: AuxiliarySamples | None, selection: Selection
) -> AuxiliarySamples | None:
    """Check that a user's method said that it trains the policy, and return its samples."""
    if auxiliary_samples is not None and PolicyUse.TRAINED not in selection.policy_use:
        raise ConfigError(
            f"{type(selection).__qualname__}.observe returned samples to train the policy on, and its "
            "policy_use lacks PolicyUse.TRAINED: add it, in the predictor where that returned them; by it "
            "hosts know what their loss has to have room for"
        )
    return auxiliary_samples
