"""Allocation at the port: budgets, beliefs, tickets, resume."""

from __future__ import annotations

import numpy as np
import pytest

from curro import Allocation, ConfigError, Curriculum

SELECTIONS = ["uniform", "prioritized-replay", "prioritized-replay:variant=published", "pspo", "posterior",
              "frontier", "least-visited", "adcl"]  # fmt: skip


def ragged(draw, rng, rate_N):
    """Rewards (P, G) of a draw for prompts of these success rates, NaN beyond the end of smaller groups."""
    generated_PG = np.arange(draw.rollouts.max()) < draw.rollouts[:, None]
    right_PG = rng.random(generated_PG.shape) < rate_N[draw.prompts][:, None]
    return np.where(generated_PG, right_PG, np.nan)


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("allocation", ["equal", "knapsack:most=20"])
def test_every_selection_with_every_rule_goes_on_after_a_resume(tmp_path, selection, allocation):
    def build():
        return Curriculum(selection, 30, allocation=allocation, advantage="smoothed", admission="signal")

    def train(curriculum, steps, rng):
        drawn = []
        for step in steps:
            draw = curriculum.select(6, step=step, rollouts=48)
            assert draw.rollouts.sum() == 48
            assert curriculum.ledger.rollouts.tolist() == draw.rollouts.tolist()
            rewards = ragged(draw, rng, np.linspace(0, 1, 30))
            verdict = curriculum.observe(draw.tickets, rewards)
            assert not verdict.advantages[np.isnan(rewards)].any()
            drawn.append((draw.prompts.tolist(), draw.rollouts.tolist()))
        return drawn

    whole = train(build(), range(8), np.random.default_rng(1))
    rng, curriculum = np.random.default_rng(1), build()
    first = train(curriculum, range(4), rng)
    curriculum.save(tmp_path / "half.npz")
    resumed = build()
    resumed.load(tmp_path / "half.npz")
    assert first + train(resumed, range(4, 8), rng) == whole


@pytest.mark.parametrize("selection", ["uniform", "posterior:thompson=false"])
def test_hard_prompts_get_more_than_solved_ones(selection):
    """By the method's own posterior, or by one of the outcomes where it has none."""
    rate_N = np.repeat([0.02, 0.98], 10)
    curriculum, rng = Curriculum(selection, 20, allocation="knapsack"), np.random.default_rng(0)
    for step in range(5):
        draw = curriculum.select(20, step=step, rollouts=160)
        rewards = ragged(draw, rng, rate_N)
        curriculum.observe(draw.tickets, rewards)
    given_N = np.empty(20)
    given_N[draw.prompts] = draw.rollouts
    assert given_N[:10].mean() > 1.5 * given_N[10:].mean()


def test_without_an_allocation_a_budget_is_divided_equally_and_none_leaves_it_to_the_host():
    curriculum = Curriculum("uniform", 5)
    assert curriculum.select(2, step=0, rollouts=5).rollouts.tolist() == [3, 2]
    assert curriculum.select(2, step=0).rollouts.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("rollouts", "words"),
    [
        (None, "has an allocation and was asked for no rollouts: pass the budget"),
        (1.5, "rollouts is a whole number, not 1.5"),
        (5, "5 rollouts for 3 prompts: the allocation gives each 2 to 128, so the budget is 6 to 384"),
    ],
)
def test_a_budget_that_cannot_be_spent_changes_nothing(rollouts, words):
    curriculum = Curriculum("uniform", 5, allocation="knapsack")
    before = curriculum.rng.bit_generator.state
    with pytest.raises(ConfigError, match=words):
        curriculum.select(3, step=0, rollouts=rollouts)
    assert curriculum.free == 5
    assert curriculum.rng.bit_generator.state == before


@pytest.mark.parametrize("found", [[1, 2], [-1, 5], [2.0, 2.0], [4, 1, 0]])
def test_a_rule_of_ones_own_that_does_not_spend_the_budget(found):
    class Wrong(Allocation):
        def __call__(self, prompts, budget, step):
            return np.array(found)

    with pytest.raises(
        ConfigError,
        match=r"Wrong (allocated .*: 2 whole numbers from 0|returned .* whole numbers of shape \(2,\))",
    ):
        Curriculum("uniform", 5, allocation=Wrong()).select(2, step=0, rollouts=4)


def test_estimates_by_hand():
    """ADCL's estimates have 4 rollouts (table 5 of METIS), what is trained on has 8."""
    curriculum = Curriculum("adcl:chunks=2", 4, allocation="estimates")
    draw = curriculum.select(4, step=0)
    assert draw.rollouts.tolist() == [4] * 4
    rewards = np.arange(4) < draw.prompts[:, None]
    assert not curriculum.observe(draw.tickets, rewards).admitted.any()
    draw = curriculum.select(4, step=1)  # the easy chunk, then the estimates of the other one
    assert draw.prompts.tolist() in ([3, 2, 0, 1], [3, 2, 1, 0])
    assert draw.rollouts.tolist() == [8, 8, 4, 4]
    six = Curriculum("uniform", 4, allocation="estimates:train=6").select(2, step=0)
    assert six.rollouts.tolist() == [6, 6]


def test_estimates_take_no_budget():
    with pytest.raises(ConfigError, match="leave `rollouts` out"):
        Curriculum("uniform", 3, allocation="estimates").select(1, step=0, rollouts=8)
