"""Selection by prediction: choose the most promising of many random candidates.

`Predicted` is the one selection for every predictor. The methods `frontier`, `posterior`, `pcl` and `metis`
are functions below it, which give it their predictor and its options.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from curro.core import registry
from curro.core.bases import Choice, Outcome, Predictor, Reason, Selection, checked_answer
from curro.core.errors import ConfigError, require
from curro.core.policy import AuxiliarySamples, Policy
from curro.core.prompts import PromptTable
from curro.methods.prediction.quality import PredictionQuality
from curro.methods.selection.exploration import AdaptiveExploration


class Predicted(Selection):
    """B of m B candidates by predicted informativeness, or nearest to a target success rate.

    "METIS", section 4 and equation 7: candidates are drawn uniformly from the prompts that are free; ties of
    the prediction are broken at random. Where fewer than m B are free, all of them are candidates. Small
    calls of `select` have fewer candidates each, so they draw other prompts than one for the whole batch.

    The prediction for a chosen prompt is kept in the table's column `predicted_variance`, in squared reward
    ranges, or in `predicted_rate`, on the scale of `PromptTable.success_rate`.

    Args:
        predictor: a registered predictor, with its options as a dict or as text, or module:Class.
        candidates: m, candidates for each prompt of the batch, from 1; 1 is uniform sampling.
        target: a success rate in (0, 1): the B nearest to it are chosen. None: the highest informativeness.
        exploration: the share of the batch that is drawn uniformly, in [0, 1]; None: `AdaptiveExploration`
            finds it.
        exponent: candidates are drawn with probabilities in proportion to informativeness^exponent, without
            replacement, from 0, which is uniform; None: the highest are taken.
    """

    remembered = ("predictor", "quality", "_stream")

    def __init__(
        self,
        *,
        predictor: str | Mapping[str, Any],
        candidates: int = 4,
        target: float | None = None,
        exploration: float | None = None,
        exponent: float | None = None,
    ) -> None:
        require(candidates >= 1, "candidates", "a number from 1", candidates)
        require(exponent is None or 0 <= exponent <= 100, "exponent", "in [0, 100]", exponent)
        require(target is None or 0 < target < 1, "target", "in (0, 1)", target)
        require(exploration is None or 0 <= exploration <= 1, "exploration", "in [0, 1]", exploration)
        if exponent is not None and target is not None:
            raise ConfigError("exponent weighs informativeness: leave `target` out")
        self.candidates, self.target, self.exploration = candidates, target, exploration
        self.exponent = exponent
        self.predictor: Predictor = registry.build("predictor", predictor)
        if not isinstance(self.predictor, Predictor):
            raise ConfigError(f"predictor {predictor!r} is not a curro.Predictor: derive its class from that")
        if target is not None and type(self.predictor).success_rate is Predictor.success_rate:
            raise ConfigError(f"{predictor!r} predicts no success rate: leave `target` out")
        self.posterior = self.predictor.posterior
        self.policy_use = self.predictor.policy_use
        self.needs_second_visits = self.predictor.needs_second_visits
        self.quality = PredictionQuality()
        self.adaptive = AdaptiveExploration() if exploration is None else None
        self._attached = False

    def bind(self, table: PromptTable, rng: np.random.Generator) -> None:
        super().bind(table, rng)
        (self._stream,) = rng.spawn(1)
        column = "predicted_variance" if self.target is None else "predicted_rate"
        self.expected_N = table.add(column, np.float32, np.nan)
        self.predictor.bind(table, self._stream)
        if self.adaptive is not None:
            self.adaptive.bind(table)

    def attach(self, policy: Policy) -> None:
        self._attached = True
        self.predictor.attach(policy)

    def select(self, n: int, step: int) -> Choice:
        if self.policy_use and not self._attached:
            raise ConfigError(
                f"{self.predictor.built_from['name']} asks the policy, and no host has lent it: "
                "train with a host that does, or call `curriculum.attach(policy)`"
            )
        self.quality.learn()
        candidates = self._candidates(n)
        predict = self.predictor.informativeness if self.target is None else self.predictor.success_rate
        value = checked_answer(predict(candidates, step), candidates.shape, "fiu", self.predictor)
        score = value if self.target is None else -np.abs(value - self.target)
        self._share = self.exploration or 0.0
        if self.adaptive is not None:
            self.adaptive.learn()
            self._share = self.adaptive.share
        uniform = int(self.rng.binomial(n, self._share)) if self._share else 0
        # the candidates are in random order, so the first ones are a uniform sample of the free prompts
        if self.exponent is not None:
            # the highest of log(v^exponent) plus Gumbel noise are a draw in proportion, without replacement
            log_weights = self.exponent * np.log(np.maximum(score, 1e-12))
            score = log_weights + self.rng.gumbel(size=len(score))
        best = uniform + _highest(score[uniform:], n - uniform)
        chosen = np.concatenate([np.arange(uniform), best])
        prompts = candidates[chosen]
        self.expected_N[prompts] = value[chosen]
        promised = value if self.target is None else value * (1 - value)
        self._offsets_P = promised[chosen] - promised.mean()
        self.predictor.selected(prompts)
        if self.adaptive is not None:
            self.adaptive.draw(prompts, uniform)
        reasons = np.repeat([Reason.EXPLORATION, Reason.PRIORITY], [uniform, n - uniform])
        return Choice.of(prompts, reasons)

    def _candidates(self, n: int) -> np.ndarray:
        """Free prompts in random order, at most n times `candidates`."""
        free_count = self.table.size - len(self.table.prompts_in_flight)
        wanted = min(n * self.candidates, free_count)
        if 2 * wanted > free_count or 2 * free_count < self.table.size:
            free = np.flatnonzero(~self.table["in_flight"])
            return self.rng.permutation(free)[:wanted]
        kept: dict[int, None] = {}
        while len(kept) < wanted:
            drawn = self.rng.integers(self.table.size, size=2 * (wanted - len(kept)))
            kept |= dict.fromkeys(drawn[~self.table["in_flight"][drawn]].tolist())
        return np.fromiter(kept, np.int64)[:wanted]

    def uniform_weights(self, choice: Choice) -> np.ndarray:
        """Only places of uniform sampling count, by one over the probability with which a place was one."""
        return np.where(choice.reasons == Reason.EXPLORATION, 1 / max(self._share, 1e-9), np.nan)

    def prediction_offsets(self, choice: Choice) -> np.ndarray:
        # with shares of sources a choice is a part of several: there is no estimate, and these are not read
        if len(choice.prompts) != len(self._offsets_P) or not np.isfinite(self._offsets_P).all():
            return np.zeros(len(choice.prompts))
        return self._offsets_P

    def observe(self, outcome: Outcome) -> AuxiliarySamples | None:
        realised = outcome.realised(self.table, is_rate=self.target is not None)
        expected = self.expected_N[outcome.prompts].astype(np.float64)
        self.quality.observe(outcome.prompts, expected, realised)
        if self.adaptive is not None:
            self.adaptive.observe(outcome)
        return self.predictor.observe(outcome)

    def release(self, prompts: np.ndarray) -> None:
        self.predictor.release(prompts)

    def metrics(self) -> dict[str, float]:
        return self.quality.metrics() | self.predictor.metrics()

    def state_dict(self) -> Any:
        own = super().state_dict()
        return own if self.adaptive is None else own | {"exploration": self.adaptive.state_dict()}

    def load_state_dict(self, state: Any) -> None:
        super().load_state_dict(state)
        if self.adaptive is not None:
            self.adaptive.load_state_dict(state["exploration"])


def _highest(score: np.ndarray, k: int) -> np.ndarray:
    """The positions of the k highest scores, descending; ties keep the random order of the candidates."""
    loss = -score
    rows = np.arange(len(loss))
    if 0 < k < len(loss):
        rows = np.flatnonzero(~(loss > np.partition(loss, k - 1)[k - 1]))
    return rows[np.argsort(loss[rows], kind="stable")[:k]]


def frontier(
    *,
    candidates: int = 8,
    thompson: bool = False,
    prior_rollouts: float | None = None,
    features: str = "text",
    known: str | None = None,
    exploration: float | None = None,
    exponent: float | None = 2.0,
) -> Predicted:
    """Draw B of 8 B candidates in proportion to the square of p(1-p), predicted from outcomes and texts.

    Source: curro's own.

    This is `Predicted` with the predictor "frontier". The highest p(1-p) alone would all come from families
    that the policy has half learnt; harder ones, where a group changes more, would wait for their end.

    Args:
        candidates, exploration, exponent: `Predicted`'s.
        thompson, prior_rollouts, features, known: `FeaturePosterior`'s.
    """
    predictor = {
        "name": "frontier", "thompson": thompson, "prior_rollouts": prior_rollouts, "features": features,
        "known": known,
    }  # fmt: skip
    return Predicted(predictor=predictor, candidates=candidates, exploration=exploration, exponent=exponent)


def posterior(
    *,
    candidates: int = 8,
    target: float | None = 0.5,
    thompson: bool = True,
    half_life: float | None = None,
    known: str | None = None,
    exploration: float | None = None,
) -> Predicted:
    """Choose the candidates whose success rate, drawn from a posterior, is nearest to 1/2.

    Source: "Model Predictive Prompt Selection" (arXiv 2507.04632).

    This is `Predicted` with the predictor "beta".

    Args:
        candidates, target, exploration: `Predicted`'s; target=none takes the highest p(1-p) instead.
        thompson, half_life: `FadedPosterior`'s.
        known: a column of pass rates known before training, of which a regression makes each prompt's prior.
    """
    predictor = {"name": "beta", "thompson": thompson, "half_life": half_life}
    if known is not None:
        predictor |= {"name": "frontier", "features": "", "known": known}
    return Predicted(predictor=predictor, candidates=candidates, target=target, exploration=exploration)


def pcl(*, candidates: int = 8, predicts: str = "success-rate", **options: Any) -> Predicted:
    """Choose the candidates whose success rate a value model predicts nearest to 1/2.

    Source: "Prompt Curriculum Learning for Efficient LLM Post-Training", as METIS, A.5, describes it.

    This is `Predicted` with the predictor "pcl". With `predicts="variance"`, METIS' extension to rewards that
    are not 0/1, the highest predictions are taken.

    Args:
        candidates: m, 8 in METIS' table 5.
        predicts: what the value model learns, `ValueModel`'s.
        options: `target` (0.5 with success rates, none with variances) and `exploration` of `Predicted`,
            the others of `ValueModel`.

    Raises:
        ConfigError: a `target` beside `predicts="variance"`.
    """
    rule: dict[str, Any] = {"target": 0.5} if predicts == "success-rate" else {}
    rule["exploration"] = 0.0  # the paper's
    rule |= {name: options.pop(name) for name in ("target", "exploration") if name in options}
    if predicts == "variance" and rule.get("target") is not None:
        raise ConfigError("pcl with predicts=variance takes the highest predictions: leave `target` out")
    return Predicted(
        predictor={"name": "pcl", "predicts": predicts, **options}, candidates=candidates, **rule
    )


def metis(*, candidates: int = 8, exploration: float | None = 0.0, **options: Any) -> Predicted:
    """Choose the candidates whose rewards the policy itself expects to vary most.

    Source: "Internalizing Curriculum Judgment for LLM Reinforcement Fine-Tuning" (METIS), equation 6.

    This is `Predicted` with the predictor "metis".

    Args:
        candidates: m, 8 in table 5.
        exploration: as in `Predicted`; the default is the paper's, and `none` adapts it.
        options: see `curro.methods.prediction.metis.Metis`.
    """
    return Predicted(predictor={"name": "metis", **options}, candidates=candidates, exploration=exploration)
