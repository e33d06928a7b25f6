"""The learnability picture's numbers, worked by hand."""

import math
import re
from types import SimpleNamespace

import numpy as np

from curro.runs.report.sections import learnability


def history(first, latest):
    """Two visits of each prompt with these success rates, of 0/1 rewards."""
    rate = np.array([*first, *latest], float)
    is_first = np.arange(len(rate)) < len(first)
    return SimpleNamespace(
        groups=SimpleNamespace(
            prompt=np.tile(np.arange(len(first)), 2),
            rate=rate,
            variance=rate * (1 - rate),
            first=is_first,
            latest=~is_first,
        )
    )


def test_shares_of_the_most_learnable_prompt():
    # (13) at beta = 1: D(p) = log(1 - p + p e) - p, largest at p = 1 - 1/(e - 1) = 0.418
    def divergence(p):
        return math.log(1 - p + p * math.e) - p

    most = divergence(1 - 1 / (math.e - 1))
    first = divergence(0.25) / most / 2
    latest = (divergence(0.5) + divergence(0.75)) / most / 2
    caption = learnability(history([0.25, 0.0], [0.5, 0.75])).caption
    assert re.findall(r"(\d+)%", caption) == [f"{100 * first:.0f}", f"{100 * latest:.0f}", "0"]
    solved = learnability(history([0.5, 0.5], [1.0, 0.5])).caption
    assert re.findall(r"(\d+)%", solved)[-1] == "50"


def test_nothing_seen_nothing_shown():
    assert learnability(history([], [])) is None
