"""What each kind of method is: selection, predictor, gate, advantage, allocation."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any, Literal

import numpy as np

from curro.core.checkpoint import Stateful
from curro.core.errors import ConfigError
from curro.core.groups import Groups, Rows
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
class Choice(Rows):
    """What a method chose.

    Attributes:
        prompts: int64 (P,), distinct.
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


class Part(Stateful):
    """A part of a curriculum, which may remember something.

    Attributes:
        built_from: the options with which the registry made it, by which a checkpoint knows it.
    """

    table: PromptTable
    built_from: dict[str, Any]


class Chooser(Part):
    """A part that helps to choose prompts, by their outcomes and perhaps by what the policy says.

    Attributes:
        rng: the random numbers of the curriculum, or for a predictor a stream of its own.
        policy_use: what it does with the policy; a host lends that with `attach`.
        needs_second_visits: whether it goes by a prompt's own earlier outcomes alone.
        posterior: a `FadedPosterior`, or what has its `learn` and `belief`, which allocations read; or None.
    """

    policy_use = PolicyUse.NONE
    needs_second_visits = False
    posterior: Any = None
    rng: np.random.Generator

    def bind(self, table: PromptTable, rng: np.random.Generator) -> None:
        """Keep the prompt table and the random numbers; add columns, build indexes."""
        self.table, self.rng = table, rng

    def attach(self, policy: Policy) -> None:
        """Keep the policy that the host lends, before the first choice."""
        self.policy = policy

    def release(self, prompts: np.ndarray) -> None:
        """Prompts (P,) that were chosen came back without an outcome: nothing is learned."""

    def metrics(self) -> dict[str, float]:
        """The part's own numbers, a flat dict."""
        return {}


class Selection(Chooser):
    """Base of all selection methods: override `select`, and of the rest what the method needs.

    The port calls `bind` first. It marks chosen prompts in `table["in_flight"]` after `select` returns, and
    frees them before it calls `observe` or `release`.

    Attributes:
        has_weights: whether choices have importance weights other than 1; hosts that do not apply them refuse
            the method.
        leaves_out: what becomes of groups that `without_update` names. "nothing": it names none; "credit":
            they may be admitted, with advantages of 0, and hosts that cannot leave their updates out refuse
            the method; "groups": they are rejected, and hosts fill the batch with others.
        orders_everything: whether the method goes through the whole data set in an order of its own, so that
            shares of sources (`SourceMixture`) have no place in it.
    """

    has_weights = False
    leaves_out: Literal["nothing", "credit", "groups"] = "nothing"
    orders_everything = False

    def select(self, n: int, step: int) -> Choice:
        """Choose n distinct prompts that are not in flight; at least n are free when this is called."""
        raise NotImplementedError

    def uniform_weights(self, choice: Choice) -> np.ndarray:
        """Weights (P,) that turn outcomes of the latest choice into an estimate for uniform sampling.

        They are in proportion to one over the probability with which a prompt is drawn, with an expected mean
        of 1 or more. A group that says nothing of others has NaN; all have it where some prompts cannot be
        drawn, or the probabilities are not known.
        """
        return np.full(len(choice.prompts), np.nan)

    def prediction_offsets(self, choice: Choice) -> np.ndarray:
        """Predictions of the latest choice less the mean of all candidates', float64 (P,); 0 without any.

        They make the estimate of uniform sampling sharper (`GroupMeter`).
        """
        return np.zeros(len(choice.prompts))

    def without_update(self, groups: Groups) -> np.ndarray | None:
        """Finished groups, bool (P,), whose advantages become 0; None: there are none.

        It is asked before `observe`, and `leaves_out` says what else becomes of them.
        """
        return None

    def observe(self, outcome: Outcome) -> AuxiliarySamples | None:
        """Learn from finished groups, now free again; return what else the policy is to be trained on."""
        return None

    def take_back(self, choice: Choice) -> None:
        """A part of what `select` chose is not rolled out after all: its sources have their shares."""
        self.release(choice.prompts)

    def batch_weights(self, weights_P: np.ndarray) -> np.ndarray:
        """Importance weights as the loss of a batch takes them, from its prompts' choices."""
        return weights_P


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


