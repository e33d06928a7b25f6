"""The fading posterior and the predictor made of it: Beta for 0/1 rewards, what is learnt, any rewards."""

import numpy as np
import pytest

from curro import Curriculum
from curro.methods.prediction.posterior import HALF_LIVES, WIDE
from curro.methods.selection.predicted import Predicted
from curro.methods.selection.prioritized_replay import FadedReplay


def curriculum_of(size, **options):
    curriculum = Curriculum(FadedReplay(), size, **options)
    return curriculum, curriculum.selection.posterior


def visit(curriculum, prompt, step, rewards):
    """Let one prompt have these rewards at this step, whatever the selection would choose."""
    draw = curriculum.select(curriculum.table.size, step=step)
    ticket = draw.tickets[draw.prompts == prompt]
    curriculum.drop(draw.tickets[draw.prompts != prompt])
    curriculum.observe(ticket, [rewards])
    curriculum.selection.posterior.learn()


def binary(successes, of=8):
    return np.arange(of) < successes


def beta_informativeness(a, b):
    return a * b / ((a + b) * (a + b + 1))


def test_a_prompt_that_nothing_is_known_of_is_uniform_on_0_to_1():
    _, posterior = curriculum_of(3)
    # Beta(1, 1): mean 1/2, concentration 2, E[p(1-p)] = 1/6
    # and nothing of its evidence is left
    np.testing.assert_allclose(posterior.combine(np.array([0]), 4)[:, 0], [2, 1 / 2, 1 / 4, 0], rtol=1e-12)
    assert posterior.expected(np.array([0]), 0)[0] == pytest.approx(1 / 6, rel=1e-12)


def test_prior_and_posterior_after_one_group():
    curriculum, posterior = curriculum_of(2)
    visit(curriculum, 0, 3, binary(6))
    # Moments of the pseudo-visit (mean 1/2, square 1/2, within 1/6) and of 6/8 (mean 3/4, square
    # 3/16 + 9/16 = 3/4, within 3/16 * 8/7 = 3/14), averaged: 5/8, 5/8, 4/21.
    # Total 5/8 - 25/64 = 15/64, between 15/64 - 4/21 = 59/1344, k = 4/21 * 1344/59 = 256/59.
    np.testing.assert_allclose(posterior.prior, [5 / 8, 15 / 64, 256 / 59], rtol=1e-12)
    # Beta(256/59 * 5/8 + 6, 256/59 * 3/8 + 2) = Beta(514/59, 214/59)
    now = posterior.combine(np.array([0]), 3)
    np.testing.assert_allclose(np.ravel(now[:2]), [728 / 59, 514 / 728], rtol=1e-7)
    assert now[2][0] == pytest.approx(514 / 728 * 214 / 728, rel=1e-7)
    np.testing.assert_allclose(np.ravel(posterior.belief(np.array([0]), 3)), [514 / 59, 214 / 59], rtol=1e-7)
    expected = posterior.expected(np.array([0, 1]), 3)
    np.testing.assert_array_equal(posterior.combine(np.array([0, 1]), 3)[3], [1, 0])
    assert expected[0] == pytest.approx(beta_informativeness(514 / 59, 214 / 59), rel=1e-7)
    # the other prompt has the prior: Beta(160/59, 96/59)
    assert expected[1] == pytest.approx(beta_informativeness(160 / 59, 96 / 59), rel=1e-7)


def test_evidence_halves_every_half_life():
    curriculum, posterior = curriculum_of(2)
    visit(curriculum, 0, 3, binary(6))
    assert posterior.half_life == 64, "before any repeated visit"
    # 8 outcomes count as 4 after 64 steps, as 2 after 128: Beta(160/59 + 3, 96/59 + 1), ... + 1.5, + 0.5
    for step, (right, wrong) in ((67, (3, 1)), (131, (1.5, 0.5))):
        expected = beta_informativeness(160 / 59 + right, 96 / 59 + wrong)
        assert posterior.expected(np.array([0]), step)[0] == pytest.approx(expected, rel=1e-7)
        assert posterior.combine(np.array([0]), step)[3][0] == (right + wrong) / 8


