"""What was predicted beside what came of it, with numbers worked out by hand."""

import numpy as np
import pytest

from curro.core.bases import Reason
from curro.runs.folder import RunFolder
from curro.runs.reader import read_history
from curro.runs.report.figures import calibration
from curro.runs.report.prediction import calibration_bins, predictions_of


def history_of(folder, rows, *, reward_range=(0, 1), **metrics):
    run = RunFolder.create(folder, {"curriculum": {"selection": "mine", "reward_range": reward_range}})
    run.append_metrics({"step": 1, "rollouts": 8, "seconds": 1, **metrics})
    defaults = {"step": 1, "key": "k", "reason": Reason.PRIORITY, "admitted": True}
    run.append_groups(defaults | {"prompt": i} | row for i, row in enumerate(rows))
    return read_history(run)


def many(n=128, name="predicted_variance", **more):
    """n groups, the variance of each as predicted."""
    rates = np.linspace(0.1, 0.4, n)
    return [
        {"mean": p, "variance": p * (1 - p), name: p * (1 - p), "step": i // 4, **more}
        for i, p in enumerate(rates)
    ]


def test_realised_variances_are_in_squared_reward_ranges(tmp_path):
    rows = [
        {"mean": 0, "variance": 4, "predicted_variance": 0.25},
        {"mean": 2, "variance": 0, "predicted_variance": None},
        {"mean": 1, "variance": 3, "predicted_variance": 0.1, "reason": Reason.EXPLORATION},
    ]
    found = predictions_of(history_of(tmp_path / "run", rows, reward_range=(-2, 2)))
    assert found.quantity == "reward variance"
    np.testing.assert_allclose(found.predicted, [0.25, 0.1])
    np.testing.assert_allclose(found.realised, [4 / 16, 3 / 16])
    assert found.explored.tolist() == [False, True]


def test_realised_rates_are_on_the_scale_of_the_reward_range(tmp_path):
    rows = [{"mean": 1, "variance": 3, "predicted_rate": 0.6}]
    found = predictions_of(history_of(tmp_path / "run", rows, reward_range=(-2, 2)))
    assert found.quantity == "success rate"
    assert found.realised.tolist() == [0.75]


def test_bins_by_hand():
    # quartile edges 1, 2, 3: bins {0.5, 1}, {2, 2}, {3}, {4}
    predicted = np.array([2, 0.5, 4, 3, 1, 2.0])
    mean, realised, error = calibration_bins(predicted, np.array([1, 0, 0.5, 0, 1, 0.0]), bins=4)
    np.testing.assert_allclose(mean, [0.75, 2, 3, 4])
    np.testing.assert_allclose(realised, [0.5, 0.5, 0, 0.5])
    # of 0 and 1: deviation sqrt(1/2) with n - 1, over sqrt(2); one group says nothing of its error
    np.testing.assert_allclose(error, [0.5, 0.5, 0, 0])


def test_equal_predictions_are_one_bin():
    mean, realised, error = calibration_bins(np.full(8, 0.25), np.arange(8.0))
    assert (mean.tolist(), realised.tolist()) == ([0.25], [3.5])
    assert error[0] == pytest.approx(np.arange(8).std(ddof=1) / 8**0.5)


@pytest.mark.parametrize(
    "rows",
    [many(63), many(name="other"), [row | {"predicted_variance": None} for row in many()], []],
    ids=["few", "no predictions", "none made", "no groups"],
)
def test_nothing_to_show(tmp_path, rows):
    assert calibration(history_of(tmp_path / "run", rows)) is None


def test_calibration_names_what_was_predicted_and_counts_judgments(tmp_path):
    judged = {"judge/judgments": 320.0, "judge/failures": 20.0}
    picture = calibration(history_of(tmp_path / "rate", many(name="predicted_rate"), **judged))
    assert picture.title == "Predicted and realised success rate"
    assert "Of 320 judgments, 20 could not be read." in picture.caption
