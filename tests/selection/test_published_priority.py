"""Prioritized replay as published: the numbers of sections 2, 4.4 and 5, worked by hand."""

import numpy as np
import pytest

from curro import Curriculum, Reason

PLAIN = "prioritized-replay:variant=published,exploration=0,retest_every=0"
BONUS = 1e-4


def play(curriculum, step, n, successes, group=8):
    """Select n prompts and let prompt p succeed in successes[p] of its rollouts."""
    draw = curriculum.select(n, step=step)
    curriculum.observe(draw.tickets, np.arange(group) < np.array(successes)[draw.prompts][:, None])
    return draw


def priorities(curriculum):
    return curriculum.selection.priority(np.arange(curriculum.table.size))


def test_priority_of_a_first_group():
    curriculum = Curriculum(PLAIN, 5)
    play(curriculum, 0, 5, [3, 4, 6, 2, 5])
    # 3/8 * 5/8 = 15/64, 4/8 * 4/8 = 1/4, 6/8 * 2/8 = 12/64 = 2/8 * 6/8; the bonus where k >= 4
    expected = [15 / 64, 1 / 4 + BONUS, 12 / 64 + BONUS, 12 / 64, 15 / 64 + BONUS]
    np.testing.assert_array_equal(priorities(curriculum), expected)
    assert curriculum.select(5, step=1).prompts.tolist() == [1, 4, 0, 2, 3]


def test_without_bonus_mirrored_rates_tie():
    curriculum = Curriculum(PLAIN + ",bonus=0", 2)
    play(curriculum, 0, 2, [6, 2])
    assert priorities(curriculum).tolist() == [12 / 64, 12 / 64]


def test_moving_average_of_the_success_rate():
    curriculum = Curriculum(PLAIN, 1)
    play(curriculum, 0, 1, [2])
    play(curriculum, 1, 1, [6])
    # 0.8 * 0.75 + 0.2 * 0.25 = 0.65; 0.65 * 0.35 = 0.2275, and the bonus
    assert curriculum.table["smoothed_mean"][0] == pytest.approx(0.65, rel=1e-6)
    assert priorities(curriculum)[0] == pytest.approx(0.2275 + BONUS, rel=1e-6)
    play(curriculum, 2, 1, [1])
    # 0.8 * 0.125 + 0.2 * 0.65 = 0.23; 0.23 * 0.77 = 0.1771, no bonus below one half
    assert curriculum.table["smoothed_mean"][0] == pytest.approx(0.23, rel=1e-6)
    assert priorities(curriculum)[0] == pytest.approx(0.1771, rel=1e-6)


def test_smoothing_of_one_keeps_the_latest_group_only():
    curriculum = Curriculum(PLAIN + ",smoothing=1", 1)
    play(curriculum, 0, 1, [4])
    play(curriculum, 1, 1, [2])
    assert priorities(curriculum)[0] == 12 / 64


def test_variance_of_the_mixture_for_continuous_rewards():
    curriculum = Curriculum(PLAIN, 1, reward_range=(0, 10))
    for step, rewards in enumerate(([2, 4, 2, 4], [6, 6, 0, 0], [7, 9, 7, 9])):
        curriculum.observe(curriculum.select(1, step=step).tickets, [rewards])
        if step == 1:
            # means 3 and 3, variances 1 and 9: 0.8 * 9 + 0.2 * 1 = 7.4
            assert curriculum.table["smoothed_variance"][0] == pytest.approx(7.4, rel=1e-6)
            # in squares of the range 0..10
            assert priorities(curriculum)[0] == pytest.approx(0.074, rel=1e-6)
    # mean 8, variance 1: 0.8 * 1 + 0.2 * 7.4 + 0.8 * 0.2 * (8 - 3)^2 = 0.8 + 1.48 + 4 = 6.28
    assert curriculum.table["smoothed_variance"][0] == pytest.approx(6.28, rel=1e-6)
    # 0.8 * 8 + 0.2 * 3 = 7, in the upper half of 0..10: the bonus
    assert curriculum.table["smoothed_mean"][0] == pytest.approx(7, rel=1e-6)
    assert priorities(curriculum)[0] == pytest.approx(0.0628 + BONUS, rel=1e-6)


@pytest.mark.parametrize(("low", "high"), [(-1, 1), (0, 0.1), (-5, 100)])
@pytest.mark.parametrize("draw", ["top", "proportional"])
def test_the_scale_of_rewards_changes_nothing(low, high, draw):
    spec = f"prioritized-replay:variant=published,draw={draw}"
    binary = Curriculum(spec, 30, seed=5)
    scaled = Curriculum(spec, 30, seed=5, reward_range=(low, high))
    rng = np.random.default_rng(0)
    for step in range(60):
        drawn, same = binary.select(4, step=step), scaled.select(4, step=step)
        np.testing.assert_array_equal(same.prompts, drawn.prompts)
        rewards = (rng.random((4, 8)) < drawn.prompts[:, None] / 29).astype(float)
        binary.observe(drawn.tickets, rewards)
        scaled.observe(same.tickets, np.where(rewards == 1, high, low))
    ours, theirs = binary.metrics(), scaled.metrics()
    assert theirs["replay/mean_priority"] == pytest.approx(ours["replay/mean_priority"], rel=1e-5)


