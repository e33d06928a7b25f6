"""The learnability of prompts: worked numbers, identities, and what is true of the paper's bound (14)."""

import subprocess
import sys
from decimal import Decimal, localcontext
from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from curro import ConfigError, Curriculum, PromptTable
from curro.theory import (
    LearnabilitySummary,
    crossing,
    cumulant_expansion,
    finite_kl,
    gaussian_kl,
    learnability,
    most_learnable,
    reverse_kl,
    sample_kl,
    sample_variance,
    variance_approximation,
    variance_bounds,
)

BETAS = 10 ** np.linspace(-2, 3, 51)
RATES = np.linspace(0.001, 0.999, 999)
GRID = np.meshgrid(RATES, BETAS)

log_betas = st.floats(-3, 6)
rates = st.floats(1e-12, 1 - 1e-12)
rewards = st.lists(st.floats(-5, 5), min_size=2, max_size=6)


def exact_kl(values, weights, beta):
    """log E[e^(r/beta)] - E[r] / beta with a hundred digits."""
    with localcontext() as context:
        context.prec = 100
        values, weights = ([Decimal(float(x)) for x in numbers] for numbers in (values, weights))
        weights = [weight / sum(weights) for weight in weights]
        t = 1 / Decimal(float(beta))
        mean = sum(w * r for w, r in zip(weights, values, strict=True))
        return float(sum(w * ((r - mean) * t).exp() for w, r in zip(weights, values, strict=True)).ln())


def test_divergence_by_hand():
    # e^(1/beta) = 3: log(1/2 + 3/2) - log(3)/2 = log(2 / sqrt 3)
    assert reverse_kl(0.5, 1 / np.log(3)) == pytest.approx(np.log(2 / np.sqrt(3)), rel=1e-14)
    # e^(1/beta) = 9, p = 1/8: log(7/8 + 9/8) - log(9)/8 = log 2 - log(3)/4
    assert reverse_kl(1 / 8, 1 / np.log(9)) == pytest.approx(np.log(2) - np.log(3) / 4, rel=1e-14)
    # e^(1/beta) = 2, rewards 0, 1, 2 with 1/2, 1/4, 1/4: log(1/2 + 2/4 + 4/4) - 3/4 log 2 = log(2)/4
    assert finite_kl([0, 1, 2], [0.5, 0.25, 0.25], 1 / np.log(2)) == pytest.approx(np.log(2) / 4, rel=1e-14)
    # variance 3, beta 2: 3 / (2 * 4)
    assert gaussian_kl(3, 2) == variance_approximation(3, 2) == 0.375


def test_cumulants_by_hand():
    # rewards 0, 1, 2 with 1/2, 1/4, 1/4: mean 3/4, central moments
    #   2: (9/16)/2 + (1/16)/4 + (25/16)/4 = 44/64
    #   3: (-27/64)/2 + (1/64)/4 + (125/64)/4 = 72/256
    #   4: (81/256)/2 + (1/256)/4 + (625/256)/4 = 788/1024, less 3 (44/64)^2 = 5808/4096: -2656/4096
    second, third, fourth = 44 / 64 / 2, 72 / 256 / 6, -2656 / 4096 / 24
    given = [0, 1, 2], [0.5, 0.25, 0.25]
    assert cumulant_expansion(*given, 1, order=2) == pytest.approx(second)
    assert cumulant_expansion(*given, 1, order=3) == pytest.approx(second + third)
    assert cumulant_expansion(*given, 1) == pytest.approx(second + third + fourth)
    assert cumulant_expansion(*given, 2) == pytest.approx(second / 4 + third / 8 + fourth / 16)


def test_the_series_gains_an_order_with_each_cumulant():
    given, betas = ([0, 1, 2], [0.5, 0.3, 0.2]), np.array([50.0, 100.0])
    for order in (2, 3, 4):
        far, near = abs(cumulant_expansion(*given, betas, order) - finite_kl(*given, betas))
        assert far / near == pytest.approx(2 ** (order + 1), rel=0.05)


@settings(deadline=None)
@given(rates, log_betas)
def test_divergence_is_right_to_twelve_digits(p, log_beta):
    p, beta = np.float64(p), 10**log_beta
    assert reverse_kl(p, beta) == pytest.approx(exact_kl([0, 1], [1 - p, p], beta), rel=1e-12, abs=0)


