"""The prompts worth a look: the hardest, the most informative, the regressed, the just learnt."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from curro.runs.reader import LEARNABLE, UNSOLVED, Groups
from curro.text import printable


@dataclass(frozen=True)
class Ranked:
    """A prompt of a ranking.

    Attributes:
        number: the prompt's in the data set.
        key: the data set's key.
        visits: how many of its groups were finished.
        rate: the success rate of its latest group.
        best: the highest success rate of any of its groups.
        best_step: the training step of that group.
        last_step: the training step of the latest.
    """

    number: int
    key: str
    visits: int
    rate: float
    best: float
    best_step: int
    last_step: int


@dataclass(frozen=True)
class Ranking:
    """A title, one sentence on what is in it, and its prompts, best placed first."""

    title: str
    rule: str
    prompts: list[Ranked]


def rankings(groups: Groups, n: int) -> list[Ranking]:
    """The first n prompts of each of the four rankings."""
    rows = np.flatnonzero(groups.latest)
    prompts, rate, last = groups.prompt[rows], groups.rate[rows], groups.step[rows]
    before = groups.state[np.maximum(groups.earlier[rows], 0)]
    size = int(prompts.max()) + 1 if len(prompts) else 0
    visits = np.bincount(groups.prompt, minlength=size)[prompts]
    # the last assignment of a prompt wins: its best group, of equals the latest
    best_row = np.zeros(size, np.int64)
    order = np.argsort(groups.rate, kind="stable")
    best_row[groups.prompt[order]] = order
    best, best_step = groups.rate[best_row[prompts]], groups.step[best_row[prompts]]

    def take(keep: np.ndarray, *by: np.ndarray) -> list[Ranked]:
        inside = np.flatnonzero(keep)
        top = inside[np.lexsort([values[inside] for values in reversed(by)])][:n]
        return [
            Ranked(
                int(prompts[i]),
                groups.key(rows[i]),
                int(visits[i]),
                float(rate[i]),
                float(best[i]),
                int(best_step[i]),
                int(last[i]),
            )
            for i in top
        ]

    return [
        Ranking(
            "Hardest",
            "The lowest best success rate; of equals the most visited.",
            take(best < 0.5, best, -visits),
        ),
        Ranking(
            "Most informative",
            "The largest reward variance in the latest group; of equals the latest visited.",
            take(groups.state[rows] == LEARNABLE, -groups.variance[rows], -last),
        ),
        Ranking(
            "Regressed",
            "At least half succeeded in an earlier group, fewer in the latest; by the size of the fall. "
            "Single groups are noisy: a small fall may be chance.",
            take((best >= 0.5) & (rate < 0.5), rate - best, -last),
        ),
        Ranking(
            "Just learnt",
            "At least half succeed now, and all failed in the group before; the latest first.",
            take((rate >= 0.5) & (groups.earlier[rows] >= 0) & (before == UNSOLVED), -last, -rate),
        ),
    ]


def readable(key: str, width: int) -> str:
    """A key on one line: what would move a cursor or turn a line around is spelt out, the rest is cut."""
    text = printable(key[: 2 * width])
    return text if len(text) <= width else text[: width - 1] + "…"
