"""How well a method's predictions came true: calibration, and rank correlation over training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from curro.core.selection import Reason
from curro.methods.prediction.quality import rank_correlation
from curro.runs.reader import History, scale
from curro.runs.report.charts import Chart, Series
from curro.runs.report.figures import GREY, STEP

BINS, WINDOW, MOST_WINDOWS = 10, 64, 30
"""Bins of the calibration; the fewest groups of a window, and the most windows, of the correlation."""

_NAMES = {"predicted_variance": "reward variance", "predicted_rate": "success rate"}


@dataclass(frozen=True)
class Predictions:
    """The groups of a run that were predicted, in order; arrays of shape (K,).

    Attributes:
        quantity: "reward variance" in squared reward ranges, or "success rate".
        predicted, realised: float64.
        step: int64, the training step.
        explored: bool, whether the prompt was taken at random and not for its prediction.
        rollouts: float64, how many the group had; NaN where the run did not write it down.
    """

    quantity: str
    predicted: np.ndarray
    realised: np.ndarray
    step: np.ndarray
    explored: np.ndarray
    rollouts: np.ndarray


def predictions_of(history: History) -> Predictions | None:
    """What was predicted and what came of it; None for a run without predictions."""
    groups = history.groups
    low, high = scale(history.config).reward_range
    realised = {"predicted_variance": groups.variance / (high - low) ** 2, "predicted_rate": groups.rate}
    for name, values in groups.predicted.items():
        rows = np.flatnonzero(~np.isnan(values))
        if len(rows):
            explored = groups.reason[rows] == Reason.EXPLORATION
            return Predictions(
                _NAMES[name],
                values[rows],
                realised[name][rows],
                groups.step[rows],
                explored,
                groups.rollouts[rows],
            )
    return None


def calibration(history: History) -> Chart | None:
    """Mean realised against mean predicted values, in bins of about equally many groups."""
    predictions = predictions_of(history)
    if predictions is None or len(predictions.predicted) < WINDOW:
        return None
    mean, realised, error = calibration_bins(predictions.predicted, predictions.realised)
    ends = np.array([min(mean.min(), realised.min()), max(mean.max(), realised.max())])
    series = [
        Series("as predicted", ends, ends, GREY, "rule"),
        Series("this run", realised, mean, 0, "points", realised - 2 * error, realised + 2 * error),
    ]
    caption = (
        "Means of a tenth of the predicted groups each, over the whole run, with two standard errors to both "
        "sides."
    )
    if predictions.quantity == "reward variance":
        caption += (
            " What is best of many by its prediction is on average not as good as predicted, and the "
            "variance of n rollouts is (n-1)/n p(1-p) on average."
        )
    return Chart(
        "calibration", "Calibration of the predictions", "lines", series,
        f"predicted {predictions.quantity}",
        "what came of it", caption,
    )  # fmt: skip


def calibration_bins(
    predicted_K: np.ndarray, realised_K: np.ndarray, bins: int = BINS
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean predicted, mean realised and its standard error in quantile bins; equal predictions stay together.

    A bin of one group has the error 0.
    """
    shares = np.arange(1, bins) / bins
    edges = np.unique(np.quantile(predicted_K, shares, method="inverted_cdf"))
    _, bin_K, count = np.unique(np.searchsorted(edges, predicted_K), return_inverse=True, return_counts=True)
    mean, realised, square = (
        np.bincount(bin_K, values) / count for values in (predicted_K, realised_K, realised_K**2)
    )
    spread = np.maximum(square - realised**2, 0)
    return mean, realised, np.sqrt(spread / np.maximum(count - 1, 1))


def rank_correlations(history: History) -> Chart | None:
    """Spearman's rank correlation over training: of what was chosen by prediction, and of what at random."""
    predictions = predictions_of(history)
    if predictions is None:
        return None
    parts = {"chosen by prediction": ~predictions.explored, "chosen at random": predictions.explored}
    curves = [
        (name, *over_training(predictions, rows)) for name, rows in parts.items() if rows.sum() >= WINDOW
    ]
    curves = [curve for curve in curves if len(curve[1])]
    if not curves:
        return None
    ends = np.array([curves[0][1][0], curves[0][1][-1]])
    series = [Series("", np.zeros(2), ends, GREY, "rule")]
    series += [Series(name, rho, step, list(parts).index(name), "points") for name, step, rho in curves]
    title = "Rank correlation of predicted and realised"
    return Chart("rank-correlation", title, "lines", series, STEP, caption=_caption(history, predictions))


def over_training(predictions: Predictions, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean step and rank correlation of windows of equally many groups (K,) bool; constant ones left out."""
    chosen = np.flatnonzero(rows)
    windows = np.array_split(chosen, np.clip(len(chosen) // WINDOW, 1, MOST_WINDOWS))
    step = np.array([predictions.step[window].mean() for window in windows])
    rho = np.array([rank_correlation(predictions.predicted[w], predictions.realised[w]) for w in windows])
    return step[~np.isnan(rho)], rho[~np.isnan(rho)]


def _caption(history: History, predictions: Predictions) -> str:
    kept = history.series("prediction/spread_kept")[1]
    narrow = f": their predictions spread {kept.mean():.0%} as wide as the candidates'" if len(kept) else ""
    caption = (
        f"Of predicted and realised {predictions.quantity}, in windows of {WINDOW} groups or more. "
        f"Prompts chosen by prediction are the candidates of the highest promise{narrow}, and within a "
        "narrow range a correlation is lower than over all prompts."
    )
    if predictions.explored.any():
        return f"{caption} Those chosen at random show the predictor as it is, but for the best candidates."
    return f"{caption} A share of exploration would show the predictor as it is."