@pytest.mark.parametrize("beta", [1e-4, 1e-3, 1e8])
@pytest.mark.parametrize("p", [1e-300, 1e-100, 1e-12, 0.3, 0.5, 1 - 1e-9])
def test_divergence_at_the_ends(p, beta):
    # with q = 1 - p as a number of its own: in floats 1 - 1e-300 is 1
    with localcontext() as context:
        context.prec = 700
        rate, t = Decimal(p), 1 / Decimal(beta)
        exact = float((1 - rate + rate * t.exp()).ln() - rate * t)
    assert reverse_kl(p, beta) == pytest.approx(exact, rel=1e-12, abs=0)


@settings(deadline=None)
@given(rewards, st.data(), log_betas)
def test_finite_divergence_is_right(values, data, log_beta):
    size = len(values)
    weights = np.array(data.draw(st.lists(st.floats(0.01, 1), min_size=size, max_size=size)))
    assume(np.ptp(values) > 0.01)
    exact = exact_kl(values, weights, 10**log_beta)
    assert finite_kl(values, weights / weights.sum(), 10**log_beta) == pytest.approx(exact, rel=1e-10, abs=0)


@settings(deadline=None)
@given(rates, log_betas, st.floats(-100, 100), st.floats(0.1, 10))
def test_success_and_failure_may_have_any_reward(p, log_beta, low, span):
    beta = 10**log_beta
    two = finite_kl([low, low + span], [1 - p, p], beta * span)
    assert two == pytest.approx(reverse_kl(p, beta), rel=1e-10)


def test_outcomes_that_never_happen_count_for_nothing():
    assert finite_kl([0, 1, 1e6], [0.5, 0.5, 0], 1e-2) == reverse_kl(0.5, 1e-2)
    assert finite_kl([0.1, 0.1, 0.1], [0.2, 0.3, 0.5], 1e-9) == 0
    assert reverse_kl([0, 1], [[1e-4], [1e8]]).tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("beta", [0.5, 1.0, 4.0])
def test_normal_rewards(beta):
    # a normal density on a fine grid; it is shifted by sigma^2 / beta = 8 = 4 sigma at the most
    values = np.linspace(-40, 40, 4001)
    weights = np.exp(-((values - 1) ** 2) / (2 * 4))
    assert finite_kl(values, weights / weights.sum(), beta) == pytest.approx(gaussian_kl(4, beta), rel=1e-9)


def test_probabilities_in_single_precision():
    # float32 thirds sum to 1 + 3e-8
    thirds = np.full(3, 1 / 3, np.float32)
    assert finite_kl([0, 1, 2], thirds, 1e3) == pytest.approx(
        finite_kl([0, 1, 2], [1 / 3] * 3, 1e3), rel=1e-9
    )


def test_rows_broadcast():
    rows = finite_kl([0, 1], [[0.5, 0.5], [0.9, 0.1]], [[1.0], [2.0]])
    assert np.allclose(rows, reverse_kl([0.5, 0.1], [[1.0], [2.0]]), rtol=1e-14)
    assert reverse_kl(np.zeros((3, 1)), np.ones(4)).shape == (3, 4)
    assert crossing(np.ones((2, 3))).shape == most_learnable(np.ones((2, 3))).shape == (2, 3)


# ---- what is true of (14)


def test_at_one_half_the_bound_fails_for_every_beta():
    beta = 10 ** np.linspace(-2, 3, 51)
    divergence = reverse_kl(0.5, beta)
    # log((1 + e^t) / 2) - t/2 = log((e^(-t/2) + e^(t/2)) / 2), t = 1/beta
    assert np.allclose(divergence, np.logaddexp(-0.5 / beta, 0.5 / beta) - np.log(2), rtol=1e-9)
    assert (divergence < variance_approximation(0.25, beta)).all()
    # and both sides agree for large beta: log cosh x = x^2/2 - x^4/12, so the ratio is 1 - x^2/6
    assert divergence[-1] / variance_approximation(0.25, 1000) == pytest.approx(
        1 - 1 / 2000**2 / 6, abs=1e-12
    )


def test_the_bound_holds_up_to_the_crossing_and_fails_above():
    p, beta = GRID
    gap = reverse_kl(p, beta) / variance_approximation(p * (1 - p), beta) - 1
    cross = crossing(BETAS)[:, None]
    sure = abs(p - cross) > 1e-9
    assert ((gap > 0) == (p < cross))[sure].all()
    assert ((cross > 0) & (cross < 0.5)).all()
    assert (np.diff(crossing(10 ** np.linspace(-4, 4, 300))) > 0).all()


