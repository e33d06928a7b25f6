"""What a table of pass rates says of a data set."""

from __future__ import annotations

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table

from curro.admission.band import between
from curro.rollout.cost import cost_of_share

BANDS = ((0.0, 1.0), (0.1, 0.9), (0.2, 0.8), (0.3, 0.7), (0.4, 0.6))
"""Open at both ends: table 1 of "Online Difficulty Filtering for Reasoning Oriented RL", balanced."""


def shares(rates: np.ndarray) -> list[tuple[str, float]]:
    """The share of prompts never solved, in each tenth between, and always solved.

    Args:
        rates: pass rates (N,) in [0, 1]; NaN where a prompt has none, and is in no share.
    """
    known = rates[~np.isnan(rates)]
    never, always = between(known, 0, 0, "both"), between(known, 1, 1, "both")
    tenth = np.clip(np.floor(known * 10 + 1e-9), 0, 9)
    counts = [("0", never.sum())]
    counts += [
        (f".{i} to {'1' if i == 9 else f'.{i + 1}'}", ((tenth == i) & ~never & ~always).sum())
        for i in range(10)
    ]
    counts.append(("1", always.sum()))
    return [(name, float(count) / max(1, len(known))) for name, count in counts]


def bands(rates: np.ndarray, k: int) -> list[tuple[float, float, float, float]]:
    """For each of `BANDS`: low, high, the share of prompts inside, and rollouts an admitted group."""
    known = rates[~np.isnan(rates)]
    costs = [
        cost_of_share(int(between(known, low, high, "neither").sum()), len(known), k) for low, high in BANDS
    ]
    return [(*band, cost.share, cost.rollouts) for band, cost in zip(BANDS, costs, strict=True)]


def render(rates: np.ndarray, k: int) -> RenderableType:
    """The summary for the terminal; without the bands where rewards are not from 0 to 1."""
    known = rates[~np.isnan(rates)]
    if not len(known):
        return f"none of the completions of {len(rates)} prompts was scored"
    title = f"{len(known)} prompts, {k} rollouts each: mean reward {known.mean():.3f}"
    if known.min() < 0 or known.max() > 1:
        return f"{title}; the rewards are not from 0 to 1, so there are no pass rates"
    rows = shares(rates)
    widest = max(share for _, share in rows)
    histogram = Table("pass rate", "share", "", title=title, title_justify="left", box=None)
    for name, share in rows:
        word = {"0": "0: never", "1": "1: always"}.get(name, name)
        histogram.add_row(word, f"{share:.3f}", "█" * round(40 * share / widest))
    return Group(histogram, "", render_bands(rates, k))


def render_bands(rates: np.ndarray, k: int) -> Table:
    """What admission by each of `BANDS` would cost."""
    costs = Table("band", "share inside", "rollouts an admitted group", box=None)
    for low, high, share, cost in bands(rates, k):
        costs.add_row(f"({low:g}, {high:g})", f"{share:.3f}", f"{cost:.1f}" if np.isfinite(cost) else "-")
    return costs
