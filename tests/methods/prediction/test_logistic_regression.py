"""Logistic regression: Newton steps worked out by hand, what it finds, and what it knows nothing of."""

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
    model = LogisticRegression(np.zeros(1))
    # success rates 0.05 at x = 0 and 0.95 at x = 2, of 2 trials each: centred, x is -1 and 1
    points = np.array([[0.0], [2.0]]), np.array([0.05, 0.95]), np.array([2.0, 2.0])
    fit(model, *points)
    # From w = 0: gradient 2 0.45 + 2 0.45 = 1.8, Hessian 2 1/4 + 2 1/4 + 1 = 2: w = 0.9
    assert model.weight_D[0] == pytest.approx(0.9, rel=1e-9)
    assert model.bias == pytest.approx(0, abs=1e-12)
    # the weight's variance is 1/2: z = -0.9 is moderated by 1 + pi/16
    expected = [logistic(-0.9 / np.sqrt(1 + np.pi / 16)), 0.5]
    np.testing.assert_allclose(predicted(model, [[0.0], [1.0]]), expected)
    fit(model, *points)
    p = logistic(0.9)
    w = 0.9 + (4 * (0.95 - p) - 0.9) / (4 * p * (1 - p) + 1)
    assert model.weight_D[0] == pytest.approx(w, rel=1e-9)


def test_what_was_never_seen_is_predicted_near_a_half():
    model, seen = LogisticRegression(np.zeros(2)), np.array([[1.0, 0.0], [0.0, 0.0]])
    for _ in range(9):
        fit(model, seen, np.array([0.0, 0.02]), np.full(2, 200.0))
    known, unlike = predicted(model, [[1.0, 0.0], [1.0, 9.0]])
    assert known < 0.01 < 10 * known < unlike < 0.5


def test_without_features_it_is_the_mean():
    model = LogisticRegression(np.zeros(3))
    for _ in range(4):
        fit(model, np.ones((2, 3)), np.array([0.25, 0.75]), np.array([1.0, 3.0]))
    assert predicted(model, np.ones((1, 3)))[0] == pytest.approx(0.625)


def test_it_finds_what_matters_and_what_does_not():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 40))
    truth = np.concatenate([rng.normal(size=20), np.zeros(20)])
    rates = rng.binomial(8, logistic(x @ truth - 1)) / 8
    model = LogisticRegression(np.zeros(40))
    for _ in range(15):
        fit(model, x, rates, np.full(500, 8.0))
    new = rng.normal(size=(500, 40))
    assert np.abs(predicted(model, new) - logistic(new @ truth - 1)).mean() < 0.04
    np.testing.assert_allclose(model.weight_D, truth, atol=0.3)


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_rates_that_are_all_0_or_all_1_stay_finite(rate):
    model = LogisticRegression(np.zeros(2))
    x = np.random.default_rng(1).normal(size=(50, 2))
    for _ in range(30):
        fit(model, x, np.full(50, rate), np.full(50, 8.0))
    assert np.isfinite(model.weight_D).all()
    np.testing.assert_allclose(predicted(model, x), rate, atol=0.02)


def test_weights_of_features_that_are_constant_now_are_0():
    model = LogisticRegression(np.zeros(2))
    fit(model, np.array([[0.0, 1], [1, 0]]), np.array([0.0, 1.0]), np.ones(2))
    fit(model, np.array([[0.0, 1], [1, 1]]), np.array([0.0, 1.0]), np.ones(2))
    assert model.weight_D[0] > 0
    assert model.weight_D[1] == 0


def test_a_step_with_enough_rounds_is_newtons(monkeypatch):
    monkeypatch.setattr("curro.methods.prediction.logistic_regression.ROUNDS", 8)
    rng = np.random.default_rng(2)
    x, rates, trials = rng.normal(size=(12, 4)), rng.random(12), rng.uniform(0, 8, 12)
    model = LogisticRegression(np.zeros(4))
    fit(model, x, rates, trials)
    centred = np.concatenate([np.ones((12, 1)), x - trials @ x / trials.sum()], axis=1)
    hessian = centred.T @ (centred * (trials / 4)[:, None]) + np.diag([1e-6, 1, 1, 1, 1])
    w = np.linalg.solve(hessian, centred.T @ (trials * (rates - 0.5)))
    w *= min(1, 4 / np.abs(centred @ w).max())
    np.testing.assert_allclose([model.bias, *model.weight_D], w, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(model.variance_D, 1 / np.diag(hessian)[1:])
