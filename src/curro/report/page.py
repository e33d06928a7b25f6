"""The page of one run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curro.report import figures
from curro.report.history import History, read_history
from curro.report.html import write_page
from curro.report.learnability import learnability
from curro.report.prediction import calibration, rank_correlations
from curro.report.rankings import rankings, readable
from curro.runs import RunFolder

_ROWS = 10


@dataclass(frozen=True)
class Headline:
    """A number at the top of the page, what it is, and a remark."""

    value: str
    name: str
    remark: str = ""


def write_report(run: RunFolder | str | os.PathLike[str], out: str | os.PathLike[str] | None = None) -> Path:
    """Write a run's page: one HTML file that loads nothing and runs nothing.

    Args:
        run: the run, or its folder; it may still be training.
        out: where to; `report.html` in the run's folder by default.

    Raises:
        RunError: no run, or one without a finished training step.
    """
    folder = run if isinstance(run, RunFolder) else RunFolder.open(run)
    history = read_history(folder)
    return write_page(
        "report.html",
        folder.path / "report.html" if out is None else Path(out),
        history=history,
        title=f"curro: {readable(history.name, 60)}",
        headlines=headlines(history),
        sections=_sections(history),
        rankings=rankings(history.groups, _ROWS),
        config=list(_flat(history.config)),
    )


def headlines(history: History) -> list[Headline]:
    """The numbers at the top; those that the run does not have are left out."""
    found = []
    for name in history.evaluations:
        values = history.series(name)[1]
        start = f"from {values[0]:.3f}" if len(values) > 1 else ""
        found.append(Headline(f"{values[-1]:.3f}", f"held-out {name.removeprefix('eval/')}", start))
    rollouts, steps = history.last("rollouts"), history.last("step")
    found.append(Headline(f"{rollouts:,.0f}", "rollouts", f"in {steps:,.0f} training steps"))
    signal = history.series("signal_share")[1]
    if len(signal):
        found.append(Headline(f"{signal.mean():.0%}", "groups with signal", "rewards that vary, whole run"))
    seconds = history.last("seconds")
    if seconds == seconds:
        found.append(Headline(duration(seconds), "of training"))
    return found


def duration(seconds: float) -> str:
    """Seconds for people: 42 s, 3 min 20 s, 2 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _sections(history: History) -> list[tuple[str, list[Any]]]:
    """The title and the pictures of each section that has any."""

    def metric(name: str, title: str, caption: str = "", **options: Any) -> Any:
        return figures.metric(history, {name: title}, title, caption, **options)

    if "replay/heap_size" in history.metrics:
        pools = [
            metric("replay/heap_size", "Heap", "Prompts that can be chosen by priority."),
            metric("replay/solved_pool", "Solved pool"),
            metric("replay/unsolved_pool", "Unsolved pool"),
        ]
        priority = metric("replay/mean_priority", "Mean priority", "Over the heap.")
    else:
        pools = [
            metric("table/learnable", "Learnable prompts", "The latest group's rewards varied."),
            metric("table/solved", "Solved prompts", "All of the latest group succeeded."),
            metric("table/unsolved", "Unsolved prompts", "All of the latest group failed."),
        ]
        priority = metric("signal/uniform", "Mean priority", "Reward variance at each prompt's latest visit.")
    half_life = metric(
        "posterior/half_life",
        "Half-life of the evidence",
        "Training steps after which an outcome counts half; learnt from repeated visits.",
        log=True,
    )
    rates = {"table/success_rate_mean": "mean", "table/success_rate_std": "standard deviation"}
    sections = {
        "Learning": [
            figures.held_out(history, "rollouts"),
            figures.held_out(history, "step"),
            figures.smoothed(history, "reward", "Mean reward of the training rollouts"),
            figures.smoothed(history, "signal_share", "Share of groups with signal"),
        ],
        "What is known of the prompts": [
            figures.success_histogram(history),
            learnability(history),
            *pools,
            metric("table/unseen", "Prompts not seen yet"),
            figures.metric(history, rates, "Success rates over the prompts seen"),
            priority,
            figures.moves(history),
        ],
        "What was chosen": [
            figures.chosen_reasons(history),
            figures.chosen_rates(history),
            figures.signal_ratio(history),
            half_life,
        ],
        "How well it was predicted": [calibration(history), rank_correlations(history)],
    }
    shown = [(title, [picture for picture in pictures if picture]) for title, pictures in sections.items()]
    return [section for section in shown if section[1]]


def _flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested settings as rows: `curriculum.seed`, `3`."""
    for name, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", str(value)
