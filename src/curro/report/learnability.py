"""Where the learning signal of a data set lies, by the theory of difficulty filtering."""

from __future__ import annotations

import numpy as np

from curro import theory
from curro.report.charts import Chart, Series
from curro.report.figures import QUARTERS
from curro.report.history import History

BETA = 1.0
"""Weight of the KL penalty, in reward ranges."""


def learnability(history: History) -> Chart | None:
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

    series = [
        Series(name, np.bincount(eighths[rows], weights=share[rows], minlength=9) / rows.sum(), colour=i)
        for i, (name, rows) in enumerate(parts)
    ]
    first, latest = (float(share[rows].mean()) for _, rows in parts)
    none = flat[groups.latest].mean()
    caption = (
        f"The divergence of the policy from its optimum under a KL penalty of {BETA:g}, for 0/1 rewards of "
        f"these success rates, as a share of the most that any prompt can have: {first:.0%} at first, "
        f"{latest:.0%} at the latest visits. {none:.0%} of the prompts seen have none now."
    )
    return Chart(
        "learnability", "Learnability of the data set", "bars", series, "success rate of a group",
        "learnability", caption, ticks=QUARTERS, y_range=(0, None),
    )  # fmt: skip
