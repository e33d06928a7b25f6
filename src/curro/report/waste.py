"""Pictures of what a run spent: rollouts and tokens without a gradient, fills, coverage."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from curro.report.charts import Chart, Series, time_bins, trailing_mean
from curro.report.figures import GREY, SPANS, STEP, latest_by_span, lines
from curro.runs.reader import LEARNABLE, Groups, History


def without_gradient(history: History) -> Chart | None:
    """Rollouts of groups without a signal, in all so far, beside what uniform sampling would waste."""
    sizes = _sizes(history)
    title = "Rollouts without a gradient"
    return None if sizes is None else _wasted(history, sizes, "wasted-rollouts", title, "rollouts")


def tokens_without_gradient(history: History) -> Chart | None:
    """Likewise the tokens."""
    tokens = history.groups.tokens
    if not len(tokens) or np.isnan(tokens).all():
        return None
    return _wasted(history, np.nan_to_num(tokens), "wasted-tokens", "Tokens without a gradient", "tokens")


def uniform_signal(groups: Groups, bins: np.ndarray, spans: int) -> np.ndarray:
    """The share of groups with a signal that uniform sampling would have had, (spans,), as far as is known.

    It is the share of the prompts seen so far whose latest group had one.
    """
    is_learnable = (groups.state == LEARNABLE).astype(np.int64)
    count = latest_by_span(groups, bins, is_learnable, 2, spans)
    return count[:, 1] / np.maximum(count.sum(axis=1), 1)


def coverage(history: History) -> Chart | None:
    """The share of the data set that was rolled out at least once, and at least twice."""
    groups = history.groups
    if not len(groups.prompt):
        return None
    edges, bins = time_bins(groups.step, 300)
    second = np.zeros(len(groups.prompt), np.bool_)
    again = groups.earlier >= 0
    second[again] = groups.earlier[groups.earlier[again]] < 0
    curves = [
        (name, (edges[:-1] + edges[1:]) / 2, np.cumsum(np.bincount(bins[rows], minlength=len(edges) - 1)))
        for name, rows in (("at least once", groups.first), ("at least twice", second))
    ]
    size = max(history.prompts, 1)
    chart = lines("coverage", "Coverage", [(name, x, y / size) for name, x, y in curves], from_zero=True)
    return chart and _described(chart, "Share of the data set's prompts that were rolled out.", (0, 1))


def visits(history: History) -> Chart | None:
    """How often the prompts of the data set were visited."""
    groups = history.groups
    if not len(groups.prompt):
        return None
    count = np.bincount(groups.prompt)[groups.prompt[groups.latest]]
    lower = np.array([0, 1, 2, 3, 5, 9, 17, 33])
    label = ["0", "1", "2", "3-4", "5-8", "9-16", "17-32", "33+"]
    number = np.bincount(np.searchsorted(lower, count, side="right") - 1, minlength=len(lower))
    number[0] = history.prompts - len(count)
    series = [Series("", number / max(history.prompts, 1))]
    return Chart(
        "visits", "Visits of the prompts", "bars", series, "visits so far", "share of prompts",
        ticks=list(label), y_range=(0, None),
    )  # fmt: skip


def returns(history: History) -> Chart | None:
    """How old the knowledge of a chosen prompt was."""
    groups = history.groups
    again = np.flatnonzero(groups.earlier >= 0)
    if not len(again):
        return None
    edges, bins = time_bins(groups.step[again], SPANS)
    age = (groups.step[again] - groups.step[groups.earlier[again]]).astype(np.float64)
    order = np.lexsort([age, bins])
    ends = np.searchsorted(bins[order], np.arange(len(edges)))
    known = np.flatnonzero(np.diff(ends))
    median, high = (
        age[order][(ends[known] + share * (np.diff(ends)[known] - 1)).astype(np.int64)]
        for share in (0.5, 0.9)
    )
    x = ((edges[:-1] + edges[1:]) / 2)[known]
    chart = lines("returns", "Staleness", [("median", x, median), ("90%", x, high)], from_zero=True)
    caption = "Training steps since a chosen prompt's visit before: how old was what was known of it."
    return chart and _described(chart, caption)


def rejected(history: History) -> Chart | None:
    """Groups that the gate turned away, as a share of those that were rolled out."""
    groups = history.groups
    if groups.admitted.all():
        return None
    edges, bins = time_bins(groups.step, 300)
    total = np.bincount(bins, minlength=len(edges) - 1)
    known = total > 0
    share = np.bincount(bins, ~groups.admitted, len(edges) - 1)[known] / total[known]
    x = ((edges[:-1] + edges[1:]) / 2)[known]
    series = [Series("", share, x, style="faint"), Series("", trailing_mean(share), x)]
    return Chart(
        "rejected", "Groups that the gate rejected", "lines", series, STEP,
        caption="As a share of the groups that were rolled out; others took their places.", y_range=(0, 1),
    )  # fmt: skip


def _sizes(history: History) -> np.ndarray | None:
    """Rollouts of each group, by the groups' lines or by the run's own setting."""
    groups = history.groups
    size = history.config.get("settings", {}).get("rollouts_per_prompt")
    if not len(groups.prompt) or (np.isnan(groups.rollouts).all() and not size):
        return None
    return np.where(np.isnan(groups.rollouts), size or 0, groups.rollouts)


def _wasted(history: History, sizes: np.ndarray, name: str, title: str, what: str) -> Chart:
    groups = history.groups
    edges, bins = time_bins(groups.step, 300)
    spent = np.bincount(bins, sizes, len(edges) - 1)
    flat = np.bincount(bins, np.where(groups.state == LEARNABLE, 0, sizes), len(edges) - 1)
    uniform = np.cumsum(spent * (1 - uniform_signal(groups, bins, len(edges) - 1)))
    x, wasted = edges[1:] - 0.5, np.cumsum(flat)
    series = [
        Series("this curriculum", wasted, x, 1),
        Series("uniform sampling, estimated", uniform, x, GREY, "rule"),
    ]
    caption = (
        f"{wasted[-1] / max(spent.sum(), 1):.0%} of all {what} so far. The estimate for uniform sampling "
        "goes by the latest group of every prompt seen."
    )
    return Chart(name, title, "lines", series, STEP, caption=caption, y_range=(0, None))


def _described(chart: Chart, caption: str, y_range: tuple[float | None, float | None] = (0, None)) -> Chart:
    return replace(chart, caption=caption, y_range=y_range)
