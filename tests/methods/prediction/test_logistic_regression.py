"""Logistic regression: Newton steps and penalties worked out by hand, what it finds, what it ignores."""

import numpy as np
import pytest

from curro.methods.prediction.logistic_regression import LogisticRegression


def logistic(x):
    return 1 / (1 + np.exp(-x))


def fit(model, x, rates, trials):
    model.fit(np.asarray(x), rates, trials)


def predicted(model, x):
    return model.predict(np.asarray(x))


def test_the_first_fits_by_hand():
    model = LogisticRegression([1])
    # success rates 1/4 at x = 0 and 3/4 at x = 2, of 2 trials each: centred, x is -1 and 1
    points = np.array([[0.0], [2.0]]), np.array([0.25, 0.75]), np.array([2.0, 2.0])
    fit(model, *points)
    # From w = 0: gradient 2 1/4 + 2 1/4 = 1, Hessian 2 1/4 + 2 1/4 + 1 = 2: w = 1/2
    assert model.weight_D[0] == pytest.approx(0.5, rel=1e-9)
    assert model.bias == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(predicted(model, [[0.0], [1.0]]), [logistic(-0.5), 0.5])
    # MacKay: (1 - penalty / Hessian) / w^2, the penalty was 1
    assert model.penalty_B[0] == pytest.approx((1 - 1 / 2) / 0.25, rel=1e-9)
    fit(model, *points)
    p = logistic(0.5)
    w = 0.5 + (4 * (0.75 - p) - 2 * 0.5) / (4 * p * (1 - p) + 2)
    assert model.weight_D[0] == pytest.approx(w, rel=1e-9)


def test_without_features_it_is_the_mean():
    model = LogisticRegression([3])
    for _ in range(4):
        fit(model, np.ones((2, 3)), np.array([0.25, 0.75]), np.array([1.0, 3.0]))
    assert predicted(model, np.zeros((1, 3)))[0] == pytest.approx(0.625)


def test_it_finds_what_matters_and_shrinks_what_does_not():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 40))
    truth = np.concatenate([rng.normal(size=20), np.zeros(20)])
    rates = rng.binomial(8, logistic(x @ truth - 1)) / 8
    model = LogisticRegression([20, 20])
    for _ in range(15):
        fit(model, x, rates, np.full(500, 8.0))
    new = rng.normal(size=(500, 40))
    assert np.abs(predicted(model, new) - logistic(new @ truth - 1)).mean() < 0.04
    assert model.penalty_B[0] == pytest.approx(1 / np.square(truth[:20]).mean(), rel=0.3)
    assert model.penalty_B[1] > 20 * model.penalty_B[0]


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_rates_that_are_all_0_or_all_1_stay_finite(rate):
    model = LogisticRegression([2])
    x = np.random.default_rng(1).normal(size=(50, 2))
    for _ in range(30):
        fit(model, x, np.full(50, rate), np.full(50, 8.0))
    assert np.isfinite(model.weight_D).all()
    np.testing.assert_allclose(predicted(model, x), rate, atol=0.02)


def test_weights_of_features_that_are_constant_now_are_0():
    model = LogisticRegression([2])
    fit(model, np.array([[0.0, 1], [1, 0]]), np.array([0.0, 1.0]), np.ones(2))
    fit(model, np.array([[0.0, 1], [1, 1]]), np.array([0.0, 1.0]), np.ones(2))
    assert model.weight_D[0] > 0
    assert model.weight_D[1] == 0


def test_a_step_with_enough_rounds_is_newtons(monkeypatch):
    monkeypatch.setattr("curro.methods.prediction.logistic_regression.ROUNDS", 8)
    rng = np.random.default_rng(2)
    x, rates, trials = rng.normal(size=(12, 4)), rng.random(12), rng.uniform(0, 8, 12)
    model = LogisticRegression([3, 1])
    fit(model, x, rates, trials)
    centred = np.concatenate([np.ones((12, 1)), x - trials @ x / trials.sum()], axis=1)
    penalty, p = np.array([1e-6, 1, 1, 1, 1]), 0.5
    hessian = centred.T @ (centred * (trials * p * (1 - p))[:, None]) + np.diag(penalty)
    w = np.linalg.solve(hessian, centred.T @ (trials * (rates - p)))
    w *= min(1, 4 / np.abs(centred @ w).max())
    np.testing.assert_allclose([model.bias, *model.weight_D], w, rtol=1e-6, atol=1e-9)
    known = 3 - (1 / np.diag(hessian)[1:4]).sum()
    assert model.penalty_B[0] == pytest.approx(known / np.square(w[1:4]).sum(), rel=1e-6)