@pytest.mark.parametrize("beta", [1e-2, 0.3, 1.0, 99.0, 101.0, 1e4])
def test_the_crossing_is_right_to_twelve_digits(beta):
    for side in (-1, 1):
        p = float(crossing(beta)) + side * 1e-12
        with localcontext() as context:
            context.prec = 60
            rate, t = Decimal(p), 1 / Decimal(beta)
            gap = (1 + rate * (t.exp() - 1)).ln() - rate * t - rate * (1 - rate) * t**2 / 2
        assert (gap > 0) == (side < 0)


def test_the_crossing_in_the_limits():
    large, small = np.array([10.0, 99.0, 101.0, 1e6]), np.array([1e-2, 1e-4, 1e-8])
    # 1/2 - t/16 + 13 t^3 / 15360, t = 1/beta, the next term of order t^5
    assert np.allclose(crossing(large), 0.5 - 1 / (16 * large) + 13 / (15360 * large**3), rtol=0, atol=1e-9)
    # (1-p) t + log p = p (1-p) t^2 / 2, to first order p = 2/t, then p = 2/t (1 + log(2/t) / t)
    assert np.allclose(crossing(small), 2 * small * (1 + small * np.log(2 * small)), rtol=3 * small)
    assert crossing(1e-12) == pytest.approx(2e-12)


def test_the_most_learnable_success_rate():
    for beta in BETAS:
        best = most_learnable(beta)
        around = reverse_kl([best * 0.99, best, min(best * 1.01, 1)], beta)
        assert around.argmax() == 1
    assert (most_learnable(BETAS) < crossing(BETAS)).all()
    # beta = 1: 1 - 1/(e - 1)
    assert most_learnable(1) == pytest.approx(1 - 1 / (np.e - 1))
    # 1/t - 1/(e^t - 1) = 1/2 - t/12 + t^3/720
    assert most_learnable(100) == pytest.approx(0.5 - 1 / 1200 + 1e-6 / 720, abs=1e-12)
    assert most_learnable(1e-4) == pytest.approx(1e-4, rel=1e-12)


def test_divergence_per_variance_falls_with_the_success_rate():
    p, beta = GRID
    ratio = reverse_kl(p, beta) / (p * (1 - p))
    assert (np.diff(ratio, axis=1) < 1e-13 * ratio[:, 1:]).all()


@settings(deadline=None)
@given(st.floats(0.001, 0.499), log_betas)
def test_hard_prompts_have_the_larger_divergence(p, log_beta):
    t, q = 10**-log_beta, 1 - 2 * p
    hard, easy = reverse_kl([p, 1 - p], 1 / t)
    assert hard > easy or t * q < 1e-3
    # artanh(q tanh s) = log((1 + q tanh s) / (1 - q tanh s)) / 2
    expected = q * t - 2 * np.arctanh(q * np.tanh(t / 2))
    assert hard - easy == pytest.approx(expected, rel=1e-9, abs=1e-9 * min(t, 1) ** 2 + 1e-15 * t)


def test_bounds_that_do_hold():
    p, beta = GRID
    divergence, (lower, upper) = reverse_kl(p, beta), variance_bounds(p, beta)
    assert (lower <= divergence * (1 + 1e-13)).all()
    assert (divergence <= upper * (1 + 1e-13)).all()
    # e^(1/beta) = 2, v = 1/4: (log 2 - 1/2) / 4 and (1 - log 2) / 4
    assert np.allclose(variance_bounds(0.5, 1 / np.log(2)), [np.log(2) / 4 - 1 / 8, (1 - np.log(2)) / 4])
    # tight at the ends
    assert variance_bounds(1 - 1e-9, 0.1)[0] == pytest.approx(reverse_kl(1 - 1e-9, 0.1), rel=1e-8)
    assert variance_bounds(1e-15, 0.1)[1] == pytest.approx(reverse_kl(1e-15, 0.1), rel=1e-8)
    assert variance_bounds([0, 0.5, 1], 1e-3)[1].tolist() == [0, np.inf, 0]


def test_what_the_proof_of_the_bound_drops():
    # log(1 + x) >= x - x^2/2 at x = p (t + t^2/2) gives these two terms beyond (14), both negative
    p, beta = GRID
    kept = variance_approximation(p * (1 - p), beta) - p**2 / (2 * beta**3) - p**2 / (8 * beta**4)
    assert (reverse_kl(p, beta) >= kept * (1 - 1e-9)).all()


