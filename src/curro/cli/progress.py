"""Progress of runs on the terminal."""

from __future__ import annotations

import math
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


def progress_bar(console: Console) -> Progress:
    """A bar a run: steps, what `describe` says of the latest, time left."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[latest]}", markup=False),
        TimeRemainingColumn(),
        console=console,
    )


def describe(line: dict[str, Any]) -> str:
    """One line of metrics in a few words: reward, share of groups with signal, pools, held-out accuracy."""
    parts = [
        f"{word} {line[name]:.2f}"
        for name, word in (("reward", "reward"), ("signal_share", "signal"))
        if not math.isnan(line.get(name, math.nan))
    ]
    counts = [(word, line.get(f"table/{word}")) for word in ("learnable", "solved", "unsolved", "unseen")]
    parts += [f"{word} {int(count)}" for word, count in counts if count is not None]
    return "  ".join(parts)


def accuracy(line: dict[str, Any]) -> str | None:
    """The held-out accuracy of a line that has one."""
    scores = [f"{name.removeprefix('eval/')} {value:.3f}" for name, value in line.items() if "pass@" in name]
    return f"step {line['step']:>5}  rollouts {line['rollouts']:>7}  " + "  ".join(scores) if scores else None
