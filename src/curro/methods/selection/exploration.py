"""Exploration: how many places of a batch go to prompts drawn uniformly, and the bound that this buys."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from curro.core.checkpoint import Stateful, check_state
from curro.core.groups import Groups, UnlearnedGroups
from curro.core.prompts import PromptTable

FLOOR, METHOD_FLOOR = 1 / 8, 1 / 16
"""Least shares of places that uniform sampling and the method keep. With 1/16 for uniform sampling `frontier`
gave up a learnable family in 5 of 12 simulated runs on a mixture of twenty; with 1/8, in 1 of 10."""
START = 1 / 4
"""The weight of uniform sampling before the first group, of a total of 1."""
RATE, LARGEST = 1 / 4, 1 / 16
"""Learning rate of the weights, for a whole batch, and at most for one place."""
_LOWEST = -4.0


class AdaptiveExploration(Stateful):
    """The share of a batch that goes to uniform sampling: a method that finds less loses its places to it.

    Source: EXP3 of Auer, Cesa-Bianchi, Freund and Schapire, "The nonstochastic multiarmed bandit problem"
    (SIAM Journal on Computing 2002), with two arms, a floor for both and batches.

    Uniform sampling has the weight q, the method 1 - q. In a batch of B places each place is uniform
    sampling's with the probability p = e + (1 - e - d) q, where e = 1/8 and d = 1/16. The gain x in [0, 1] of
    a group is four times its reward variance in squared reward ranges. When it is observed, the logarithm of
    q / (1 - q) grows by h x / p for a place of uniform sampling, and falls by h x / (1 - p) for one of the
    method, with h = min(1/16, 1 / (4 B)). It does not fall below -4, so that a method that gets worse is
    noticed soon.

    **Bound.** Let U be the gain that uniform sampling would have had in all places of a run, with the policy
    of each step, and M the method's gain. Batches are observed before the next one is drawn. Then the
    expected gain of the run is at least

        (1 - e - d) / (1 + b) (U - ln(4) / h) + (e - 0.72 h) U,    b = 0.25:

    0.73 U, less 29 groups for B = 8.

    Proof. Write g_j for the gain of expert j in a batch and G_j for the sum of its observed gains, each over
    its probability p_j, so that E[G_j] = g_j. With h x / p_j <= 1 and exp(y) <= 1 + y + (e' - 2) y^2 for
    y <= 1 (e' = 2.718) places are independent, and
    E[exp(h G_j)] <= exp(a_j) with a_j = h g_j (1 + (e' - 2) h / p_j) <= 1.72 h B <= 0.43.
    So the potential -ln q changes in expectation by at most -h g_u + sum_j q_j (exp(a_j) - 1), where
    exp(a) - 1 <= (1 + b) a for a <= 0.43. The floor of the logarithm only lowers the potential, which is
    ln(4) at first and never negative. Summed over batches:
    (1 + b) sum_j q_j g_j >= U - ln(4) / h - (1 + b) (e' - 2) h sum_j (q_j / p_j) g_j. As
    q_j / p_j <= 1 / (1 - e - d), the gain e U + d M + (1 - e - d) sum_j q_j g_j is at least the bound plus
    (d - (e' - 2) h) M, which is not negative.

    **Late outcomes.** The proof takes q at the draw and q at its update for the same. With asynchronous
    trainers up to D further batches are drawn between the two. The gains stay unbiased, as each is divided
    by the probability of its own draw, and the floors hold: the expected gain is at least e U + d M,
    whatever D. How much more it is, is not proved: exponential weights with late outcomes lose in addition
    in proportion to h D ("Delay and cooperation in nonstochastic bandits", Cesa-Bianchi et al., JMLR 2019).

    Attributes:
        log_odds: ln(q / (1 - q)).
    """

    remembered = ("log_odds", "unlearned")

    def __init__(self) -> None:
        self.log_odds = math.log(START / (1 - START))

    def bind(self, table: PromptTable) -> None:
        self.table = table
        # what a gain of 1 adds to the log odds: h / p, or -h / (1 - p)
        self.step_N = table.add("exploration_step", np.float32, 0)
        # rows of each group: the prompt, and what it adds to the log odds
        self.unlearned = UnlearnedGroups(2, table.size)

    @property
    def share(self) -> float:
        """p, the probability with which a place is uniform sampling's."""
        return FLOOR + (1 - FLOOR - METHOD_FLOOR) / (1 + math.exp(-self.log_odds))

    def learn(self) -> None:
        """Take in what was observed since the last call; before every draw."""
        if self.unlearned:
            self.log_odds = max(self.log_odds + float(self.unlearned.take()[1].sum()), _LOWEST)

    def draw(self, prompts: np.ndarray, uniform: int) -> None:
        """Note a batch, of which the first `uniform` prompts were drawn uniformly."""
        rate, share = min(LARGEST, RATE / len(prompts)), self.share
        self.step_N[prompts[:uniform]] = rate / share
        self.step_N[prompts[uniform:]] = -rate / (1 - share)

    def observe(self, groups: Groups) -> None:
        """Keep finished groups for `learn`."""
        gain_P = np.minimum(4 * self.table.informativeness(groups.variance), 1)
        self.unlearned.add(groups.prompts, self.step_N[groups.prompts] * gain_P)

    def load_state_dict(self, state: Any) -> None:
        super().load_state_dict(state)
        check_state(_LOWEST <= self.log_odds < math.inf, "exploration/log_odds")
