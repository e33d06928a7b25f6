"""The pictures of one run. Each function gives one, or None where the run holds nothing to show in it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from curro.core.selection import Reason
from curro.core.text import slug
from curro.runs.reader import LEARNABLE, SOLVED, UNSOLVED, GroupColumns, History
from curro.runs.report.charts import Chart, Series, Style, time_bins, trailing_mean

QUARTERS: list[str | None] = ["0", None, "0.25", None, "0.5", None, "0.75", None, "1"]
SPANS = 60
EVALUATIONS = 3
"""Of which the mean is drawn."""
STEP = "training step"
RED, GREEN, BLUE, GREY = 1, 2, 0, 6
"""Of the palette: all wrong, all right, mixed, and what something is compared with."""


def held_out(history: History, against: str) -> Chart | None:
    """Every pass@k of the evaluations against `rollouts` or `step`.

    Against steps, lines are means of each evaluation and the two before it, as in figure 2 of "Prioritized
    Replay for RL Post-training".
    """
    names = history.evaluations
    curves = [(name.removeprefix("eval/"), *history.series(name, against)) for name in names]
    title, x = {
        "rollouts": ("Held-out success against rollouts", "training rollouts"),
        "step": ("Held-out success against updates", STEP),
    }[against]
    chart = lines(f"eval-{against}", title, curves, x=x, style="points")
    if chart is None or against == "rollouts":
        return chart
    faint = [replace(each, name="", style="faint") for each in chart.series]
    means = [replace(each, y=trailing_mean(each.y, EVALUATIONS)) for each in chart.series]
    series = [each for pair in zip(faint, means, strict=True) for each in pair]
    return replace(chart, series=series, caption="Faint: every evaluation. Lines: means of three.")


def smoothed(history: History, name: str, title: str, caption: str = "") -> Chart | None:
    """A noisy metric: every step faintly, the mean of ten steps over it."""
    x, y = history.series(name)
    if not len(x):
        return None
    series = [Series("", y, x, style="faint"), Series("", trailing_mean(y), x)]
    return Chart(
        slug(name), title, "lines", series, STEP, caption=f"{caption} Mean of the last ten steps.".strip()
    )


def metric(
    history: History, names: dict[str, str], title: str, caption: str = "", *, log: bool = False
) -> Chart | None:
    """Metrics against the training step, as they are; `names` maps them to what the legend calls them."""
    curves = [(label, *history.series(name)) for name, label in names.items()]
    chart = lines(slug(next(iter(names))), title, curves, from_zero=not log)
    return chart and replace(chart, caption=caption, log=log)


def outcomes(history: History) -> Chart | None:
    """Groups that were all right, mixed and all wrong, as shares of the groups of neighbouring steps."""
    groups = history.groups
    if not len(groups.prompt):
        return None
    edges, bins = time_bins(groups.step, SPANS)
    kinds = [
        ("mixed: these teach", LEARNABLE, BLUE),
        ("all right", SOLVED, GREEN),
        ("all wrong", UNSOLVED, RED),
    ]
    layers = _shares(bins, groups.state, [state for _, state, _ in kinds], len(edges) - 1)
    series = [Series(name, layer, colour=c) for (name, _, c), layer in zip(kinds, layers, strict=True)]
    caption = "A group whose rollouts all have the same reward has no gradient."
    return _stack("outcomes", "What the chosen prompts gave", series, edges, caption)


def signal_ratio(history: History) -> Chart | None:
    """The advantage's mean square against uniform sampling's, and what follows for the learning rate."""
    x, y = history.series("signal/ratio")
    if not len(x):
        return None
    series = [
        Series("this curriculum", y, x),
        Series("uniform sampling", np.ones(2), x[[0, -1]], GREY, "rule"),
    ]
    return Chart(
        "signal-ratio",
        "Mean square of the advantages, uniform = 1",
        "lines",
        series,
        STEP,
        caption=_learning_rate(float(y[-1])),
        y_range=(0, max(1.2, 1.1 * float(y.max()))),
    )


def success_histogram(history: History) -> Chart | None:
    """Figure 1 of the paper for this run: success rates of the prompts seen, at first and now."""
    groups = history.groups
    if not len(groups.prompt):
        return None
    parts = [("at the first visit", groups.first), ("at the latest visit", groups.latest)]
    series = [
        Series(name, np.bincount(eighths(groups)[rows], minlength=9) / rows.sum(), colour=i)
        for i, (name, rows) in enumerate(parts)
    ]
    caption = "0 and 1 are groups whose rewards did not vary, between them to the nearest eighth."
    return Chart(
        "success-histogram", "Success rates of the prompts seen", "bars", series, "success rate of a group",
        "share of prompts seen", caption, ticks=QUARTERS, y_range=(0, None),
    )  # fmt: skip


def chosen_reasons(history: History) -> Chart | None:
    """Why prompts were chosen, as shares of the groups of some neighbouring steps."""
    groups = history.groups
    if not len(groups.prompt):
        return None
    edges, bins = time_bins(groups.step, SPANS)
    reasons = np.unique(groups.reason).tolist()
    layers = _shares(bins, groups.reason, reasons, len(edges) - 1)
    series = [
        Series(reason_name(reason), layer, colour=reason % 7)
        for reason, layer in zip(reasons, layers, strict=True)
    ]
    return _stack("chosen-reasons", "Why prompts were chosen", series, edges)


def chosen_rates(history: History) -> Chart | None:
    """Success rates of the groups over time; the stronger the colour, the larger the step's share."""
    groups = history.groups
    if not len(groups.prompt):
        return None
    edges, bins = time_bins(groups.step, 40)
    count = np.bincount(bins * 9 + eighths(groups), minlength=9 * (len(edges) - 1)).reshape(-1, 9)
    caption = "The stronger the colour, the larger the share of a step's groups with this success rate."
    return _heat("chosen-rates", "Success rates of the chosen prompts", count, edges, caption)


