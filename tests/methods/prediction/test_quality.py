"""Pairs of predicted and realised values, and the latest rows of features."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curro.methods.prediction.frontier import LatestRows
from curro.methods.prediction.quality import PredictionQuality


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
