"""Logistic regression: Newton steps and penalties worked out by hand, what it finds, what it ignores."""

import numpy as np
import pytest

from curro.prediction.text_regression import LogisticRegression


def logistic(x):
    return 1 / (1 + np.exp(-x))


def test_the_first_fit_by_hand():
    model = LogisticRegression([1])
    # success rates 1/4 at x = 0 and 3/4 at x = 2, of 2 trials each: centred, x is -1 and 1
    model.fit(np.array([[0.0], [2.0]]), np.array([0.25, 0.75]), np.array([2.0, 2.0]))
    # From w = 0: gradient 2 1/4 + 2 1/4 = 1, Hessian 2 1/4 + 2 1/4 + 1 = 2: w = 1/2. Then again.
    p = logistic(0.5)
    hessian = 4 * p * (1 - p) + 1
    w = 0.5 + (4 * (0.75 - p) - 0.5) / hessian
    assert model.weight_D[0] == pytest.approx(w, rel=1e-9)
    assert model.bias == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(model.predict(np.array([[0.0], [1.0]])), [logistic(-w), 0.5])
    # MacKay: (1 - penalty / Hessian) / w^2, the penalty was 1
    assert model.penalty_B[0] == pytest.approx((1 - 1 / hessian) / w**2, rel=1e-9)


def test_without_features_it_is_the_mean():
    model = LogisticRegression([3])
    for _ in range(4):
        model.fit(np.ones((2, 3)), np.array([0.25, 0.75]), np.array([1.0, 3.0]))
    assert model.predict(np.zeros((1, 3)))[0] == pytest.approx(0.625)


def test_it_finds_what_matters_and_shrinks_what_does_not():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 40))
    truth = np.concatenate([rng.normal(size=20), np.zeros(20)])
    rates = rng.binomial(8, logistic(x @ truth - 1)) / 8
    model = LogisticRegression([20, 20])
    for _ in range(15):
        model.fit(x, rates, np.full(500, 8.0))
    new = rng.normal(size=(500, 40))
    assert np.abs(model.predict(new) - logistic(new @ truth - 1)).mean() < 0.04
    assert model.penalty_B[0] == pytest.approx(1 / np.square(truth[:20]).mean(), rel=0.3)
    assert model.penalty_B[1] > 20 * model.penalty_B[0]


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_rates_that_are_all_0_or_all_1_stay_finite(rate):
    model = LogisticRegression([2])
    x = np.random.default_rng(1).normal(size=(50, 2))
    for _ in range(30):
        model.fit(x, np.full(50, rate), np.full(50, 8.0))
    assert np.isfinite(model.weight_D).all()
    np.testing.assert_allclose(model.predict(x), rate, atol=0.02)


def test_weights_of_features_that_are_constant_now_are_0():
    model = LogisticRegression([2])
    model.fit(np.array([[0.0, 1], [1, 0]]), np.array([0.0, 1.0]), np.ones(2))
    model.fit(np.array([[0.0, 1], [1, 1]]), np.array([0.0, 1.0]), np.ones(2))
    assert model.weight_D[0] > 0
    assert model.weight_D[1] == 0


def test_state():
    model, same = LogisticRegression([2]), LogisticRegression([2])
    model.fit(np.array([[0.0, 1], [1, 0]]), np.array([0.0, 1.0]), np.ones(2))
    same.load_state_dict(model.state_dict())
    np.testing.assert_equal(same.state_dict(), model.state_dict())
