"""PSPO's smoothed advantages: equations 3 to 6 and 13 by hand, and against a direct evaluation."""

import math

import numpy as np
import pytest

from curro import Curriculum


def curriculum(prompts=1, **options):
    return Curriculum("uniform", prompts, advantage={"name": "smoothed", **options})


def visit(port, *groups, **reported):
    """Report groups of all prompts, in the order of the prompts' numbers; returns advantages."""
    draw = port.select(port.table.size, step=0)
    rewards = np.array(groups, float)[draw.prompts]
    verdict = port.observe(draw.tickets, rewards, **reported)
    return verdict.advantages[np.argsort(draw.prompts)]


def statistics(port, prompt=0):
    return float(port.table["ers_mean"][prompt]), float(port.table["ers_variance"][prompt])


def test_the_first_visit_is_grpo():
    # mean 1/4, variance 3/16
    port = curriculum(alpha=0.5, epsilon=0)
    scale = math.sqrt(3 / 16)
    np.testing.assert_allclose(
        visit(port, [1, 0, 0, 0]), [[0.75 / scale, -0.25 / scale, -0.25 / scale, -0.25 / scale]]
    )
    assert statistics(port) == (0.25, 3 / 16)


def test_equations_3_4_and_6_on_binary_rewards():
    # visit 1: M = 1/4, S = 3/16. Visit 2: m = 3/4, v = 3/16, a = 1/2:
    # M = 1/2 (3), S = 3/32 + 3/32 + 1/4 (1/2)^2 = 1/4 (4); A = (r - 1/2) / sqrt(3/16) (6)
    port = curriculum(alpha=0.5, epsilon=0)
    visit(port, [1, 0, 0, 0])
    half = 0.5 / math.sqrt(3 / 16)
    np.testing.assert_allclose(visit(port, [1, 1, 1, 0]), [[half, half, half, -half]], rtol=1e-12)
    assert statistics(port) == (0.5, 0.25)
    # visit 3: m = 1, v = 0: M = 3/4, S = 1/8 + 0 + 1/4 (1/2)^2 = 3/16; A = (1 - 3/4) / sqrt(1/4)
    np.testing.assert_allclose(visit(port, [1, 1, 1, 1]), [[0.5] * 4], rtol=1e-12)
    assert statistics(port) == (0.75, 3 / 16)


def test_equations_3_4_and_6_on_continuous_rewards():
    # visit 1 of [-1, 1, 3, 5]: M = 2, S = 5. Visit 2 of [0, 0, 0, 4]: m = 1, v = 3, a = 1/4:
    # M = 7/4, S = 15/4 + 3/4 + 3/16 (1 - 2)^2 = 75/16; A = (r - 7/4) / (sqrt 5 + 1/2)
    port = curriculum(alpha=0.25, epsilon=0.5)
    visit(port, [-1, 1, 3, 5])
    expected = np.array([[-1.75, -1.75, -1.75, 2.25]]) / (math.sqrt(5) + 0.5)
    np.testing.assert_allclose(visit(port, [0, 0, 0, 4]), expected, rtol=1e-12)
    assert statistics(port) == (1.75, 75 / 16)


def test_equation_13_leaves_the_correction_out():
    # as above: S = 15/4 + 3/4 = 9/2
    port = curriculum(alpha=0.25, variance="linear", deviation="current", epsilon=0)
    visit(port, [-1, 1, 3, 5])
    expected = np.array([[-1.75, -1.75, -1.75, 2.25]]) / math.sqrt(4.5)
    np.testing.assert_allclose(visit(port, [0, 0, 0, 4]), expected, rtol=1e-12)
    assert statistics(port) == (1.75, 4.5)


def test_no_variance_is_the_reward_less_the_ers_mean():
    port = curriculum(alpha=0.25, variance=None)
    visit(port, [-1, 1, 3, 5])
    np.testing.assert_array_equal(visit(port, [0, 0, 0, 4]), [[-1.75, -1.75, -1.75, 2.25]])
    assert "ers_variance" not in port.table.columns