@pytest.mark.parametrize(
    ("beta", "told"),
    [(0.1, (0.1560, 0.1000, 0.3446)), (1, (0.4383, 0.4180, 0.9609)), (10, (0.4938, 0.4917, 0.9996))],
)
def test_where_the_bound_crosses_what_is_most_learnable_and_how_far_off_it_is(beta, told):
    """The page quotes those of 0.1: p* = 0.156, the largest D at 0.1, a third of (14) at p = 1/2."""
    ratio = reverse_kl(0.5, beta) / variance_approximation(0.25, beta)
    assert (crossing(beta), most_learnable(beta), ratio) == pytest.approx(told, abs=5e-5)


# ---- from groups


@pytest.mark.parametrize("size", [2, 3, 6])
@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_sample_variance_is_unbiased(size, p):
    groups = np.array(list(product([0.0, 1.0], repeat=size)))
    probability = (p**groups * (1 - p) ** (1 - groups)).prod(axis=1)
    assert probability @ sample_variance(groups) == pytest.approx(p * (1 - p), rel=1e-12)


def test_sample_variance_by_hand():
    # 1, 2, 6: mean 3, squares 4 + 1 + 9 = 14, over 2; without the 6: mean 1.5, 0.25 + 0.25, over 1
    groups = np.array([[1, 2, 6], [1, 2, np.nan], [1, 0, 0], [0, 0, 0]])
    scored = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 0], [0, 0, 0]], bool)
    assert sample_variance(groups, scored).tolist() == pytest.approx([7, 0.5, np.nan, np.nan], nan_ok=True)
    assert sample_kl(groups, 2, scored)[1] == pytest.approx(reverse_kl(0.5, 2))
    assert np.isnan(sample_kl(groups, 2, scored)[2:]).all()


def test_groups_of_one_temperature_each():
    groups = np.array([[0, 1], [0, 1]])
    assert np.allclose(sample_kl(groups, np.array([1.0, 2.0])), reverse_kl(0.5, [1.0, 2.0]))
    assert np.allclose(sample_kl(groups, 3), reverse_kl(0.5, 3))
    assert sample_variance(np.zeros((0, 4))).shape == sample_kl(np.zeros((0, 4)), 1).shape == (0,)
    assert np.isnan(sample_kl(np.zeros((2, 0)), 1)).all()


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_bias_of_the_plug_in_divergence(p):
    size = 8
    groups = np.tri(size + 1, size, -1)  # k successes in row k
    probability = np.array([comb(size, k) * p**k * (1 - p) ** (size - k) for k in range(size + 1)])

    def share(beta):
        return probability @ sample_kl(groups, beta) / reverse_kl(p, beta)

    assert all(share(beta) < 1 for beta in BETAS)
    assert share(1e4) == pytest.approx(7 / 8, rel=1e-4)
    # small beta: D = (1-p) / beta, and E[1 - k/n; k > 0] = 1 - p - (1-p)^n
    assert share(1e-6) == pytest.approx(1 - (1 - p) ** 7, rel=1e-4)


# ---- of a data set


def observed(rewards_PG, prompts, **options):
    curriculum = Curriculum("uniform", prompts=prompts, seed=0, **options)
    draw = curriculum.select(len(rewards_PG), step=0)
    curriculum.observe(draw.tickets, rewards_PG)
    return curriculum.table, draw.prompts


def test_learnability_of_a_table():
    groups = np.array([[1, 0, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0]])
    table, prompts = observed(groups, 10)
    estimate = learnability(table, 0.1)
    assert np.allclose(estimate[prompts], sample_kl(groups, 0.1), rtol=1e-5)
    assert np.isnan(np.delete(estimate, prompts)).all()
    summary = LearnabilitySummary.of(table, 0.1)
    assert (summary.beta, summary.seen, summary.flat) == (0.1, 0.4, 0.5)
    assert summary.mean_kl == pytest.approx(reverse_kl([0.25, 0.75], 0.1).sum() / 4, rel=1e-5)
    # 1/4 and 3/4 begin bins 5 and 15, 0 is in the first, 1 in the last
    assert np.flatnonzero(summary.counts).tolist() == [0, 5, 15, 19]


