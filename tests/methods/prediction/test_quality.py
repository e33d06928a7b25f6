"""Pairs of predicted and realised values."""

import numpy as np
import pytest

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