LACKS = {
    "policy": "this selection asks the policy, and {} does not lend it: choose another one, or train with "
    "TRL or verl",
    "weights": "this selection has importance weights, and {} multiplies its own advantages by none: set "
    "pspo:beta=0, which has none",
    "leaving out": "this selection wants no update by some groups whose rewards differ, and {} trains on "
    "every group: set prioritized-replay's tolerance=0 or adcl's train_estimates=true, or train with TRL, "
    "verl or slime",
    "looking first": "this allocation looks at the first rewards of a batch, and {} does not ask it again: "
    "leave it out, choose knapsack, or train with TRL or the filler",
}
"""What a host may lack that a method needs, and what a user can do."""


def refuse(is_needed: object, lack: str, host: str, remedy: str = "") -> None:
    """Refuse a method that needs what a host lacks, one of `LACKS`; `remedy` is what else a user can do."""
    if is_needed:
        raise ConfigError(LACKS[lack].format(host) + remedy)


WANTED = {"b": "bool", "i": "whole numbers", "iu": "whole numbers", "fiu": "finite numbers"}
"""What the letters of NumPy's types stand for in messages."""


def checked_answer(
    answer: Any, shape: tuple[int, ...], kinds: str, part: object, *, or_nan: bool = False, what: str = ""
) -> np.ndarray:
    """Check that a user's method answered with an array of this shape, and return a copy of it.

    Args:
        kinds: NumPy's letters of the types that it may have; floats have to be finite.
        or_nan: whether they may be NaN.
        what: the answer is, for the message.
    """
    try:
        array = np.array(answer)
    except Exception:  # rows of several lengths, a tensor that NumPy cannot read
        array = np.empty((), object)
        array[()] = answer
    is_right = array.shape == shape and array.dtype.kind in kinds
    if is_right and array.dtype.kind == "f":
        is_right = bool((np.isfinite(array) | (np.isnan(array) if or_nan else False)).all())
    if not is_right:
        raise ConfigError(
            f"{type(part).__qualname__} returned {what}{array.dtype} of shape {array.shape}, "
            f"{' '.join(str(array).split()):.60}: return {WANTED[kinds]}{' or NaN' * or_nan} of shape {shape}"
        )
    return array


def checked_choice(choice: Any, n: int, selection: Selection) -> Choice:
    """Check that a user's method returned a choice of n prompts, and return a copy of it."""
    name = type(selection).__qualname__
    if not isinstance(choice, Choice):
        raise ConfigError(
            f"{name} returned {type(choice).__qualname__}: return a curro.Choice, as `Choice.of` makes"
        )
    kinds = {"prompts": "i", "reasons": "fiu", "probabilities": "fiu", "weights": "fiu"}
    columns = {
        column: checked_answer(
            answer, (n,), kinds[column], selection, or_nan=column == "probabilities", what=f"{column}, "
        )
        for column, answer in vars(choice).items()
    }
    if (columns["weights"] < 0).any():
        raise ConfigError(f"{name} returned weights below 0: importance weights are from 0")
    if not selection.has_weights and (columns["weights"] != 1).any():
        raise ConfigError(
            f"{name} returned weights other than 1 although its has_weights is False: set it to True, by "
            "which hosts know that they have to apply them"
        )
    if not set(columns["reasons"].tolist()) <= set(Reason):
        raise ConfigError(f"{name} returned reasons {columns['reasons']!s:.60}: take them from curro.Reason")
    return Choice(**columns)


class Predictor(Chooser):
    """Base of all predictors: override `informativeness`, and of the rest what the predictor needs."""

    def informativeness(self, prompts: np.ndarray, step: int) -> np.ndarray:
        """Predicted reward variance (P,) of candidates (P,), distinct, in squared reward ranges.

        That is p(1-p) for 0/1 rewards. May be a random draw from what is believed.
        """
        raise NotImplementedError

    def success_rate(self, prompts: np.ndarray, step: int) -> np.ndarray:
        """Predicted success rate (P,) of candidates, on the scale of `PromptTable.success_rate`.

        Raises:
            ConfigError: the predictor knows of variances alone.
        """
        raise ConfigError(f"{type(self).__name__} predicts no success rate: select by informativeness")

    def selected(self, prompts: np.ndarray) -> None:
        """The candidates (P,) of the latest prediction that will be rolled out; the others will not."""

    def observe(self, outcome: Groups) -> AuxiliarySamples | None:
        """Learn from finished groups; returns what the policy is to be trained on for it."""
        return None


