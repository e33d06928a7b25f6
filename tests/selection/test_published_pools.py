"""Prioritized replay as published: solved and unsolved pools, retests, and a heap that is empty."""

import numpy as np
import pytest

from curro import Curriculum, Reason

PUBLISHED = "prioritized-replay:variant=published,exploration=0"


def play(curriculum, step, n, successes, group=8):
    """Select n prompts and let prompt p succeed in successes[p] of its rollouts."""
    draw = curriculum.select(n, step=step)
    curriculum.observe(draw.tickets, np.arange(group) < np.array(successes)[draw.prompts][:, None])
    return draw


def pools(curriculum):
    metrics = curriculum.metrics()
    return tuple(int(metrics[f"replay/{name}"]) for name in ("heap_size", "solved_pool", "unsolved_pool"))


def moves(curriculum):
    names = ("to_solved", "from_solved", "to_unsolved", "from_unsolved")
    metrics = curriculum.metrics()
    return [int(metrics[f"replay/moved_{name}"]) for name in names] + [int(metrics["replay/flips"])]


@pytest.mark.parametrize(
    ("tolerance", "sizes"),
    [
        # of 0..8 successes in 8: only 8/8 is solved and 0/8 unsolved
        (0, (7, 1, 1)),
        # 0.1 lies below 1/8 = 0.125
        (0.1, (7, 1, 1)),
        # the ends of the bands belong to them: 1/8 and 7/8
        (0.125, (5, 2, 2)),
        # 2/8 = 0.25 <= 0.3 and 6/8 = 0.75 >= 0.7
        (0.3, (3, 3, 3)),
        # 3/8 = 0.375 <= 0.49 and 5/8 >= 0.51; 4/8 stays
        (0.49, (1, 4, 4)),
    ],
)
def test_tolerance_bands(tolerance, sizes):
    curriculum = Curriculum(f"{PUBLISHED},tolerance={tolerance}", 9)
    play(curriculum, 0, 9, range(9))
    assert pools(curriculum) == sizes


def test_rewards_without_variance_go_by_the_half_of_the_range():
    curriculum = Curriculum(PUBLISHED, 3, reward_range=(-1, 1))
    draw = curriculum.select(3, step=0)
    curriculum.observe(draw.tickets, [[-0.3] * 4, [0.3] * 4, [0.3, 0.3, 0.3, 0.30001]])
    assert curriculum.table["pool"][draw.prompts].tolist() == [2, 1, 0]