def test_initial_priority_of_section_2():
    curriculum = Curriculum(PLAIN, 7)
    draw = curriculum.select(5, step=0)
    first = draw.prompts
    curriculum.observe(draw.tickets, np.arange(8) < np.array([4, 3, 5, 6, 2])[:, None])
    # "allows problems with 3, 4, or 5 correct responses to take precedence" over unseen ones at 0.2
    draw = curriculum.select(7, step=1)
    seen = [first[0], first[2], first[1]]
    assert draw.prompts[:3].tolist() == seen
    assert set(draw.prompts[3:5]) == set(range(7)) - set(first)
    assert draw.prompts[5:].tolist() == [first[3], first[4]]
    unseen, known = Reason.UNSEEN, Reason.PRIORITY
    assert draw.reasons.tolist() == [known] * 3 + [unseen] * 2 + [known] * 2
    assert np.isnan(draw.probabilities).all()


def test_infinite_initial_priority_brings_every_prompt_once():
    curriculum = Curriculum(PLAIN + ",initial_priority=inf", 40)
    seen = [play(curriculum, step, 4, [4] * 40).prompts for step in range(10)]
    assert sorted(np.concatenate(seen)) == list(range(40))
    assert curriculum.metrics()["replay/mean_priority"] == pytest.approx(0.25 + BONUS)


def test_low_initial_priority_brings_unseen_prompts_last():
    curriculum = Curriculum(PLAIN + ",initial_priority=-5", 8)
    first = set(play(curriculum, 0, 4, [4] * 8).prompts)
    assert set(play(curriculum, 1, 4, [4] * 8).prompts) == first
    assert set(curriculum.select(8, step=2).prompts[:4]) == first


def test_the_highest_priorities_are_chosen():
    curriculum = Curriculum(PLAIN, 50, seed=7)
    rng = np.random.default_rng(0)
    for step in range(200):
        before = priorities(curriculum)
        draw = curriculum.select(6, step=step)
        rest = np.setdiff1d(np.arange(50), draw.prompts)
        assert (np.diff(before[draw.prompts]) <= 0).all()
        assert before[draw.prompts].min() >= before[rest].max()
        curriculum.observe(draw.tickets, np.arange(8) < rng.integers(1, 8, 6)[:, None])


def test_ties_are_broken_at_random():
    firsts = [Curriculum(PLAIN, 4, seed=seed).select(1, step=0).prompts[0] for seed in range(800)]
    counts = np.bincount(firsts, minlength=4)
    # 3 degrees of freedom: above 21.1 in one of 10,000 cases
    assert ((counts - 200) ** 2 / 200).sum() < 21.1


def test_a_dropped_prompt_comes_back_with_its_priority():
    curriculum = Curriculum(PLAIN, 3)
    play(curriculum, 0, 3, [4, 3, 2])
    curriculum.drop(curriculum.select(3, step=1).tickets)
    assert curriculum.select(3, step=1).prompts.tolist() == [0, 1, 2]


def test_the_heap_is_fed_the_bonus_at_exactly_one_half():
    curriculum = Curriculum(PLAIN + ",bonus=0.05", 2)
    play(curriculum, 0, 2, [4, 5])
    # 4/8 * 4/8 + 0.05 = 0.3 comes before 5/8 * 3/8 + 0.05 = 0.284...; without its bonus it would be 0.25
    fed = curriculum.selection.heap.priorities(np.arange(2))
    np.testing.assert_allclose(fed, [0.3, 15 / 64 + 0.05], rtol=1e-12)
    np.testing.assert_array_equal(priorities(curriculum), fed)
    assert curriculum.select(1, step=1).prompts.tolist() == [0]


def test_groups_of_other_sizes_count_by_their_rollouts():
    """smoothing = 1/2: a group of 2 after one of 8 has the weight 2/10, one of 8 after one of 2 8/10."""
    for first, then, expected in (([0] * 8, [1] * 2, 0.2), ([0] * 2, [1] * 8, 0.8)):
        curriculum = Curriculum(PLAIN + ",smoothing=0.5,bonus=0", 1)
        for step, rewards in enumerate((first, then)):
            curriculum.observe(curriculum.select(1, step=step).tickets, [rewards])
        # ten rollouts put together: p(1-p) of them
        assert curriculum.table["smoothed_mean"][0] == pytest.approx(expected)
        assert priorities(curriculum)[0] == pytest.approx(expected * (1 - expected))
