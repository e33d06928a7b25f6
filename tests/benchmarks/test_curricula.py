"""What the oracle believes of a prompt when rollouts are allocated."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.bench import curricula
from benchmarks.bench.curricula import Oracle

from curro import Curriculum


@pytest.fixture(autouse=True)
def _rollouts_without_a_model(monkeypatch):
    monkeypatch.setattr(
        curricula, "uncounted_rewards", lambda policy, *arguments: policy.uncounted_rewards(*arguments)
    )


RATES = np.array([0.0, 0.25, 0.5, 1.0])


class Tried:
    """A policy whose uncounted rollouts of prompt p succeed in a share RATES[p] of the cases."""

    def uncounted_rewards(self, prompts: list[int], samples: int, seed: int) -> np.ndarray:
        return np.arange(samples) < samples * RATES[prompts][:, None]


def test_beliefs_are_the_uncounted_rollouts_and_half_a_rollout_on_each_side():
    # of 8 rollouts prompt 1 has 2 successes and prompt 3 has 8
    oracle = Oracle(samples=8)
    curriculum = Curriculum("uniform", 4)
    oracle.bind(curriculum.table, np.random.default_rng(0))
    oracle.attach(Tried())  # type: ignore[arg-type]
    assert oracle.informativeness(np.array([3, 1, 0]), 0) == pytest.approx([0, 3 / 16, 0])
    successes, failures = oracle.belief(np.array([1, 3]), 0)
    assert successes.tolist() == [2.5, 8.5]
    assert failures.tolist() == [6.5, 0.5]


def test_rollouts_without_a_reward_count_neither_as_failures_nor_as_successes():
    class Unscored:
        def uncounted_rewards(self, prompts: list[int], samples: int, seed: int) -> np.ndarray:
            return np.array([[1.0, 0.0, np.nan, np.nan], [np.nan] * 4])

    oracle = Oracle(samples=4)
    oracle.bind(Curriculum("uniform", 2).table, np.random.default_rng(0))
    oracle.attach(Unscored())  # type: ignore[arg-type]
    assert oracle.informativeness(np.array([0, 1]), 0).tolist() == [0.25, 0]
    successes, failures = oracle.belief(np.array([0, 1]), 0)
    assert successes.tolist() == failures.tolist() == [1.5, 0.5]


def test_knapsack_spends_the_budget_by_the_oracle():
    # two prompts of four are chosen: .5 (variance 1/4) and .25 (3/16), of which the rarer success gets more
    curriculum = Curriculum(
        "benchmarks.bench.curricula:oracle", 4, allocation="knapsack", advantage="leave-one-out"
    )
    curriculum.attach(Tried())  # type: ignore[arg-type]
    draw = curriculum.select(2, step=0, rollouts=16)
    of = dict(zip(draw.prompts.tolist(), draw.rollouts.tolist(), strict=True))
    assert set(of) == {1, 2}
    assert sum(of.values()) == 16
