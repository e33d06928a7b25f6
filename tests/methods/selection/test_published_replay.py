"""Prioritized replay as published: priorities by hand, pools and retests, exploration, proportional draws."""

import numpy as np
import pytest

from curro import Curriculum, Reason
from curro.methods.selection.published_replay import ProportionalStore

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


def test_a_dropped_prompt_comes_back_with_its_priority():
    curriculum = Curriculum(PLAIN, 3)
    play(curriculum, 0, 3, [4, 3, 2])
    curriculum.drop(curriculum.select(3, step=1).tickets)
    assert curriculum.select(3, step=1).prompts.tolist() == [0, 1, 2]


def test_the_heap_is_fed_the_bonus_at_exactly_one_half():
    curriculum = Curriculum(PLAIN + ",bonus=0.05", 2)
    play(curriculum, 0, 2, [4, 5])
    # 4/8 * 4/8 + 0.05 = 0.3 comes before 5/8 * 3/8 + 0.05 = 0.284...; without its bonus it would be 0.25
    fed = curriculum.selection.heap.state_dict()["priorities"]
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


PUBLISHED = "prioritized-replay:variant=published,exploration=0"


def pools(curriculum):
    metrics = curriculum.metrics()
    return tuple(int(metrics[f"replay/{name}"]) for name in ("heap_size", "solved_pool", "unsolved_pool"))


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


def test_a_small_call_leaves_retests_to_the_next_of_its_step():
    curriculum, _, _ = filled()
    reasons = [r for n in (2, 1, 3) for r in curriculum.select(n, step=10).reasons]
    assert reasons == [Reason.RETEST_SOLVED] + [Reason.RETEST_UNSOLVED] * 3 + [Reason.UNSEEN] * 2


def test_retests_wait_for_the_turn_of_their_source():
    rows = [{"prompt": f"{source} {i}", "source": source} for source in ("easy", "hard") for i in range(8)]
    curriculum = Curriculum(PUBLISHED, rows, source_weights="easy=1,hard=1")
    play(curriculum, 0, 8, [4] * 8 + [0] * 8)
    assert pools(curriculum)[2] == 4
    draws = [curriculum.select(1, step=10) for _ in range(8)]
    reasons = [draw.reasons[0] for draw in draws if draw.prompts[0] >= 8]
    assert reasons == [Reason.RETEST_UNSOLVED] * 3 + [Reason.UNSEEN]
    assert [draw.prompts[0] >= 8 for draw in draws].count(True) == 4
    assert curriculum.select(1, step=11).reasons[0] != Reason.RETEST_UNSOLVED


def test_a_prompt_that_varies_again_re_enters_the_heap():
    curriculum, _, _ = filled()
    draw = curriculum.select(4, step=10)
    curriculum.observe(draw.tickets, np.arange(8) < np.array([6, 4, 0, 8])[:, None])
    # the solved one and one unsolved one re-enter; one fails again; one is solved now
    assert pools(curriculum) == (6, 4, 6)
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


def test_an_empty_heap_is_completed_from_the_solved_then_the_unsolved_pool():
    curriculum, failed, solved = filled(n=12)
    assert pools(curriculum) == (0, 4, 8)
    draw = curriculum.select(9, step=4)
    assert draw.reasons.tolist() == [Reason.RETEST_SOLVED] * 4 + [Reason.RETEST_UNSOLVED] * 5
    assert set(draw.prompts[:2]) == set(solved[0])
    assert set(draw.prompts[2:4]) == set(solved[1])
    assert set(draw.prompts[4:8]) == set(failed[0])
    assert draw.prompts[8] in failed[1]


def test_mean_priority_and_sizes():
    curriculum = Curriculum(PUBLISHED + ",bonus=0", 5)
    draw = curriculum.select(3, step=0)
    curriculum.observe(draw.tickets, np.arange(8) < np.array([4, 2, 0])[:, None])
    # in the heap: 1/4, 12/64 = 3/16 and two unseen at 0.2
    metrics = curriculum.metrics()
    assert metrics["replay/mean_priority"] == pytest.approx((0.25 + 0.1875 + 0.2 + 0.2) / 4, rel=1e-6)
    assert pools(curriculum) == (4, 0, 1)
    # the averages 1/2, 1/4 and 0 have the mean 1/4 and the variance 1/24
    assert metrics["replay/success_rate_std"] == pytest.approx(24**-0.5, rel=1e-6)
    assert np.isnan(Curriculum(PUBLISHED, 3).metrics()["replay/success_rate_std"])


