"""Calibration and rank correlation in the report, with numbers worked out by hand."""

import numpy as np
import pytest

from curro.core.selection import Reason
from curro.runs.folder import RunFolder
from curro.runs.reader import read_history
from curro.runs.report.prediction import (
    calibration,
    calibration_bins,
    over_training,
    predictions_of,
    rank_correlations,
)


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


def test_correlation_in_windows_of_what_was_chosen_how(tmp_path):
    rising, falling = np.arange(64) / 100, np.arange(64)[::-1] / 100
    rows = [
        {"mean": 0.5, "variance": v, "predicted_variance": p, "step": step, "reason": reason}
        for step, p_K, v_K in ((3, rising, rising), (5, rising, falling))
        for p, v in zip(p_K, v_K, strict=True)
        for reason in (Reason.PRIORITY,)
    ]
    rows += [
        {"mean": 0.5, "variance": v, "predicted_variance": v, "step": 7, "reason": Reason.EXPLORATION}
        for v in rising
    ]
    history = history_of(tmp_path / "run", rows, **{"prediction/spread_kept": 0.2})
    found = predictions_of(history)
    step, rho = over_training(found, ~found.explored)
    np.testing.assert_allclose(step, [3, 5])
    np.testing.assert_allclose(rho, [1, -1])
    chart = rank_correlations(history)
    assert [one.name for one in chart.series if one.name] == ["chosen by prediction", "chosen at random"]
    assert "spread 20% as wide as the candidates'" in chart.caption
    assert "Those chosen at random show the predictor as it is" in chart.caption


def test_a_window_in_which_nothing_differs_is_left_out(tmp_path):
    rows = many(64) + [{"mean": 0, "variance": 0, "predicted_variance": 0.1, "step": 99}] * 64
    found = predictions_of(history_of(tmp_path / "run", rows))
    assert over_training(found, ~found.explored)[0].tolist() == [7.5]


def test_without_exploration_the_caption_says_what_is_missing(tmp_path):
    chart = rank_correlations(history_of(tmp_path / "run", many()))
    assert [one.name for one in chart.series if one.name] == ["chosen by prediction"]
    assert chart.caption.endswith("A share of exploration would show the predictor as it is.")


def test_calibration_names_what_was_predicted(tmp_path):
    chart = calibration(history_of(tmp_path / "variance", many()))
    assert chart.x_label == "predicted reward variance"
    assert "(n-1)/n p(1-p)" in chart.caption
    chart = calibration(history_of(tmp_path / "rate", many(name="predicted_rate")))
    assert chart.x_label == "predicted success rate"
    assert "p(1-p)" not in chart.caption


@pytest.mark.parametrize(
    "rows",
    [many(63), many(name="other"), [row | {"predicted_variance": None} for row in many()], []],
    ids=["few", "no predictions", "none made", "no groups"],
)
def test_nothing_to_show(tmp_path, rows):
    history = history_of(tmp_path / "run", rows)
    assert calibration(history) is None
    assert rank_correlations(history) is None
