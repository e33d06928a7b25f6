"""Prioritized replay as published: exploration by batch and by prompt, and draws in proportion."""

import numpy as np
import pytest

from curro import ConfigError, Curriculum, Reason

PUBLISHED = "prioritized-replay:variant=published,retest_every=0"


def graded(options, successes, seed=0):
    """A curriculum whose prompt p succeeded in successes[p] of 8."""
    curriculum = Curriculum(f"{PUBLISHED},bonus=0,{options}", len(successes), seed=seed)
    draw = curriculum.select(len(successes), step=0)
    curriculum.observe(draw.tickets, np.arange(8) < np.array(successes)[draw.prompts][:, None])
    return curriculum


def draws(curriculum, n, steps):
    """Select and drop, so that nothing changes: prompts, reasons and probabilities, (steps, n) each."""
    found = []
    for step in range(1, steps + 1):
        draw = curriculum.select(n, step=step)
        curriculum.drop(draw.tickets)
        found.append((draw.prompts, draw.reasons, draw.probabilities))
    return (np.array(column) for column in zip(*found, strict=True))


def chi_square(counts, expected):
    return (np.square(counts - expected) / expected).sum()


def test_an_eighth_of_the_batches_explores():
    _, reasons, _ = draws(graded("", [4] * 20), n=4, steps=1600)
    explored = reasons == Reason.EXPLORATION
    assert (explored.all(axis=1) == explored.any(axis=1)).all(), "a batch explores as a whole"
    # 1600 * 0.125 = 200, deviation sqrt(1600 * 0.125 * 0.875) = 13.2; 4 deviations: 6 in 100,000 cases
    assert abs(explored.any(axis=1).sum() - 200) < 53


def test_an_eighth_of_the_prompts_explores():
    _, reasons, _ = draws(graded("explore_by=prompt", [4] * 20), n=4, steps=400)
    explored = reasons == Reason.EXPLORATION
    assert abs(explored.sum() - 200) < 53, "as above, of 1600 prompts"
    assert (explored.any(axis=1) & ~explored.all(axis=1)).any()


@pytest.mark.parametrize("explore_by", ["batch", "prompt"])
@pytest.mark.parametrize("draw", ["top", "proportional"])
def test_exploration_is_uniform_over_the_heap(explore_by, draw):
    successes = [1, 2, 3, 4, 5, 6, 7, 4] * 2 + [0, 8, 0, 8]
    curriculum = graded(f"exploration=1,explore_by={explore_by},draw={draw}", successes)
    prompts, reasons, probabilities = draws(curriculum, n=2, steps=800)
    assert (reasons == Reason.EXPLORATION).all()
    counts = np.bincount(prompts.ravel(), minlength=20)
    assert counts[16:].tolist() == [0] * 4, "the pools are not the heap"
    # 1600 draws of 16 prompts; 15 degrees of freedom: above 44.3 in one of 10,000 cases
    assert chi_square(counts[:16], 100) < 44.3
    np.testing.assert_array_equal(probabilities, np.tile([1 / 16, 1 / 15], (800, 1)))


def test_no_exploration():
    _, reasons, _ = draws(graded("exploration=0", [4] * 20), n=4, steps=200)
    assert (reasons == Reason.PRIORITY).all()


def test_draws_in_proportion_to_priority():
    # p(1-p) in 64ths: 16, 12, 7, 15; together 50
    curriculum = graded("draw=proportional,exploration=0", [4, 2, 7, 3])
    prompts, reasons, probabilities = draws(curriculum, n=2, steps=2000)
    assert (reasons == Reason.PRIORITY).all()
    share = np.array([16, 12, 7, 15]) / 50
    # 3 degrees of freedom: above 21.1 in one of 10,000 cases
    assert chi_square(np.bincount(prompts[:, 0], minlength=4), 2000 * share) < 21.1
    first, second = prompts.T
    np.testing.assert_allclose(probabilities[:, 0], share[first], rtol=1e-6)
    # the second of what the first left: w / (50 - w_first)
    np.testing.assert_allclose(probabilities[:, 1], share[second] / (1 - share[first]), rtol=1e-6)
    pairs = np.bincount(first * 4 + second, minlength=16)
    expected = 2000 * (share[:, None] * share / (1 - share[:, None]))
    off = ~np.eye(4, dtype=bool).ravel()
    assert not pairs[~off].any()
    # 11 degrees of freedom: above 37.4 in one of 10,000 cases
    assert chi_square(pairs[off], expected.ravel()[off]) < 37.4


def test_prompts_of_priority_zero_come_last_and_alike():
    curriculum = Curriculum(f"{PUBLISHED},draw=proportional,initial_priority=0,exploration=0", 6)
    prompts, _, probabilities = draws(curriculum, n=6, steps=300)
    np.testing.assert_allclose(probabilities, np.tile(1 / np.arange(6, 0, -1), (300, 1)))
    # 300 draws of 6 prompts, 5 degrees of freedom: above 25.7 in one of 10,000 cases
    assert chi_square(np.bincount(prompts[:, 0], minlength=6), 50) < 25.7
    curriculum.observe(curriculum.select(1, step=300).tickets, [[0, 1]])
    seen = np.flatnonzero(curriculum.table["visits"])[0]
    assert curriculum.select(6, step=301).prompts[0] == seen


def test_proportional_draws_use_the_pools_too():
    curriculum = graded("draw=proportional,exploration=0", [0, 0, 4, 8])
    draw = curriculum.select(4, step=1)
    assert draw.reasons.tolist() == [Reason.PRIORITY] + [Reason.RETEST_UNSOLVED] * 2 + [Reason.RETEST_SOLVED]


@pytest.mark.parametrize(("exponent", "chance"), [(1.0, 16 / 28), (2.0, 256 / 400), (0.0, 1 / 2)])
def test_the_exponent_tunes_the_trade_off_of_the_sum_tree(exponent, chance):
    """4 and 2 successes in 8: omega is 16/64 and 12/64, and 256 and 144 their squares."""
    curriculum = Curriculum(
        "prioritized-replay:variant=published,draw=proportional,exploration=0,bonus=0,"
        f"exponent={exponent},initial_priority=0.2",
        2,
        seed=0,
    )
    draw = curriculum.select(2, step=0)
    successes = np.where(draw.prompts == 0, 4, 2)
    curriculum.observe(draw.tickets, np.arange(8) < successes[:, None])
    again = curriculum.select(1, step=1)
    expected = chance if again.prompts[0] == 0 else 1 - chance
    assert again.probabilities[0] == pytest.approx(expected)


def test_an_exponent_is_of_the_sum_tree():
    with pytest.raises(ConfigError, match="draw is 'top'"):
        Curriculum("prioritized-replay:variant=published,exponent=2", 2)
