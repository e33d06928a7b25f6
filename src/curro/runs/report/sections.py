"""Which pictures a run's page has, in which order: the report's and the live page's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from curro.runs.reader import GroupColumns, History
from curro.runs.report import figures
from curro.runs.report.charts import Chart, Series, time_bins
from curro.runs.report.figures import SPANS, STEP, lines
from curro.runs.report.prediction import calibration, rank_correlations

MOST_SOURCES = 6
"""How many sources a picture shows; the others are drawn together."""


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

    def means(rates: np.ndarray, spans: np.ndarray, count: int) -> np.ndarray:
        return np.bincount(spans, rates, count) / np.maximum(np.bincount(spans, minlength=count), 1)

    chart = lines("source-rates", "Success rates by source", _curves(history.groups, means))
    return chart and replace(chart, caption="Of the groups that were rolled out.", y_range=(0, 1))


def reward_streaks(history: History) -> Chart | None:
    """How many groups in a row of each source had no reward at all: the longest streak of each span."""

    def longest(rates: np.ndarray, spans: np.ndarray, count: int) -> np.ndarray:
        lengths = np.zeros(count)
        np.maximum.at(lengths, spans, streaks(rates <= 0))
        return lengths

    curves = _curves(history.groups, longest)
    chart = lines("reward-streaks", "Groups in a row without a reward", curves, from_zero=True)
    caption = (
        "By source. A line that only rises is a source that never has a reward: its prompts are too hard, or "
        "the reward does not read their format."
    )
    return chart and replace(chart, caption=caption)


def _curves(
    groups: GroupColumns, measure: Callable[[np.ndarray, np.ndarray, int], np.ndarray]
) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """A curve for each source, if there are several: `measure(rates, spans, count)` where it has groups."""
    if len(groups.sources) < 2:
        return []
    edges, bins = time_bins(groups.step, SPANS)
    middle, curves = (edges[:-1] + edges[1:]) / 2, []
    for name, rows in _by_source(groups):
        has_groups = np.bincount(bins[rows], minlength=len(middle)) > 0
        values = measure(groups.rate[rows], bins[rows], len(middle))
        curves.append((name, middle[has_groups], values[has_groups]))
    return curves


def streaks(happened: np.ndarray) -> np.ndarray:
    """How many values in a row, up to and with each one of a bool array, are true: int64 of its shape."""
    position = np.arange(len(happened))
    return position - np.maximum.accumulate(np.where(happened, -1, position))


def _by_source(groups: GroupColumns) -> list[tuple[str, np.ndarray]]:
    """The name and the groups, bool (F,), of each source, the most drawn first; the rest together."""
    count = np.bincount(groups.source[groups.source >= 0], minlength=len(groups.sources))
    order = np.argsort(-count, kind="stable")
    parts = [(groups.sources[i], groups.source == i) for i in order[:MOST_SOURCES]]
    rest = ~np.isin(groups.source, order[:MOST_SOURCES])
    return [*parts, ("others", rest)] if rest.any() else parts


def sections(history: History) -> list[tuple[str, list[Chart]]]:
    """The title and the pictures of each section that has any."""
    charts_by_section = {
        "Learning": [
            figures.outcomes(history),
            figures.held_out(history, "rollouts"),
            figures.without_gradient(history),
            figures.tokens_without_gradient(history),
            figures.smoothed(history, "reward", "Mean reward of the training rollouts"),
            figures.smoothed(history, "signal_share", "Share of groups with signal"),
            figures.held_out(history, "step"),
        ],
        "What is known of the prompts": [
            figures.known_rates(history),
            figures.chosen_rates(history),
            figures.success_histogram(history),
            figures.coverage(history),
            figures.visits(history),
            *_pools(history),
            figures.moves(history),
        ],
        "What was chosen": [
            figures.chosen_reasons(history),
            drawn_sources(history),
            source_rates(history),
            reward_streaks(history),
            figures.signal_ratio(history),
            figures.returns(history),
            figures.metric(
                history,
                {"posterior/half_life": ""},
                "Half-life of the evidence",
                "Training steps after which an outcome counts half; learnt from repeated visits.",
                log=True,
            ),
        ],
        "How batches were filled": [
            figures.rejected(history),
            figures.metric(
                history, {"fill/draws": ""}, "Draws for a batch", "Until it was full of admitted groups."
            ),
        ],
        "How well it was predicted": [calibration(history), rank_correlations(history)],
    }
    shown = [(title, [chart for chart in charts if chart]) for title, charts in charts_by_section.items()]
    return [section for section in shown if section[1]]


def _pools(history: History) -> list[Chart | None]:
    """How many prompts are in which state; of prioritized replay with pools, in which pool."""

    def metric(name: str, title: str, caption: str = "") -> Chart | None:
        return figures.metric(history, {name: ""}, title, caption)

    states = {
        "table/learnable": "learnable: rewards varied",
        "table/solved": "solved: all succeeded",
        "table/unsolved": "unsolved: all failed",
        "table/unseen": "not seen yet",
    }
    rates = {"table/success_rate_mean": "mean", "table/success_rate_std": "standard deviation"}
    common = [
        figures.metric(history, states, "Prompts by their latest group"),
        figures.metric(history, rates, "Success rates over the prompts seen"),
    ]
    if "replay/heap_size" not in history.metrics:
        return [
            *common,
            metric("signal/uniform", "Mean priority", "Reward variance at each prompt's latest visit."),
        ]
    pools = {"replay/heap_size": "heap", "replay/solved_pool": "solved", "replay/unsolved_pool": "unsolved"}
    return [
        *common,
        figures.metric(history, pools, "Pools", "The heap holds the prompts that can be chosen by priority."),
        metric("replay/mean_priority", "Mean priority", "Over the heap."),
    ]