def test_one_over_n_is_the_mean_and_variance_of_all_rewards():
    # four groups of one size: the pooled moments of 16 rewards
    rng = np.random.default_rng(0)
    groups = rng.normal(size=(4, 4))
    port = curriculum(alpha="1/n")
    for group in groups:
        visit(port, group)
    np.testing.assert_allclose(statistics(port), [groups.mean(), groups.var()], rtol=1e-12)
    assert port.config["advantage"] == {"name": "smoothed", "alpha": "1/n"}


@pytest.mark.parametrize("deviation", ["previous", "current"])
def test_without_a_deviation_yet_the_current_one_is_taken(deviation):
    # twice all 0: S = 0. Then [1, 0, 0, 0], a = 1/2: M = 1/8, S = 3/32 + 1/4 (1/4)^2 = 7/64
    port = curriculum(alpha=0.5, deviation=deviation)
    assert not visit(port, [0, 0, 0, 0]).any()
    assert not visit(port, [0, 0, 0, 0]).any()
    expected = np.array([[7, -1, -1, -1]]) / 8 / (math.sqrt(7 / 64) + 1e-4)
    np.testing.assert_allclose(visit(port, [1, 0, 0, 0]), expected, rtol=1e-12)


def test_a_first_failure_after_perfect_groups_counts_ten_times_at_most():
    # visit 1: 4/8, S = 1/4. Four visits of 8/8 with alpha = .99: S = .01 S + .0099 (1/2)^2, then a
    # hundredth each time, next to 0. Then 7/8: M = .99 7/8 + .01 ~ 7/8, S_t = .99 7/64 + .0099 / 64
    port = curriculum()
    visit(port, [1, 1, 1, 1, 0, 0, 0, 0])
    for _ in range(4):
        visit(port, [1] * 8)
    assert 0 < statistics(port)[1] < 1e-8
    (advantages_G,) = visit(port, [0] + [1] * 7)
    mean, square = statistics(port)
    assert square == pytest.approx(0.99 * 7 / 64 + 0.0099 / 64, rel=1e-3)
    np.testing.assert_allclose(advantages_G[0], -mean / (math.sqrt(square) + 1e-4), rtol=1e-9)
    assert advantages_G[0] == pytest.approx(-0.87625 / 0.3294, rel=1e-3)


def test_a_deviation_of_a_hundredth_and_more_is_the_previous_one():
    # 4/8 then 8/8: S = .0025 + .0099 / 4 = .004975; then 7/8: S_t = .1084, 22 times as much
    port = curriculum(epsilon=0)
    visit(port, [1, 1, 1, 1, 0, 0, 0, 0])
    visit(port, [1] * 8)
    assert statistics(port)[1] == pytest.approx(0.004975, rel=1e-12)
    (advantages_G,) = visit(port, [0] + [1] * 7)
    np.testing.assert_allclose(advantages_G[0], -statistics(port)[0] / math.sqrt(0.004975), rtol=1e-12)


def test_where_there_is_no_deviation_at_all_nothing_is_divided():
    # linear, a = 1/2: M = 1/2, S = 0 before and after
    port = curriculum(alpha=0.5, variance="linear")
    visit(port, [0, 0, 0, 0])
    np.testing.assert_array_equal(visit(port, [1, 1, 1, 1]), [[0.5] * 4])


def stream(rng, count, prompts, rollouts):
    for _ in range(count):
        yield rng.integers(0, 2, (prompts, rollouts)) + rng.choice([0, 0.1, 0.3]) * rng.normal(
            size=(prompts, rollouts)
        )


