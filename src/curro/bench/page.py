"""The benchmark's page: tables, learning curves with bands, and what each method chose."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from curro.bench.plan import BASELINE, CEILING, FLOOR, METHODS
from curro.bench.results import WINDOWS
from curro.bench.summary import POINTS, Runs, curves
from curro.bench.tables import Sheet, chosen_by
from curro.report.drawing import Picture, draw, line
from curro.report.html import write_page
from curro.report.painters import COLOURS, Key


def write_benchmark(tasks: Mapping[str, Mapping[str, Runs]], sheets: Sequence[Sheet], out: Path) -> Path:
    """Write the page of the runs by task and method, with these tables; returns its path."""
    sections = [{"title": task, "pictures": _pictures(task, methods)} for task, methods in tasks.items()]
    runs = sum(len(of) for methods in tasks.values() for of in methods.values())
    return write_page(
        "benchmark.html",
        out,
        title=f"curro: benchmark of {runs} runs",
        runs=runs,
        sheets=sheets,
        sections=sections,
        chosen_by=[row for row in chosen_by() if row[0] in tasks],
    )


def _pictures(task: str, methods: Mapping[str, Runs]) -> list[Picture]:
    """A picture of each kind for every panel of methods, the baseline and the ceiling in all of them."""
    always = [name for name in (BASELINE, CEILING, FLOOR) if name in methods]
    panels = dict.fromkeys(METHODS[name].panel for name in methods if METHODS[name].panel)
    found = []
    for panel in panels or {"": None}:
        names = always + [name for name in methods if panel and METHODS[name].panel == panel]
        shown = {name: methods[name] for name in names}
        for title, caption, label, values in _KINDS:
            found.append(_picture(task, panel, title, caption, label, shown, values))
    return found


def _picture(
    task: str,
    panel: str,
    title: str,
    caption: str,
    label: str,
    methods: Mapping[str, Runs],
    values: Callable[[Runs], tuple[np.ndarray, np.ndarray]],
) -> Picture:
    legend: list[Key] = []

    def paint(axes: Axes) -> None:
        for i, (name, runs) in enumerate(methods.items()):
            x, y = values(runs)
            key = line(axes, x, y.mean(axis=0), i)
            if len(runs) > 1:
                error = y.std(axis=0, ddof=1) / np.sqrt(len(runs))
                low, high = y.mean(axis=0) - error, y.mean(axis=0) + error
                axes.fill_between(x, low, high, color=COLOURS[key.colour], alpha=0.18, linewidth=0)
            legend.append(replace(key, name=name))
        axes.set_xlabel("rollouts")
        axes.set_ylabel(label)

    name = "-".join("".join(c if c.isalnum() else " " for c in f"{task} {panel} {title}").split())
    return Picture(f"{title}: {panel}" if panel else title, draw(name.lower(), paint), caption, legend)


def _accuracy(runs: Runs) -> tuple[np.ndarray, np.ndarray]:
    return np.linspace(0, runs[0]["budget"], POINTS), curves(runs)


def _windowed(column: str) -> Callable[[Runs], tuple[np.ndarray, np.ndarray]]:
    def values(runs: Runs) -> tuple[np.ndarray, np.ndarray]:
        middle = (np.arange(WINDOWS) + 0.5) / WINDOWS * runs[0]["budget"]
        found = np.array([[np.nan if v is None else v for v in run[column]] for run in runs])
        known = ~np.isnan(found).any(axis=0)
        return middle[known], found[:, known]

    return values


def _out_of_reach(runs: Runs) -> tuple[np.ndarray, np.ndarray]:
    middle = (np.arange(WINDOWS) + 0.5) / WINDOWS * runs[0]["budget"]
    counts = np.array([run["selected_warm"] for run in runs], np.float64)
    total = counts.sum(axis=2)
    known = (total > 0).all(axis=0)
    return middle[known], counts[:, known, 0] / total[:, known]


_KINDS = (
    ("Held-out pass@1", "", "pass@1", _accuracy),
    ("Groups with signal", "Of those that were rolled out.", "share", _windowed("signal")),
    ("Mean reward of the training batch", "", "reward", _windowed("train_reward")),
    (
        "Chosen prompts that the warm model never solved",
        "In 16 rollouts of each prompt before training.",
        "share",
        _out_of_reach,
    ),
)