class Judge(Part):
    """A part that judges finished groups."""

    def bind(self, table: PromptTable) -> None:
        """Keep the prompt table; add columns. The port calls it once, before anything else."""
        self.table = table


class Gate(Judge):
    """Base of all gates: override `__call__`. A gate decides, remembers nothing and adds no columns.

    A threshold is compared with a tolerance, because hosts give rewards in float32 (`band.between`).
    """

    def __call__(self, groups: Groups) -> np.ndarray:
        """Which groups are trained on, bool (P,), by the signal's rewards.

        Groups without a scored rollout come too, with mean 0; the port rejects them, whatever is answered.
        """
        raise NotImplementedError

    def why_empty(self, group: int) -> str:
        """Say that no group of 0/1 rewards of this size passes; "" where some does, or it is not known."""
        return ""


class Everything(Gate):
    """Every group is trained on: plain GRPO.

    Source: GRPO (Shao et al. 2024).
    """

    def __call__(self, groups: Groups) -> np.ndarray:
        return np.ones(len(groups.prompts), np.bool_)


class Advantage(Judge):
    """Base of all estimators: override `__call__`, and `bind` where something is remembered of a prompt.

    What is remembered of a prompt belongs in columns of the prompt table, so that it is saved and restored
    with it; what is remembered of all of them belongs in `state_dict`.
    """

    def __call__(self, groups: Groups) -> np.ndarray:
        """Advantages (P, G) of finished groups, 0 where a rollout was not scored.

        Groups without a scored rollout come too. The port settles the groups' tickets after this.
        """
        raise NotImplementedError


class Allocation(Part):
    """Base of all rules: override `__call__`, or `initial` and `more` if no budget is divided at first.

    Attributes:
        needs_budget: whether `__call__` divides a budget. False: every prompt gets what `initial` says.
        looks_first: whether `more` gives further rollouts to groups that have their first rewards.
        first: the most rollouts that a prompt gets if there is no budget.
    """

    needs_budget = True
    looks_first = False
    first = 0
    selection: Selection

    def bind(self, table: PromptTable, selection: Selection) -> None:
        """Keep the prompt table and the selection, which is bound already; add columns."""
        self.table, self.selection = table, selection

    def check(self, prompts: int, budget: int) -> None:
        """Raise a ConfigError if the budget cannot be spent on so many prompts; asked before a selection."""
        if budget < prompts:
            raise ConfigError(f"{budget} rollouts for {prompts} prompts: each needs at least one")

    def __call__(self, prompts: np.ndarray, budget: int, step: int) -> np.ndarray:
        """Divide a budget of rollouts among chosen prompts (P,): int64 (P,) from 0, which sum to `budget`."""
        raise NotImplementedError

    def initial(self, reasons: np.ndarray) -> np.ndarray:
        """How many rollouts each prompt gets without a budget, int64 (P,), by its `Reason`, uint8 (P,)."""
        return np.full(len(reasons), self.first, np.int64)

    def more(self, groups: Groups, budget: int) -> np.ndarray:
        """Divide further rollouts among open groups: int64 (P,), of at most `budget` in all.

        It is asked where `looks_first`, with the signal's rewards so far of all groups of a batch.
        """
        return np.zeros(len(groups.prompts), np.int64)

    def observe(self, outcome: Groups) -> None:
        """Learn from finished groups, before the prompt table notes their visits."""


def checked_division(
    rollouts: Any, prompts: int, budget: int, rule: Allocation, *, spends_all: bool = True
) -> np.ndarray:
    """Check that a rule divided the budget, all of it or at most that, and return int64 (P,)."""
    numbers_P = checked_answer(rollouts, (prompts,), "iu", rule)
    total = sum(numbers_P.tolist())  # which no uint64 holds
    if numbers_P.min(initial=0) < 0 or total > budget or (spends_all and total < budget):
        raise ConfigError(
            f"{type(rule).__qualname__} allocated {numbers_P!r:.80}: {prompts} whole numbers from 0 that sum "
            f"to {'' if spends_all else 'at most '}{budget} were asked for"
        )
    return numbers_P.astype(np.int64)