@pytest.mark.parametrize("alpha", [0.1, 0.99, "1/n"])
@pytest.mark.parametrize("variance", ["corrected", "linear"])
@pytest.mark.parametrize("deviation", ["previous", "current"])
def test_a_long_stream_is_the_direct_evaluation(alpha, variance, deviation):
    port = curriculum(3, alpha=alpha, variance=variance, deviation=deviation)
    mean, square = [None] * 3, [None] * 3
    for t, rewards_PG in enumerate(stream(np.random.default_rng(1), 100, 3, 5), 1):
        advantages_PG = visit(port, *rewards_PG)
        for p, rewards in enumerate(rewards_PG):
            m = sum(rewards) / 5
            v = sum((r - m) ** 2 for r in rewards) / 5
            a = 1 / t if alpha == "1/n" else alpha
            before, last = (m, v) if t == 1 else (mean[p], square[p])
            mean[p] = before + a * (m - before)
            square[p] = last + a * (v - last)
            if variance == "corrected":
                square[p] += a * (1 - a) * (m - before) ** 2
            scale = math.sqrt(last if deviation == "previous" and last >= square[p] / 100 else square[p])
            expected = [(r - mean[p]) / (scale + 1e-4) for r in rewards]
            np.testing.assert_allclose(advantages_PG[p], expected, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(statistics(port, p), (mean[p], square[p]), rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "plain"),
    [
        ({"deviation": "current"}, "group:divide_by_std=true"),
        ({"deviation": "current", "variance": "linear"}, "group:divide_by_std=true"),
        ({"variance": None}, "group"),
        ({"variance": None, "deviation": "current"}, "group"),
    ],
)
def test_alpha_1_is_grpo_to_the_bit(options, plain):
    smoothed, grpo = curriculum(3, alpha=1, **options), Curriculum("uniform", 3, advantage=plain)
    for rewards_PG in stream(np.random.default_rng(2), 50, 3, 7):
        np.testing.assert_array_equal(visit(smoothed, *rewards_PG), visit(grpo, *rewards_PG))


@pytest.mark.parametrize("alpha", [0.1, 0.7])
def test_the_corrected_variance_is_unbiased_but_for_the_means_own(alpha):
    """Of groups of G independent rewards of variance s: E S = s - Var M, Var M = s/G alpha/(2 - alpha)."""
    prompts, rollouts, visits = 1000, 4, 50
    port, rng = curriculum(prompts, alpha=alpha), np.random.default_rng(3)
    for _ in range(visits):
        visit(port, *rng.integers(0, 2, (prompts, rollouts)))
    mean, variance = port.table["ers_mean"], port.table["ers_variance"]
    of_mean = 0.25 / rollouts * alpha / (2 - alpha)
    # each within five standard errors: under one failure in a million seeds
    assert abs(variance.mean() - (0.25 - of_mean)) < 5 * variance.std() / prompts**0.5
    assert abs(mean.mean() - 0.5) < 5 * (of_mean / prompts) ** 0.5
    assert abs(mean.var() - of_mean) < 5 * of_mean * (2 / prompts) ** 0.5


def test_what_was_not_scored_changes_nothing():
    port = curriculum(2, alpha=0.5, epsilon=0)
    visit(port, [1, 0, 0, 0], [1, 1, 0, 0])
    before = port.table.state_dict()
    draw = port.select(2, step=1)
    rewards = np.where((draw.prompts == 0)[:, None], [np.nan] * 4, [1, 0, np.nan, 0])
    verdict = port.observe(draw.tickets, rewards)
    first, second = verdict.advantages[np.argsort(draw.prompts)]
    assert not first.any()
    assert port.table["ers_mean"][0] == before["ers_mean"][0]
    assert port.table["visits"].tolist() == [1, 2]
    # prompt 1: 4 rollouts of mean 1/2 and 3 of mean 1/3: M = 3/7, divided by 1/2
    np.testing.assert_allclose(second, [8 / 7, -6 / 7, 0, -6 / 7], rtol=1e-12)


def test_groups_of_other_sizes_count_by_their_rollouts():
    """With alpha = 1/n, M and S are the mean and the variance of all rollouts of the prompt put together."""
    curriculum = Curriculum("uniform", 1, advantage="smoothed:alpha=1/n")
    groups = ([1, 0, 0], [1] * 20 + [0] * 70, [1, 1], [0, 1, 1, 1, 0])
    for step, rewards in enumerate(groups):
        curriculum.observe(curriculum.select(1, step=step).tickets, [rewards])
        together = np.concatenate(groups[: step + 1])
        assert curriculum.table["ers_mean"][0] == pytest.approx(together.mean(), rel=1e-12)
        assert curriculum.table["ers_variance"][0] == pytest.approx(together.var(), rel=1e-12)
