"""Where the learning signal of a data set lies, by the theory of difficulty filtering."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from curro import theory
from curro.report.drawing import COLOURS, Key, Picture, draw
from curro.report.history import History

BETA = 1.0
"""Weight of the KL penalty, in reward ranges."""
_QUARTERS = (range(0, 9, 2), ["0", "0.25", "0.5", "0.75", "1"])


def learnability(history: History) -> Picture | None:
    """The divergence (13) of the prompts seen, summed by success rate, at their first and latest visits.

    Drawn as shares of what it would be if every prompt were the most learnable.
    """
    groups = history.groups
    if not len(groups.prompt):
        return None
    most = float(theory.reverse_kl(theory.most_learnable(BETA), BETA))
    rate = np.clip(groups.rate, 0, 1)
    spread = rate * (1 - rate)
    flat = (groups.variance <= 0) | (spread <= 0)
    share = np.where(flat, 0.0, theory.reverse_kl(np.where(flat, 0.5, rate), BETA) / most)
    parts = [("at the first visit", groups.first), ("at the latest visit", groups.latest)]
    eighths = np.rint(8 * rate).astype(int)

    def paint(axes: Axes) -> None:
        for i, (_, rows) in enumerate(parts):
            height = np.bincount(eighths[rows], weights=share[rows], minlength=9) / rows.sum()
            axes.bar(np.arange(9) + 0.4 * (i - 0.5), height, 0.4, color=COLOURS[i])
        axes.set_xticks(*_QUARTERS)
        axes.grid(axis="x", visible=False)
        axes.set_xlabel("success rate of a group")
        axes.set_ylabel("learnability")

    first, latest = (float(share[rows].mean()) for _, rows in parts)
    none = flat[groups.latest].mean()
    caption = (
        f"The divergence of the policy from its optimum under a KL penalty of {BETA:g}, for 0/1 rewards of "
        f"these success rates, as a share of the most that any prompt can have: {first:.0%} at first, "
        f"{latest:.0%} at the latest visits. {none:.0%} of the prompts seen have none now."
    )
    legend = [Key(name, i) for i, (name, _) in enumerate(parts)]
    return Picture("Learnability of the data set", draw("learnability", paint), caption, legend)
