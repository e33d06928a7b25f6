"""The pictures of one run. Each function gives one, or None where the run holds nothing to show in it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes

from curro.report.drawing import COLOURS, Key, Picture, draw, line, trailing_mean
from curro.report.history import LEARNABLE, SOLVED, UNSOLVED, Groups, History
from curro.selection.base import Reason

_QUARTERS = (range(0, 9, 2), ["0", "0.25", "0.5", "0.75", "1"])
_STEP = "training step"


def held_out(history: History, against: str) -> Picture | None:
    """Every pass@k of the evaluations against `rollouts` or `step`."""
    names = history.evaluations
    curves = [(name.removeprefix("eval/"), *history.series(name, against)) for name in names]
    title, x = {
        "rollouts": ("Held-out success against rollouts", "training rollouts"),
        "step": ("Held-out success against updates", _STEP),
    }[against]
    return _lines(f"eval-{against}", title, curves, x=x, marker="o", markersize=4)


def smoothed(history: History, name: str, title: str, caption: str = "") -> Picture | None:
    """A noisy metric: every step faintly, the mean of ten steps over it."""
    x, y = history.series(name)
    if not len(x):
        return None

    def paint(axes: Axes) -> None:
        line(axes, x, y, alpha=0.25, linewidth=1)
        line(axes, x, trailing_mean(y))
        axes.set_xlabel(_STEP)

    return Picture(title, draw(_slug(name), paint), f"{caption} Mean of the last ten steps.".strip())


def metric(
    history: History, names: dict[str, str], title: str, caption: str = "", *, log: bool = False
) -> Picture | None:
    """Metrics against the training step, as they are; `names` maps them to what the legend calls them."""
    curves = [(label, *history.series(name)) for name, label in names.items()]
    picture = _lines(_slug(next(iter(names))), title, curves, log=log, from_zero=not log)
    return picture and replace(picture, caption=caption)


def signal_ratio(history: History) -> Picture | None:
    """The advantage's mean square against uniform sampling's, and what follows for the learning rate."""
    x, y = history.series("signal/ratio")
    if not len(x):
        return None

    def paint(axes: Axes) -> None:
        axes.axhline(1, color=COLOURS[6], linewidth=1.2)
        line(axes, x, y)
        axes.set_ylim(0, max(1.2, 1.1 * y.max()))
        axes.set_xlabel(_STEP)

    legend = [Key("this curriculum", 0, ()), Key("uniform sampling", 6, ())]
    title = "Mean square of the advantages, uniform = 1"
    return Picture(title, draw("signal-ratio", paint), _advice(float(y[-1])), legend)


def success_histogram(history: History) -> Picture | None:
    """Figure 1 of the paper for this run: success rates of the prompts seen, at first and now."""
    groups = history.groups
    if not len(groups.prompt):
        return None
    parts = [("at the first visit", groups.first), ("at the latest visit", groups.latest)]

    def paint(axes: Axes) -> None:
        for i, (_, rows) in enumerate(parts):
            share = np.bincount(_eighths(groups)[rows], minlength=9) / rows.sum()
            axes.bar(np.arange(9) + 0.4 * (i - 0.5), share, 0.4, color=COLOURS[i])
        axes.set_xticks(*_QUARTERS)
        axes.grid(axis="x", visible=False)
        axes.set_xlabel("success rate of a group")
        axes.set_ylabel("share of prompts seen")

    caption = "0 and 1 are groups whose rewards did not vary, between them to the nearest eighth."
    legend = [Key(name, i) for i, (name, _) in enumerate(parts)]
    return Picture("Success rates of the prompts seen", draw("success-histogram", paint), caption, legend)


def chosen_reasons(history: History) -> Picture | None:
    """Why prompts were chosen, as shares of the groups of some neighbouring steps."""
    groups = history.groups
    if not len(groups.prompt):
        return None
    edges, bins = _time_bins(groups.step, 60)
    reasons = np.unique(groups.reason)
    count = np.array(
        [np.bincount(bins[groups.reason == reason], minlength=len(edges) - 1) for reason in reasons]
    )
    share = np.cumsum(count / np.maximum(count.sum(axis=0), 1), axis=0)

    def paint(axes: Axes) -> None:
        below = np.zeros(len(edges) - 1)
        for reason, upper in zip(reasons, share, strict=True):
            axes.stairs(upper, edges, baseline=below, fill=True, color=COLOURS[reason % len(COLOURS)])
            below = upper
        axes.set(xlim=(edges[0], edges[-1]), ylim=(0, 1), xlabel=_STEP, ylabel="share of groups")

    legend = [Key(_reason(int(reason)), int(reason) % len(COLOURS)) for reason in reasons]
    return Picture("Why prompts were chosen", draw("chosen-reasons", paint), legend=legend)


def chosen_rates(history: History) -> Picture | None:
    """Success rates of the groups over time; the stronger the colour, the larger the step's share."""
    groups = history.groups
    if not len(groups.prompt):
        return None
    edges, bins = _time_bins(groups.step, 40)
    count = np.zeros((len(edges) - 1, 9))
    np.add.at(count, (bins, _eighths(groups)), 1)
    share = count / np.maximum(count.sum(axis=1, keepdims=True), 1)

    def paint(axes: Axes) -> None:
        for (column, row), value in np.ndenumerate(share):
            if value > 0:
                axes.fill_between(
                    edges[column : column + 2],
                    row - 0.5,
                    row + 0.5,
                    color=COLOURS[0],
                    alpha=value**0.5,
                    linewidth=0,
                )
        axes.set_yticks(*_QUARTERS)
        axes.set(xlim=(edges[0], edges[-1]), ylim=(-0.5, 8.5), xlabel=_STEP, ylabel="success rate")
        axes.grid(visible=False)

    caption = "The stronger the colour, the larger the share of a step's groups with this success rate."
    return Picture("Success rates of the chosen prompts", draw("chosen-rates", paint), caption)