def test_a_repeated_visit_counts_for_the_prior_as_far_as_the_prior_predicted_it():
    curriculum, posterior = curriculum_of(1)
    visit(curriculum, 0, 0, binary(6))
    visit(curriculum, 0, 0, binary(2))
    # weight (256/59) / (256/59 + 8) = 32/91; its share 32/91 / (2 + 32/91) = 16/107
    assert posterior.prior[0] == pytest.approx(5 / 8 + 16 / 107 * (1 / 4 - 5 / 8), rel=1e-12)
    # and in the evidence both groups count: 8 of 16 (nothing fades within a step)
    assert posterior.table["evidence_count"][0] == 16
    assert posterior.table["evidence_mean"][0] == 0.5
    # 3/16 within both groups, (1/4)^2 between their means
    assert posterior.table["evidence_variance"][0] == 0.25


def test_a_group_of_one_says_nothing_of_the_prior():
    curriculum, posterior = curriculum_of(2)
    before = posterior.prior
    visit(curriculum, 0, 0, [1.0])
    assert posterior.prior == before
    assert posterior.table["evidence_count"][0] == 1


def test_likelihood_of_the_half_lives():
    curriculum, posterior = curriculum_of(1)
    visit(curriculum, 0, 0, binary(6))
    visit(curriculum, 0, 16, binary(2))
    for half_life, loss in zip(HALF_LIVES, posterior.losses, strict=True):
        # a beta-binomial of 8 outcomes over Beta(a, b), as a normal density of their mean at 1/4
        faded = 8 * 0.5 ** (16 / half_life)
        a, b = 160 / 59 + 0.75 * faded, 96 / 59 + 0.25 * faded
        mean, count = a / (a + b), a + b
        spread = mean * (1 - mean) / 8 * (count + 8) / (count + 1) + 1e-4
        assert loss == pytest.approx((np.log(spread) + (1 / 4 - mean) ** 2 / spread) / 2, rel=1e-6)
    assert posterior.half_life == 2, "6 of 8 was no use: the sooner forgotten the better"
    # 16 steps are 8 half-lives: 8/256 = 1/32 outcomes of mean 3/4 are left beside 8 of mean 1/4
    assert posterior.table["evidence_count"][0] == 8 + 1 / 32
    assert posterior.table["evidence_mean"][0] == pytest.approx((2 + 0.75 / 32) / (8 + 1 / 32), rel=1e-6)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("redrawn_every", "fine"), [(10**6, lambda h: h >= 128), (8, lambda h: h <= 8)])
