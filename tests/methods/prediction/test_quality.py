"""Pairs of predicted and realised values, the line between them, and the latest rows of features."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curro.methods.prediction.frontier import LatestRows
from curro.methods.prediction.quality import (
    CALIBRATION_PRIOR,
    CALIBRATION_WINDOW,
    LEAST_SLOPE,
    Calibration,
    PredictionQuality,
)


def test_a_prediction_that_is_no_finite_number_is_passed_over():
    """A predictor that puts unseen prompts first by an infinite value made a state that was refused."""
    quality, resumed = PredictionQuality(), PredictionQuality()
    predicted = np.array([np.inf, 0.25, np.nan, 0.0, -np.inf])
    quality.observe(np.arange(5), predicted, np.array([0.25, 0.0, 0.25, 0.25, 0.0]))
    resumed.load_state_dict(quality.state_dict())
    resumed.learn()
    assert resumed.pairs.tolist() == [[0.25, 0.0], [0.0, 0.25]]
    metrics = resumed.metrics()
    assert metrics["prediction/mean_error"] == 0  # of 1/4 and -1/4
    assert metrics["prediction/mean_absolute_error"] == 0.25
    assert metrics["prediction/rank_correlation"] == pytest.approx(-1)


def test_at_first_predictions_stand():
    found = Calibration()
    assert found.line == pytest.approx((0, 1))
    np.testing.assert_allclose(found(np.array([0.1, 0.2])), [0.1, 0.2])


def test_one_batch_by_hand():
    found = Calibration()
    found.learn(np.array([0.0, 0.25]), np.array([0.05, 0.1]))
    kept = CALIBRATION_PRIOR * (1 - 1 / CALIBRATION_WINDOW) ** 2 / 2  # groups left at each end
    low, high = 0.05 / (kept + 1), (0.25 * kept + 0.1) / (kept + 1)  # the line goes through both means
    assert found.line == pytest.approx((low, (high - low) / 0.25))


def test_it_finds_the_winners_curse():
    rng, found = np.random.default_rng(0), Calibration()
    for _ in range(100):
        predicted = rng.uniform(0, 0.25, 32)
        found.learn(predicted, 0.03 + 0.6 * predicted + rng.normal(0, 0.02, 32))
    assert found.line == pytest.approx((0.03, 0.6), abs=0.03)


@given(st.lists(st.tuples(st.floats(0, 0.25), st.floats(0, 0.25)), min_size=1, max_size=50))
def test_it_always_rises_and_never_goes_below_0(pairs):
    found = Calibration()
    for _ in range(20):
        found.learn(*np.array(pairs).T)
    start, slope = found.line
    assert start >= -1e-9
    assert slope > 0


def test_where_higher_predictions_turned_out_lower_the_higher_one_is_still_the_first_choice():
    found = Calibration()
    for _ in range(100):
        found.learn(np.array([0.05, 0.25]), np.array([0.2, 0.0]))
    assert found.line[1] == LEAST_SLOPE
    assert np.diff(found(np.array([0.1, 0.1 + 1e-9])))[0] > 0


def test_state():
    found, same = Calibration(), Calibration()
    found.learn(np.array([0.1]), np.array([0.2]))
    same.load_state_dict(found.state_dict())
    assert same.line == found.line


def test_the_latest_three_by_hand():
    latest = LatestRows(3, 2)
    latest.add(np.array([[1.0, 2], [3, 4]]))
    assert latest.rows.tolist() == [[1, 2], [3, 4]]
    latest.add(np.array([[5.0, 6], [7, 8]]))
    assert latest.rows.tolist() == [[3, 4], [5, 6], [7, 8]]


@given(most=st.integers(1, 5), sizes=st.lists(st.integers(0, 8), max_size=12))
def test_they_are_the_end_of_all_that_was_added(most, sizes):
    latest, everything = LatestRows(most, 2), np.arange(2.0 * sum(sizes)).reshape(-1, 2)
    done = 0
    for size in sizes:
        latest.add(everything[done : done + size])
        done += size
        np.testing.assert_array_equal(latest.rows, everything[:done][-most:])
