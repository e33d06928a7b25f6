"""PSPO's prioritized prompt sampling: draws in proportion to the size of a prompt's last advantages."""

from __future__ import annotations

from typing import Any

import numpy as np

from curro.core.bases import Choice, Outcome, Reason, Selection, sequential_weights
from curro.core.checkpoint import check_state
from curro.core.errors import ConfigError, require
from curro.core.prompts import PromptTable
from curro.methods.index import Proportional

PRIORITIES = ("last", "mean", "max", "informativeness")
_STANDARD = 1e-4
"""Added to the standard deviation of (1)."""


class PrioritizedSampling(Selection):
    """Prompts at random, more often the larger the advantages of their latest groups were (PPS).

    Source: "PSPO: Prompt-Level Prioritization and Experience-Weighted Smoothing", equations 7 to 11.

    A prompt's priority p comes from the advantages A of its latest group:

        mean |A_i| + epsilon (7);  max |A_i| + epsilon (8);  |A_G| + epsilon (9), G the last scored rollout
        P(q) = p_q^exponent / sum over all prompts                                               (10)
        w_q = (1 / (N P(q)))^beta, over the largest such weight                                  (11)

    The paper has epsilon in (9) alone; without it a prompt whose rewards were once equal never comes again.
    A prompt that was never observed has priority 1, the root mean square of a standardised advantage, or
    0.25 under "informativeness", the most that 0/1 rewards can have. All priorities are positive, so N is
    the number of prompts. New priorities count from the very next draw.

    Args:
        priority: "last", "mean", "max", or "informativeness": the group's reward variance in squared
            reward ranges, for comparison with prioritized replay.
        statistics: "raw": A = (r - mean) / (std + 1e-4), equation 1, whatever the group is credited with;
            "smoothed": the advantages of `advantage="smoothed"`.
        exponent: lambda in (10), from 0; 0 is uniform. The paper gives no value for it and beta: its code
            has 0.6 and 0.4.
        beta: (11)'s, in [0, 1].
        epsilon: above 0.
        normalize: where the largest weight of (11) is looked for: in the "batch", by `Curriculum.credit`, or
            among "all" prompts, by which weights are divided as they are drawn.

    Raises:
        ConfigError: an option that is none of these; "smoothed" without the advantage.
    """

    needs_second_visits = True

    def __init__(
        self,
        *,
        priority: str = "last",
        statistics: str = "raw",
        exponent: float = 0.6,
        beta: float = 0.4,
        epsilon: float = 1e-6,
        normalize: str = "batch",
    ) -> None:
        require(priority in PRIORITIES, "priority", f"one of {', '.join(PRIORITIES)}", priority)
        require(statistics in ("raw", "smoothed"), "statistics", "raw or smoothed", statistics)
        require(normalize in ("batch", "all"), "normalize", "batch or all", normalize)
        require(0 <= exponent <= 10, "exponent", "in [0, 10]", exponent)
        require(0 <= beta <= 1, "beta", "in [0, 1]", beta)
        require(1e-12 <= epsilon <= 1, "epsilon", "in [1e-12, 1]", epsilon)
        self.priority, self.statistics, self.normalize = priority, statistics, normalize
        self.exponent, self.beta, self.epsilon = exponent, beta, epsilon
        self.has_weights = exponent > 0 and beta > 0

    def bind(self, table: PromptTable, rng: np.random.Generator) -> None:
        super().bind(table, rng)
        if self.statistics == "smoothed" and "ers_mean" not in table.columns:
            raise ConfigError('statistics="smoothed" needs the curriculum\'s advantage to be "smoothed"')
        new = 0.25 if self.priority == "informativeness" else 1.0
        self.priority_N = table.add("pps_priority", np.float64, new)
        self.tree = Proportional(self.priority_N**self.exponent)

    def select(self, n: int, step: int) -> Choice:
        first, again = self.rng.random((n, 2)).T
        table = self.table
        prompts, chance = self.tree.sample_free(first, again, table["in_flight"], table.prompts_in_flight)
        least = 1 / table.size
        if self.normalize == "all":
            least = self.priority_N.min() ** self.exponent / self.tree.total
        weights = (least / chance) ** self.beta
        return Choice(prompts, Reason.by_visits(table["visits"][prompts]), chance, weights)

    def uniform_weights(self, choice: Choice) -> np.ndarray:
        chance_P = choice.probabilities
        in_flight = self.table.prompts_in_flight
        left_P = 1 - self.tree.weights(in_flight).sum() / self.tree.total - (np.cumsum(chance_P) - chance_P)
        # the prompt itself was left, whatever rounding says
        return sequential_weights(chance_P / np.maximum(left_P, chance_P), self.table.size - len(in_flight))

    def batch_weights(self, weights_P: np.ndarray) -> np.ndarray:
        return weights_P / weights_P.max(initial=0.0) if self.normalize == "batch" else weights_P

    def observe(self, outcome: Outcome) -> None:
        priority_P = self._priorities(outcome)
        self.priority_N[outcome.prompts] = priority_P
        self.tree.update(outcome.prompts, priority_P**self.exponent)

    def _priorities(self, outcome: Outcome) -> np.ndarray:
        if self.priority == "informativeness":
            return self.table.informativeness(outcome.variance) + self.epsilon
        if self.statistics == "smoothed":
            size_PG, scale_P = np.abs(outcome.advantages), 1.0
        else:
            size_PG = np.abs(outcome.centred())
            scale_P = np.sqrt(outcome.variance) + _STANDARD
        if self.priority == "last":
            last_P = outcome.scored.shape[1] - 1 - outcome.scored[:, ::-1].argmax(axis=1)
            size_P = size_PG[np.arange(len(size_PG)), last_P]
        elif self.priority == "max":
            size_P = size_PG.max(axis=1)
        else:
            # added from the last rollout to the first, so that zeros at the ends of rows change no digit
            size_P = size_PG[:, ::-1].cumsum(axis=1)[:, -1] / outcome.count
        return size_P / scale_P + self.epsilon

    def metrics(self) -> dict[str, float]:
        weights_N = self.priority_N**self.exponent
        return {
            "pspo/priority_mean": float(self.priority_N.mean()),
            "pspo/effective_prompts": float(weights_N.sum() ** 2 / np.square(weights_N).sum()),
        }

    def load_state_dict(self, state: Any) -> None:
        is_positive = (self.priority_N > 0).all() and np.isfinite(self.priority_N**self.exponent).all()
        check_state(is_positive, "table/pps_priority")
        self.tree = Proportional(self.priority_N**self.exponent)