def test_the_half_life_follows_how_long_rates_stay(seed, redrawn_every, fine):
    curriculum, posterior = curriculum_of(40, seed=seed)
    for step in range(250):
        draw = curriculum.select(8, step=step)
        rates = np.random.default_rng([seed, step // redrawn_every]).beta(0.5, 0.5, 40)[draw.prompts]
        rolls = np.random.default_rng([seed, step, 1]).random((8, 8))
        curriculum.observe(draw.tickets, rolls < rates[:, None])
    assert fine(posterior.half_life)


def test_rewards_beyond_the_range_widen_it_and_nothing_becomes_nan():
    curriculum, posterior = curriculum_of(6, reward_range=(0, 1))
    rng = np.random.default_rng(0)
    for step in range(40):
        draw = curriculum.select(3, step=step)
        curriculum.observe(
            draw.tickets, rng.choice([-5.0, 0.3, 0.7, 20.0] if step > 9 else [0.0, 1.0], (3, 4))
        )
    posterior.learn()
    assert (posterior.low, posterior.high) == (-5, 20)
    everything = np.arange(6)
    for step in (40, 10_000, 10**9):
        values = [*posterior.combine(everything, step)]
        values += [*posterior.draw(everything, step), posterior.expected(everything, step)]
        assert np.isfinite(values).all()
        assert (np.array(values[3:]) >= 0).all()
        assert (values[3] <= 1).all()


def predictor_after(rewards, *, at=0, size=2, reward_range=(0.0, 1.0), **options):
    """The predictor of two prompts whose first had these rewards at step `at`."""
    selection = Predicted(predictor={"name": "beta", **options})
    curriculum = Curriculum(selection, size, reward_range=reward_range)
    draw = curriculum.select(size, step=at)
    curriculum.observe(draw.tickets[draw.prompts == 0], [rewards])
    curriculum.drop(draw.tickets[draw.prompts != 0])
    return selection.predictor


def test_draws_have_the_moments_of_the_posterior():
    predictor = predictor_after([1, 1, 1, 0, 1, 1, 0, 1])
    a, b = 514 / 59, 214 / 59
    prompts = np.zeros(20_000, np.int64)
    rates = predictor.success_rate(prompts, 0)
    assert rates.mean() == pytest.approx(a / (a + b), abs=0.003)
    assert rates.var() == pytest.approx(a * b / ((a + b) ** 2 * (a + b + 1)), rel=0.05)
    drawn = predictor.informativeness(prompts, 0)
    assert drawn.mean() == pytest.approx(a * b / ((a + b) * (a + b + 1)), abs=0.002)
    assert drawn.max() <= 0.25


def test_other_rewards_are_fractions_of_a_success():
    # 1 and 3 on a scale from 0 to 4 are a quarter and three quarters: mean 1/2, variance 1/16
    predictor = predictor_after([1, 3], reward_range=(0, 4), thompson=False)
    same = predictor_after([0.25, 0.75], thompson=False)
    prompts = np.array([0, 1])
    for one in (predictor, same):
        # The pseudo-visit (mean 1/2, square 1/2, within 1/6) and this one (1/2, 5/16, 1/8), averaged: 1/2,
        # 13/32, 7/48. Total 13/32 - 1/4 = 5/32, between 5/32 - 7/48 = 1/96, k = 14. With both rewards K = 16,
        # T = (14 5/32 + 2/16) / 16 = 37/256, and T K / (K + 1) = 37/272; the other prompt has 5/32 14/15.
        expected = [37 / 272, 7 / 48]
        np.testing.assert_allclose(one.informativeness(prompts, 0), expected, rtol=1e-7)
        np.testing.assert_allclose(one.success_rate(prompts, 0), 0.5, rtol=1e-7)


def test_after_its_window_the_prior_forgets():
    """A visit more than the window of 512 holds counts as one in 512: 0 + (1 - 0) / 512."""
    _, posterior = curriculum_of(1)
    posterior.prior_visits, posterior.prior_mean, posterior.prior_square = 512.0, 0.0, 0.0
    posterior._learn_prior(*(np.array([value]) for value in (0.0, 2.0, 1.0, 0.0)))
    assert (posterior.prior_visits, posterior.prior_mean, posterior.prior_square) == (513, 1 / 512, 1 / 512)


def test_a_draw_is_scaled_by_how_much_of_its_range_the_rewards_vary():
    """Rewards of 0.4 and 0.6 have the rate 1/2 and the variance 0.01, and not the 0.25 of 0 and 1."""
    _, posterior = curriculum_of(1)
    posterior.count[0], posterior.mean[0], posterior.variance[0] = 1e9, 0.5, 0.01
    drawn, _ = posterior.draw(np.array([0]), 0)
    assert drawn[0] == pytest.approx(0.01, rel=1e-3)


def test_the_concentration_of_prompts_that_are_nearly_alike():
    """Of a variance of 1, prompts differ by 1 / (WIDE + 1/2): the concentration is WIDE - 1/2."""
    _, posterior = curriculum_of(1)
    posterior.prior_mean, posterior.prior_square = 0.0, 1.0
    posterior.prior_within = 1 - 1 / (WIDE + 0.5)
    assert posterior.prior[2] == pytest.approx(WIDE - 0.5, rel=1e-9)


@pytest.mark.parametrize("ends", [(1e15, 1e15 + 1), (1e15, 1e15 + 0.125), (-1e15 - 0.125, -1e15)])
def test_a_run_of_the_largest_rewards_goes_on(ends):
    def begun():
        return Curriculum("posterior", 4, reward_range=ends)

    curriculum, twin = begun(), begun()
    with pytest.warns(RuntimeWarning, match="the reward range is"):
        curriculum.observe(curriculum.select(2, step=0).tickets, [[1e14, -1e14]] * 2)
    curriculum.select(2, step=1)
    twin.load_state_dict(curriculum.state_dict())
    assert twin.select(2, step=2).prompts.tolist() == curriculum.select(2, step=2).prompts.tolist()