def known_rates(history: History) -> Chart | None:
    """The same of all prompts seen so far, each by its latest group."""
    groups = history.groups
    if not len(groups.prompt):
        return None
    edges, bins = time_bins(groups.step, 40)
    count = latest_by_span(groups, bins, eighths(groups), 9, len(edges) - 1)
    caption = "Of all prompts seen so far, each by its latest group: what there was to choose from."
    return _heat("known-rates", "Success rates of the pool", count, edges, caption)


def moves(history: History) -> Chart | None:
    """How many prompts moved between solved, learnable and unsolved, in all so far."""
    groups = history.groups
    rows = np.flatnonzero(~groups.first)
    if not len(rows):
        return None
    before, after = groups.state[groups.earlier[rows]], groups.state[rows]
    kinds = {
        "learnable to solved": (before == LEARNABLE) & (after == SOLVED),
        "learnable to unsolved": (before == LEARNABLE) & (after == UNSOLVED),
        "solved to learnable": (before == SOLVED) & (after == LEARNABLE),
        "unsolved to learnable": (before == UNSOLVED) & (after == LEARNABLE),
        "flips, solved to unsolved or back": (before != after) & (before != LEARNABLE) & (after != LEARNABLE),
    }
    steps, at_K = np.unique(np.append(groups.step, 0), return_inverse=True)
    curves = [
        (name, steps, np.cumsum(np.bincount(at_K[rows], moved, len(steps)))) for name, moved in kinds.items()
    ]
    chart = lines("moves", "Moves and flips", curves, from_zero=True)
    return chart and replace(chart, caption="Between two visits of a prompt, in all so far.")


def lines(
    name: str,
    title: str,
    curves: list[tuple[str, np.ndarray, np.ndarray]],
    *,
    x: str = STEP,
    from_zero: bool = False,
    style: Style = "line",
) -> Chart | None:
    """Named curves (name, x, y) in one picture; empty ones are left out."""
    curves = [curve for curve in curves if len(curve[1])]
    if not curves:
        return None
    several = len(curves) > 1
    series = [
        Series(label if several else "", ys, xs, i % 7, style) for i, (label, xs, ys) in enumerate(curves)
    ]
    return Chart(name, title, "lines", series, x, y_range=(0 if from_zero else None, None))


def eighths(groups: GroupColumns) -> np.ndarray:
    """0 and 8 for groups that all failed or all succeeded, 1 to 7 between."""
    inside = np.clip(np.round(groups.rate * 8), 1, 7).astype(np.int64)
    return np.where(groups.state == LEARNABLE, inside, np.where(groups.state == SOLVED, 8, 0))