def test_the_group_decides_on_the_pool_and_not_the_average():
    curriculum = Curriculum(PUBLISHED, 1)
    play(curriculum, 0, 1, [8 // 2])
    play(curriculum, 1, 1, [0])
    assert pools(curriculum) == (0, 0, 1)
    assert curriculum.table["smoothed_mean"][0] == pytest.approx(0.1)


def filled(n=16):
    """Prompts of which 4 failed at step 0, 4 at step 1, 2 were solved at 2 and 2 at 3; the rest is unseen."""
    curriculum = Curriculum(PUBLISHED, n)
    failed = [play(curriculum, step, 4, [0] * n).prompts for step in (0, 1)]
    solved = [play(curriculum, step, 2, [8] * n).prompts for step in (2, 3)]
    return curriculum, failed, solved


def test_retests_come_first_and_the_longest_unevaluated_before_others():
    curriculum, failed, solved = filled()
    assert pools(curriculum) == (4, 4, 8)
    draw = curriculum.select(6, step=10)
    assert (
        draw.reasons.tolist() == [Reason.RETEST_SOLVED] + [Reason.RETEST_UNSOLVED] * 3 + [Reason.UNSEEN] * 2
    )
    assert draw.prompts[0] in solved[0]
    assert set(draw.prompts[1:4]) < set(failed[0])
    again = curriculum.select(2, step=10)
    assert again.reasons.tolist() == [Reason.UNSEEN] * 2, "a step retests once"
    curriculum.observe(draw.tickets, np.zeros((6, 8)))
    draw = curriculum.select(4, step=20)
    assert draw.prompts[0] in solved[0]
    # the fourth that failed at step 0, then two of step 1; those retested at step 10 wait
    assert draw.prompts[1] in failed[0]
    assert set(draw.prompts[2:]) < set(failed[1])


@pytest.mark.parametrize(
    ("steps", "retests"),
    [
        ([9, 10, 11, 20, 21], [10, 20]),
        ([4, 8, 12, 16, 20, 24], [12, 20]),
        ([7, 35, 36, 39, 40], [35, 40]),
        ([4, 5, 6], []),
    ],
)
def test_steps_that_retest(steps, retests):
    curriculum, _, _ = filled()
    found = []
    for step in steps:
        draw = curriculum.select(1, step=step)
        found += [step] * int(draw.reasons[0] == Reason.RETEST_SOLVED)
        curriculum.drop(draw.tickets)
    assert found == retests


def test_no_retests():
    curriculum = Curriculum(PUBLISHED + ",retest_every=0", 8)
    play(curriculum, 0, 4, [0] * 8)
    assert (curriculum.select(4, step=10).reasons == Reason.UNSEEN).all()


def test_a_small_call_leaves_retests_to_the_next_of_its_step():
    curriculum, _, _ = filled()
    reasons = [r for n in (2, 1, 3) for r in curriculum.select(n, step=10).reasons]
    assert reasons == [Reason.RETEST_SOLVED] + [Reason.RETEST_UNSOLVED] * 3 + [Reason.UNSEEN] * 2


def test_a_prompt_that_varies_again_re_enters_the_heap():
    curriculum, _, _ = filled()
    draw = curriculum.select(4, step=10)
    curriculum.observe(draw.tickets, np.arange(8) < np.array([6, 4, 0, 8])[:, None])
    # the solved one and one unsolved one re-enter; one fails again; one is solved now
    assert pools(curriculum) == (6, 4, 6)
    assert moves(curriculum) == [5, 1, 8, 2, 1]
    # averages after 1 and 0: 0.8 * 0.75 + 0.2 = 0.8 and 0.8 * 0.5 = 0.4
    expected = [0.8 * 0.2 + 1e-4, 0.4 * 0.6]
    np.testing.assert_allclose(curriculum.selection.priority(draw.prompts[:2]), expected, rtol=1e-6)
    following = curriculum.select(6, step=11)
    assert following.prompts[0] == draw.prompts[1], "0.24 is above the unseen prompts' 0.2"
    assert following.prompts[5] == draw.prompts[0], "0.1601 is below"


def test_a_dropped_retest_is_still_the_oldest():
    curriculum, _, _ = filled()
    draw = curriculum.select(4, step=10)
    curriculum.drop(draw.tickets)
    again = curriculum.select(4, step=20)
    stamps = curriculum.table["last_step"][again.prompts]
    assert stamps.tolist() == [2, 0, 0, 0]


def test_an_empty_heap_is_completed_from_the_unsolved_then_the_solved_pool():
    curriculum, failed, solved = filled(n=12)
    assert pools(curriculum) == (0, 4, 8)
    draw = curriculum.select(11, step=4)
    assert draw.reasons.tolist() == [Reason.RETEST_UNSOLVED] * 8 + [Reason.RETEST_SOLVED] * 3
    assert set(draw.prompts[:4]) == set(failed[0])
    assert set(draw.prompts[4:8]) == set(failed[1])
    assert set(draw.prompts[8:10]) == set(solved[0])
    assert draw.prompts[10] in solved[1]


def test_a_heap_with_too_few_is_emptied_first():
    curriculum, failed, _ = filled(n=14)
    draw = curriculum.select(5, step=4)
    assert draw.reasons.tolist() == [Reason.UNSEEN] * 2 + [Reason.RETEST_UNSOLVED] * 3
    assert set(draw.prompts[2:]) < set(failed[0])


def test_mean_priority_and_sizes():
    curriculum = Curriculum(PUBLISHED + ",bonus=0", 5)
    draw = curriculum.select(3, step=0)
    curriculum.observe(draw.tickets, np.arange(8) < np.array([4, 2, 0])[:, None])
    # in the heap: 1/4, 12/64 = 3/16 and two unseen at 0.2
    metrics = curriculum.metrics()
    assert metrics["replay/mean_priority"] == pytest.approx((0.25 + 0.1875 + 0.2 + 0.2) / 4, rel=1e-6)
    assert pools(curriculum) == (4, 0, 1)


@pytest.mark.parametrize("advantage", ["group", "smoothed:alpha=0.5"])
def test_a_retest_that_stays_solved_has_no_gradient(advantage):
    """Smoothed, a group of 8 successes after one of 4 has advantages; solved and retested it has none."""
    curriculum = Curriculum(f"{PUBLISHED},retest_every=1", 1, advantage=advantage)
    found = []
    for step, successes in enumerate([4, 8, 8, 4]):
        draw = curriculum.select(1, step=step)
        verdict = curriculum.observe(draw.tickets, [np.arange(8) < successes])
        found.append(bool(verdict.advantages.any()))
        assert verdict.admitted.all()
    smoothed = advantage != "group"
    assert found == [True, smoothed, False, True]  # it enters the pool, stays there, leaves it


def test_a_random_subset_of_a_pool_is_retested():
    """Section 4.1: any prompt may come first, not the longest unevaluated alone."""
    first = set()
    for seed in range(40):
        curriculum = Curriculum(f"{PUBLISHED},retest_order=random,retest_every=10", 4, seed=seed)
        for step in range(4):
            play(curriculum, step, 1, [0] * 4)
        oldest = curriculum.table["last_step"].argsort()
        draw = curriculum.select(3, step=10)
        assert (draw.reasons == Reason.RETEST_UNSOLVED).all()
        assert len(set(draw.prompts.tolist())) == 3
        first.add(int(np.flatnonzero(oldest == draw.prompts[0])[0]))
    assert first == set(range(4))


def test_the_deviation_of_the_moving_averages():
    curriculum = Curriculum(PUBLISHED, 3)
    assert np.isnan(curriculum.metrics()["replay/success_rate_std"])
    draw = curriculum.select(2, step=0)
    curriculum.observe(draw.tickets, [[1, 0, 0, 0], [1, 1, 1, 0]])
    assert curriculum.metrics()["replay/success_rate_std"] == pytest.approx(0.25)