def moves(history: History) -> Picture | None:
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
    steps = np.arange(groups.step.max() + 1)
    curves = [
        (name, steps, np.cumsum(np.bincount(groups.step[rows], moved, len(steps))))
        for name, moved in kinds.items()
    ]
    picture = _lines("moves", "Moves and flips", curves, from_zero=True)
    return picture and replace(picture, caption="Between two visits of a prompt, in all so far.")


def _lines(
    name: str,
    title: str,
    curves: list[tuple[str, np.ndarray, np.ndarray]],
    *,
    x: str = _STEP,
    log: bool = False,
    from_zero: bool = False,
    **style: object,
) -> Picture | None:
    curves = [curve for curve in curves if len(curve[1])]
    if not curves:
        return None
    legend: list[Key] = []

    def paint(axes: Axes) -> None:
        for i, (label, xs, ys) in enumerate(curves):
            legend.append(replace(line(axes, xs, ys, i, **style), name=label))
        if log:
            axes.set_yscale("log", base=2)
            axes.yaxis.set_major_formatter("{x:g}")
        if from_zero:
            axes.set_ylim(bottom=0)
        axes.set_xlabel(x)

    svg = draw(name, paint)
    return Picture(title, svg, legend=legend if len(legend) > 1 else [])


def _advice(ratio: float) -> str:
    """Section 4.3 of the paper: the loss grows with the advantages."""
    if ratio <= 1.05:
        return "Not above uniform sampling's: a learning rate tuned for uniform sampling fits."
    return (
        f"Gradients are about {np.sqrt(ratio):.2f} times as large as with uniform sampling: a learning rate "
        "tuned for uniform sampling may be too high, lower it (section 4.3 of the paper)."
    )


def _eighths(groups: Groups) -> np.ndarray:
    """0 and 8 for groups that all failed or all succeeded, 1 to 7 between."""
    inside = np.clip(np.round(groups.rate * 8), 1, 7).astype(np.int64)
    return np.where(groups.state == LEARNABLE, inside, np.where(groups.state == SOLVED, 8, 0))


def _time_bins(step: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Edges of at most `most` spans of whole steps, and the span of each step."""
    width = -(-(step.max() - step.min() + 1) // most)
    bins = (step - step.min()) // width
    return step.min() - 0.5 + width * np.arange(bins.max() + 2), bins


def _reason(value: int) -> str:
    known = {int(reason): reason.name for reason in Reason}
    return known.get(value, f"reason {value}").lower().replace("_", ", ")


def _slug(name: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in name)