def test_learnability_on_another_range_of_rewards():
    groups = np.array([[1, 0, 0, 0], [1, 1, 1, 0]])
    table, prompts = observed(4 * groups - 1, 2, reward_range=(-1, 3))
    assert np.allclose(learnability(table, 2.0)[prompts], reverse_kl([0.25, 0.75], 0.5), rtol=1e-5)


def test_learnability_of_rewards_in_between():
    # 0.25 and 0.75: the rate is 1/2, and the variance 1/16 a quarter of p(1-p)
    groups = np.array([[0.25, 0.75], [0.4, 0.4], [2, 3]])
    table, prompts = observed(groups, 3)
    estimate = learnability(table, 1.0)[prompts]
    assert estimate[0] == pytest.approx(reverse_kl(0.5, 1) / 4)
    assert estimate[1] == 0
    assert np.allclose(learnability(table, 1e3)[prompts[0]], sample_kl(groups[:1], 1e3), rtol=1e-6)
    assert LearnabilitySummary.of(table, 1.0).counts[[8, 10, 19]].tolist() == [1, 1, 1]


def test_success_rates_at_the_ends_of_bins():
    groups = np.tri(21, 20, -1)
    counts = LearnabilitySummary.of(observed(groups, 21)[0], 1).counts
    assert counts.tolist() == [1] * 19 + [2]


def test_a_data_set_that_nobody_has_seen():
    summary = LearnabilitySummary.of(PromptTable(5), 0.1)
    assert summary.seen == 0
    assert np.isnan([summary.flat, summary.mean_kl]).all()
    assert summary.counts.tolist() == [0] * 20


# ---- refused


@pytest.mark.parametrize("beta", [0, -1, np.nan, np.inf, 1e-13, [1.0, 0.0]])
def test_a_wrong_beta(beta):
    message = "beta lies between 1e-12 and 1e.12, not .*: give it in units of the reward"
    for call in (
        lambda: reverse_kl(0.5, beta),
        lambda: variance_approximation(0.25, beta),
        lambda: variance_bounds(0.5, beta),
        lambda: crossing(beta),
        lambda: most_learnable(beta),
        lambda: finite_kl([0, 1], [0.5, 0.5], beta),
        lambda: cumulant_expansion([0, 1], [0.5, 0.5], beta),
        lambda: sample_kl(np.eye(2), beta),
    ):
        with pytest.raises(ConfigError, match=message):
            call()


def test_a_wrong_beta_for_a_table():
    with pytest.raises(ConfigError, match="beta lies between"):
        LearnabilitySummary.of(PromptTable(2), 0)


@pytest.mark.parametrize("rate", [-0.1, 1.1, np.nan])
def test_a_wrong_pass_rate(rate):
    with pytest.raises(
        ConfigError, match=r"a pass rate lies between 0 and 1, not .*: leave out prompts not seen"
    ):
        reverse_kl([0.5, rate], 1)


@pytest.mark.parametrize("variance", [-1, np.nan, np.inf])
def test_a_wrong_variance(variance):
    with pytest.raises(ConfigError, match=r"a variance lies between 0 and 1e\+250"):
        gaussian_kl(variance, 1)


def test_a_wrong_distribution():
    for wrong in ([0.5, 0.4], [1.5, -0.5], [np.nan, 0.5], [50, 50]):
        with pytest.raises(ConfigError, match="probabilities are at least 0 and sum to 1"):
            finite_kl([0, 1], wrong, 1)
    with pytest.raises(ConfigError, match="probabilities are at least 0 and sum to 1"):
        finite_kl([], [], 1)
    with pytest.raises(ConfigError, match="rewards are finite"):
        finite_kl([0, np.inf], [0.5, 0.5], 1)
    with pytest.raises(ConfigError, match=r"order is 2 \(the variance\), 3 or 4, not 5"):
        cumulant_expansion([0, 1], [0.5, 0.5], 1, order=5)


def test_wrong_groups():
    with pytest.raises(ConfigError, match=r"rewards have shape \(3,\) and scored \(3,\): both are \(P, G\)"):
        sample_variance([0, 1, 1])
    with pytest.raises(ConfigError, match=r"rewards have shape \(2, 2\) and scored \(2,\)"):
        sample_kl(np.eye(2), 1, [True, False])
    with pytest.raises(ConfigError, match="a scored reward is not finite"):
        sample_kl([[0, np.nan]], 1)


def test_importing_curro_leaves_the_theory_alone():
    program = "import curro, sys; assert 'curro.theory' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
