"""Self-evolving curriculum: a bandit over categories of prompts, paid in absolute advantage."""

from __future__ import annotations

import warnings
from math import isfinite
from numbers import Real
from typing import Any

import numpy as np

from curro.core.bases import Choice, Outcome, Reason, Selection, sequential_weights
from curro.core.checkpoint import check_state
from curro.core.errors import ConfigError, require
from curro.core.groups import UnlearnedGroups
from curro.core.prompts import PromptTable

_MOST = 1000


class SelfEvolvingCurriculum(Selection):
    """A bandit chooses the category whose prompts had the largest advantages, then a random prompt of it.

    Source: "Self-Evolving Curriculum for LLM Reasoning" (arXiv 2505.14970), as METIS, A.5, runs it.

    For each place a category c is drawn from softmax(Q / temperature), then a free prompt of it uniformly.
    After each training step every category that has outcomes moves towards their mean absolute advantage:

        Q_c <- (1 - rate) Q_c + rate mean over its groups of mean_i |A_i|,    Q_c = 0 at first

    A_i = (r_i - mean r) / (high - low), in reward ranges: "METIS" divides by no standard deviation. The
    papers' mean is over tokens; this one is over rollouts, whatever their length. Outcomes count from the
    next step on.

    Args:
        column: a column of the data set, a category a value; or `categories` parts of about equal size if it
            has more values than that and all are numbers (pass rates). None: the prompts' sources, if there
            are several; else the data set is cut in its own order, with a warning where it has rows.
        categories: as in table 5, in 1..1000.
        temperature: as in table 5, above 0; in units of A.
        rate: table 5's moving average, in (0, 1].

    Raises:
        ConfigError: an option that is none of these; no such column, or one of over 1,000 categories.
    """

    prefix = "sec"
    remembered: tuple[str, ...] = ("value_C", "unlearned", "step", "names")

    def __init__(
        self,
        *,
        column: str | None = None,
        categories: int = 10,
        temperature: float = 0.4,
        rate: float = 0.5,
    ) -> None:
        require(1 <= categories <= _MOST, "categories", f"in 1..{_MOST}", categories)
        require(temperature > 0, "temperature", "above 0", temperature)
        require(0 < rate <= 1, "rate", "in (0, 1]", rate)
        self.column, self.categories = column, categories
        self.temperature, self.rate = temperature, rate

    def bind(self, table: PromptTable, rng: np.random.Generator) -> None:
        super().bind(table, rng)
        self.names, category_N = self._categorize(table)
        self.category_N = table.add("sec_category", np.int16, 0)
        self.category_N[:] = category_N
        self.value_C = np.zeros(len(self.names))
        self.unlearned = UnlearnedGroups(3, table.size)  # prompt, category and mean |A| of each group
        self.step = -1

    def _categorize(self, table: PromptTable) -> tuple[list[str], np.ndarray]:
        if self.column is None:
            names, category_N = table.sources()
            if len(names) == 1:
                return self._cut(table)
        else:
            values = table.values(self.column)
            numbers = all(isinstance(value, Real) and isfinite(value) for value in values)
            value_N = np.array(values if numbers else [str(value) for value in values])
            known, category_N = np.unique(value_N, return_inverse=True)
            if len(known) > self.categories and numbers:
                # inverted_cdf takes the edges from the values themselves: no rounding cuts equal values apart
                shares = np.arange(1, self.categories) / self.categories
                edges = np.unique(np.quantile(value_N, shares, method="inverted_cdf"))
                parts, category_N = np.unique(np.searchsorted(edges, value_N), return_inverse=True)
                return [f"part {c}" for c in range(len(parts))], category_N
            names = [str(value) for value in known]
        if len(names) > _MOST:
            raise ConfigError(
                f"the column {self.column or table.source_column!r} has {len(names)} values: a category "
                "needs more prompts than that"
            )
        return names, category_N

    def _cut(self, table: PromptTable) -> tuple[list[str], np.ndarray]:
        """Parts of equal size in the order of the rows, with a warning if there are rows."""
        count = min(self.categories, table.size)
        if table.rows is not None:
            warnings.warn(
                f"{self.prefix} has no column and the data set has no two sources: it is cut into {count} "
                "parts by the order of its rows, which helps only if they are sorted; name a column of "
                f"categories ({self.prefix}:column=...)",
                UserWarning,
                stacklevel=2,
            )
        return [f"part {c}" for c in range(count)], np.arange(table.size) * count // table.size

    def select(self, n: int, step: int) -> Choice:
        if step > self.step:
            self._learn()
            self.step = step
        free = np.flatnonzero(~self.table["in_flight"])
        free_C = [free[self.category_N[free] == c] for c in range(len(self.names))]
        weight_C = self._weights().tolist()
        total = self._total(weight_C, free_C)
        chosen, probability_P = np.empty(n, np.int64), np.empty(n)
        for a, (uniform, place) in enumerate(self.rng.random((n, 2)).tolist()):
            below, category = 0.0, -1
            for c, prompts in enumerate(free_C):
                if len(prompts):
                    category = c
                    below += weight_C[c]
                    if uniform * total < below:
                        break
            count = len(free_C[category])
            probability_P[a] = weight_C[category] / total / count
            chosen[a] = free_C[category][int(place * count)]
            free_C[category] = np.delete(free_C[category], int(place * count))
            total = total if count > 1 else self._total(weight_C, free_C)
        return Choice.of(chosen, Reason.PRIORITY, probability_P)

    @staticmethod
    def _total(weight_C: list[float], free_C: list[np.ndarray]) -> float:
        """The weights of the categories with free prompts."""
        return sum(weight for weight, prompts in zip(weight_C, free_C, strict=True) if len(prompts))

    def uniform_weights(self, choice: Choice) -> np.ndarray:
        return sequential_weights(choice.probabilities, self.table.size - len(self.table.prompts_in_flight))

    def _weights(self) -> np.ndarray:
        # not below 1e-300: where all other prompts are in flight, the last category is drawn from
        return np.maximum(np.exp((self.value_C - self.value_C.max()) / self.temperature), 1e-300)

    def observe(self, outcome: Outcome) -> None:
        size_P = np.abs(outcome.centred()).sum(axis=1) / outcome.count
        low, high = self.table.reward_range
        self.unlearned.add(outcome.prompts, self.category_N[outcome.prompts], size_P / (high - low))

    def _learn(self) -> None:
        mean_C = self._means()
        seen = ~np.isnan(mean_C)
        self.value_C[seen] += self.rate * (mean_C[seen] - self.value_C[seen])

    def _means(self) -> np.ndarray:
        """Take the unlearned groups, and give the mean of their third row by category, NaN of none."""
        _, category, value = self.unlearned.take()
        count_C, sum_C = (np.bincount(category.astype(np.int64), w, len(self.names)) for w in (None, value))
        return np.divide(sum_C, count_C, out=np.full(len(count_C), np.nan), where=count_C > 0)

    def metrics(self) -> dict[str, float]:
        weight_C = self._weights()
        chance_C = weight_C / weight_C.sum()
        named = zip(self.names, self.value_C, chance_C, strict=True)
        return {
            f"{self.prefix}/{quantity} {name}": float(number)
            for name, value, chance in named
            for quantity, number in (("value", value), ("chance", chance))
        }

    def load_state_dict(self, state: Any) -> None:
        super().load_state_dict(state)
        known = len(self.names)
        check_state(self.value_C.shape == (known,) and np.isfinite(self.value_C).all(), "sec/value")
        categories = np.concatenate([self.category_N, self.unlearned.groups[1]])
        check_state(categories.min() >= 0 and categories.max() < known, "sec/names")
