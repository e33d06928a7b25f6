"""Several runs in one picture each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from curro.report.charts import Chart, Series, trailing_mean
from curro.report.history import History

if TYPE_CHECKING:
    from curro.watch.watched import WatchedRun

_PICTURES = (
    ("eval/pass@1", "Held-out pass@1 against rollouts", False),
    ("signal_share", "Share of groups with signal", True),
    ("reward", "Mean reward of the training rollouts", True),
)


def side_by_side(runs: Sequence[WatchedRun]) -> dict[str, Any]:
    """The curves of all runs that have begun, against rollouts; and a version that grows with them."""
    found = [(run.name, history) for run in runs if (history := run.history()) is not None]
    charts = [_chart(found, *picture) for picture in _PICTURES]
    return {
        "version": sum(run.version for run in runs),
        "charts": [chart.as_json() for chart in charts if chart],
    }


def _chart(runs: list[tuple[str, History]], metric: str, title: str, smooth: bool) -> Chart | None:
    series = []
    for i, (name, history) in enumerate(runs):
        x, y = history.series(metric, "rollouts")
        if len(x):
            curve = trailing_mean(y, 20) if smooth else y
            series.append(Series(name, curve, x, i % 7, "line" if smooth else "points"))
    caption = "Mean of the last twenty steps." if smooth else ""
    slug = metric.replace("/", "-").replace("@", "-")
    return (
        Chart(f"all-{slug}", title, "lines", series, "training rollouts", caption=caption) if series else None
    )
