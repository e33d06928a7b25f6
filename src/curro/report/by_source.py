"""Pictures by source: where prompts came from, how they went, and which source has had no reward for long."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from curro.report.charts import Chart, Series, time_bins
from curro.report.figures import SPANS, STEP, lines
from curro.report.history import Groups, History

MOST_SOURCES = 6
"""Of a picture; the others are drawn together."""


def drawn_sources(history: History) -> Chart | None:
    """From which sources the groups came, as shares of neighbouring steps."""
    groups = history.groups
    if len(groups.sources) < 2:
        return None
    edges, bins = time_bins(groups.step, SPANS)
    total = np.maximum(np.bincount(bins, minlength=len(edges) - 1), 1)
    series = [
        Series(name, np.bincount(bins[rows], minlength=len(edges) - 1) / total, colour=i)
        for i, (name, rows) in enumerate(_by_source(groups))
    ]
    return Chart(
        "drawn-sources", "Where the prompts came from", "stack", series, STEP, "share of groups",
        edges=edges, y_range=(0, 1),
    )  # fmt: skip


def source_rates(history: History) -> Chart | None:
    """The success rates of the groups of each source."""
    groups = history.groups
    if len(groups.sources) < 2:
        return None
    edges, bins = time_bins(groups.step, SPANS)
    middle, curves = (edges[:-1] + edges[1:]) / 2, []
    for name, rows in _by_source(groups):
        total = np.bincount(bins[rows], minlength=len(middle))
        mean = np.bincount(bins[rows], groups.rate[rows], len(middle)) / np.maximum(total, 1)
        curves.append((name, middle[total > 0], mean[total > 0]))
    chart = lines("source-rates", "Success rates by source", curves)
    return chart and replace(chart, caption="Of the groups that were rolled out.", y_range=(0, 1))


def reward_streaks(history: History) -> Chart | None:
    """How many groups in a row of each source had no reward at all: the longest streak of each span."""
    groups = history.groups
    if len(groups.sources) < 2:
        return None
    edges, bins = time_bins(groups.step, SPANS)
    middle, curves = (edges[:-1] + edges[1:]) / 2, []
    for name, rows in _by_source(groups):
        longest = np.full(len(middle), -1)
        np.maximum.at(longest, bins[rows], streaks(groups.rate[rows] <= 0))
        seen = longest >= 0
        curves.append((name, middle[seen], longest[seen].astype(np.float64)))
    chart = lines("reward-streaks", "Groups in a row without a reward", curves, from_zero=True)
    caption = (
        "By source. A line that only rises is a source that never has a reward: its prompts are too hard, or "
        "the reward does not read their format."
    )
    return chart and replace(chart, caption=caption)


def streaks(happened: np.ndarray) -> np.ndarray:
    """Of each place of a bool array how many in a row, it included, are true: int64 of its shape."""
    place = np.arange(len(happened))
    return place - np.maximum.accumulate(np.where(happened, -1, place))


def _by_source(groups: Groups) -> list[tuple[str, np.ndarray]]:
    """Of each source its name and its groups, bool (F,), the most drawn first; the rest together."""
    count = np.bincount(groups.source[groups.source >= 0], minlength=len(groups.sources))
    order = np.argsort(-count, kind="stable")
    found = [(groups.sources[i], groups.source == i) for i in order[:MOST_SOURCES]]
    rest = ~np.isin(groups.source, order[:MOST_SOURCES])
    return [*found, ("others", rest)] if rest.any() else found