@pytest.mark.parametrize("advantage", ["group", "smoothed:alpha=0.5"])
def test_a_retest_that_stays_solved_has_no_gradient(advantage):
    """Smoothed, a group of 8 successes after one of 4 has advantages; solved and retested it has none."""
    curriculum = Curriculum(f"{PUBLISHED},retest_every=1", 1, advantage=advantage)
    found, credited = [], []
    for step, successes in enumerate([4, 8, 8, 4]):
        draw = curriculum.select(1, step=step)
        verdict = curriculum.observe(draw.tickets, [np.arange(8) < successes])
        found.append(bool(verdict.advantages.any()))
        credited += verdict.credited.all(axis=1).tolist()
        assert verdict.admitted.all()
    smoothed = advantage != "group"
    assert found == [True, smoothed, False, True]  # it enters the pool, stays there, leaves it
    assert credited == [True, True, False, True]


WITHOUT_RETESTS = "prioritized-replay:variant=published,retest_every=0"


def graded(options, successes, seed=0):
    """A curriculum whose prompt p succeeded in successes[p] of 8."""
    curriculum = Curriculum(f"{WITHOUT_RETESTS},bonus=0,{options}", len(successes), seed=seed)
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
    _, reasons, _ = draws(graded("", [4] * 20), n=4, steps=800)
    explored = reasons == Reason.EXPLORATION
    assert (explored.all(axis=1) == explored.any(axis=1)).all(), "a batch explores as a whole"
    # 800 * 0.125 = 100, deviation sqrt(800 * 0.125 * 0.875) = 9.35; 4 deviations: 6 in 100,000 cases
    assert abs(explored.any(axis=1).sum() - 100) < 38


@pytest.mark.parametrize("draw", ["top", "proportional"])
def test_exploration_is_uniform_over_the_heap(draw):
    successes = [1, 2, 3, 4, 5, 6, 7, 4] * 2 + [0, 8, 0, 8]
    curriculum = graded(f"exploration=1,draw={draw}", successes)
    prompts, reasons, probabilities = draws(curriculum, n=2, steps=800)
    assert (reasons == Reason.EXPLORATION).all()
    counts = np.bincount(prompts.ravel(), minlength=20)
    assert counts[16:].tolist() == [0] * 4, "the pools are not the heap"
    # 1600 draws of 16 prompts; 15 degrees of freedom: above 44.3 in one of 10,000 cases
    assert chi_square(counts[:16], 100) < 44.3
    np.testing.assert_array_equal(probabilities, np.tile([1 / 16, 1 / 15], (800, 1)))


def test_draws_in_proportion_to_priority():
    # p(1-p) in 64ths: 16, 12, 7, 15; together 50
    curriculum = graded("draw=proportional,exploration=0", [4, 2, 7, 3])
    prompts, reasons, probabilities = draws(curriculum, n=2, steps=1000)
    assert (reasons == Reason.PRIORITY).all()
    share = np.array([16, 12, 7, 15]) / 50
    # 3 degrees of freedom: above 21.1 in one of 10,000 cases
    assert chi_square(np.bincount(prompts[:, 0], minlength=4), 1000 * share) < 21.1
    first, second = prompts.T
    np.testing.assert_allclose(probabilities[:, 0], share[first], rtol=1e-6)
    # the second of what the first left: w / (50 - w_first)
    np.testing.assert_allclose(probabilities[:, 1], share[second] / (1 - share[first]), rtol=1e-6)
    pairs = np.bincount(first * 4 + second, minlength=16)
    expected = 1000 * (share[:, None] * share / (1 - share[:, None]))
    off = ~np.eye(4, dtype=bool).ravel()
    assert not pairs[~off].any()
    # 11 degrees of freedom: above 37.4 in one of 10,000 cases
    assert chi_square(pairs[off], expected.ravel()[off]) < 37.4


def test_prompts_of_priority_zero_come_last_and_alike():
    curriculum = Curriculum(f"{WITHOUT_RETESTS},draw=proportional,initial_priority=0,exploration=0", 6)
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
    assert draw.reasons.tolist() == [Reason.PRIORITY, Reason.RETEST_SOLVED] + [Reason.RETEST_UNSOLVED] * 2


def test_uniform_draws_are_ranks_among_those_left():
    rng = np.random.default_rng(1)
    for _ in range(200):
        size = int(rng.integers(1, 40))
        store = ProportionalStore(np.ones(size))
        out = rng.permutation(size)[: rng.integers(0, size)]
        store._remove(out)
        uniforms = rng.random(rng.integers(0, len(store) + 1))
        present, expected = np.flatnonzero(store.inside).tolist(), []
        for uniform in uniforms:
            expected.append(present.pop(int(uniform * len(present))))
        assert store.pop_uniform(uniforms).tolist() == expected
        assert len(store) == len(present) == store.inside.sum()
        store.push(out[:1], np.ones(len(out[:1])))
        assert len(store) == store.inside.sum()