def latest_by_span(
    groups: GroupColumns, bins: np.ndarray, kind: np.ndarray, kinds: int, spans: int
) -> np.ndarray:
    """Prompts seen by the end of each span, counted by the kind of their latest group: (spans, kinds)."""
    came = np.bincount(bins * kinds + kind, minlength=spans * kinds)
    again = groups.earlier >= 0
    left = np.bincount(bins[again] * kinds + kind[groups.earlier[again]], minlength=spans * kinds)
    return np.cumsum((came - left).reshape(spans, kinds), axis=0)


def _shares(bins: np.ndarray, values: np.ndarray, kinds: list[int], spans: int) -> list[np.ndarray]:
    """Of each kind the share of a span's groups; a span without groups has the shares of the one before."""
    total = np.bincount(bins, minlength=spans)
    known = np.maximum.accumulate(np.where(total > 0, np.arange(spans), 0))
    return [
        (np.bincount(bins[values == kind], minlength=spans) / np.maximum(total, 1))[known] for kind in kinds
    ]


def _stack(name: str, title: str, series: list[Series], edges: np.ndarray, caption: str = "") -> Chart:
    return Chart(name, title, "stack", series, STEP, "share of groups", caption, edges=edges, y_range=(0, 1))


def _heat(name: str, title: str, count: np.ndarray, edges: np.ndarray, caption: str) -> Chart:
    share = count / np.maximum(count.sum(axis=1, keepdims=True), 1)
    series = [Series("", row) for row in share.T]
    return Chart(name, title, "heat", series, STEP, "success rate", caption, edges=edges, ticks=QUARTERS)


def _learning_rate(ratio: float) -> str:
    """Section 4.3 of the paper: the loss grows with the advantages."""
    if ratio <= 1.05:
        return "Not above uniform sampling's: a learning rate tuned for uniform sampling fits."
    return (
        f"Gradients are about {np.sqrt(ratio):.2f} times as large as with uniform sampling: a learning rate "
        "tuned for uniform sampling may be too high, lower it (section 4.3 of the paper)."
    )


def reason_name(value: int) -> str:
    known = {int(reason): reason.name for reason in Reason}
    return known.get(value, f"reason {value}").lower().replace("_", ", ")


def without_gradient(history: History) -> Chart | None:
    """Rollouts of groups without a signal, in all so far, beside what uniform sampling would waste."""
    sizes = rollouts_of_groups(history)
    title = "Rollouts without a gradient"
    return None if sizes is None else _wasted(history, sizes, "wasted-rollouts", title, "rollouts")


def tokens_without_gradient(history: History) -> Chart | None:
    """Likewise the tokens."""
    tokens = history.groups.tokens
    if not len(tokens) or np.isnan(tokens).all():
        return None
    return _wasted(history, np.nan_to_num(tokens), "wasted-tokens", "Tokens without a gradient", "tokens")


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


def rollouts_of_groups(history: History) -> np.ndarray | None:
    """Rollouts of each group, by the groups' lines or by the run's own setting."""
    groups = history.groups
    size = history.setting("rollouts_per_prompt")
    if not len(groups.prompt) or (np.isnan(groups.rollouts).all() and not size):
        return None
    return np.where(np.isnan(groups.rollouts), size or 0, groups.rollouts)


def _wasted(history: History, sizes: np.ndarray, name: str, title: str, unit: str) -> Chart:
    groups = history.groups
    edges, bins = time_bins(groups.step, 300)
    spent = np.bincount(bins, sizes, len(edges) - 1)
    flat = np.bincount(bins, np.where(groups.state == LEARNABLE, 0, sizes), len(edges) - 1)
    x, wasted = edges[1:] - 0.5, np.cumsum(flat)
    series = [Series("this curriculum", wasted, x, 1)]
    caption = f"{wasted[-1] / max(spent.sum(), 1):.0%} of all {unit} so far."
    at, share = history.series("signal/uniform_share")
    if len(at):
        # before the first estimate, that one
        uniform = spent * (1 - share[np.maximum(np.searchsorted(at, x, side="right") - 1, 0)])
        series.append(Series("uniform sampling, estimated", np.cumsum(uniform), x, GREY, "rule"))
        caption += " Uniform sampling is estimated from groups drawn with a known probability."
    return Chart(name, title, "lines", series, STEP, caption=caption, y_range=(0, None))


def _described(chart: Chart, caption: str, y_range: tuple[float | None, float | None] = (0, None)) -> Chart:
    return replace(chart, caption=caption, y_range=y_range)
