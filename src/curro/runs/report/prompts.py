"""Find the prompts that are worth a look, and read their visits and the rollouts that were kept of them."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from curro.core.bases import Reason
from curro.core.text import printable
from curro.runs.json_lines import as_object, whole_lines
from curro.runs.reader import LARGEST, LEARNABLE, GroupColumns


@dataclass(frozen=True)
class Ranked:
    """A prompt of a ranking: success rates and training steps of its latest and of its best group.

    Attributes:
        text: the beginning of the prompt; its key where the run does not know the text.
    """

    number: int
    key: str
    text: str
    visits: int
    rate: float
    best: float
    best_step: int
    last_step: int


@dataclass(frozen=True)
class Ranking:
    """A title, the rule in a sentence, and the prompts, the first in front."""

    title: str
    rule: str
    prompts: list[Ranked]


def rankings(groups: GroupColumns, n: int) -> list[Ranking]:
    """Take the first n prompts of each of the three rankings."""
    rows = np.flatnonzero(groups.latest)
    prompts, rate, last = groups.prompt[rows], groups.rate[rows], groups.step[rows]
    size = int(prompts.max()) + 1 if len(prompts) else 0
    visits = np.bincount(groups.prompt, minlength=size)[prompts]
    # the last assignment of a prompt wins: its best group, the latest of equals
    best_row = np.zeros(size, np.int64)
    order = np.argsort(groups.rate, kind="stable")
    best_row[groups.prompt[order]] = order
    best, best_step = groups.rate[best_row[prompts]], groups.step[best_row[prompts]]

    def take(keep: np.ndarray, *by: np.ndarray) -> list[Ranked]:
        inside = np.flatnonzero(keep)
        top = inside[np.lexsort([values[inside] for values in reversed(by)])][:n]
        return [
            Ranked(
                int(prompts[i]), groups.key(rows[i]), groups.text(rows[i]), int(visits[i]), float(rate[i]),
                float(best[i]), int(best_step[i]), int(last[i]),
            )
            for i in top
        ]  # fmt: skip

    return [
        Ranking(
            "Hardest",
            "The lowest best success rate, then the most visits.",
            take(best < 0.5, best, -visits),
        ),
        Ranking(
            "Most informative",
            "The largest reward variance in the latest group, then the latest visit.",
            take(groups.state[rows] == LEARNABLE, -groups.variance[rows], -last),
        ),
        Ranking(
            "Regressed",
            "At least half succeeded in an earlier group, fewer in the latest. A small fall may be chance.",
            take((best >= 0.5) & (rate < 0.5), rate - best, -last),
        ),
    ]


VISITS, KEPT = 200, 20
"""The most visits, and the most groups of kept rollouts, of a prompt's history: the latest."""

STATES = ("all wrong", "mixed", "all right")

KeptLines = dict[int, dict[tuple[int, str], dict[str, Any]]]
"""By prompt, then by training step and ticket: the line of a group of which rollouts were kept."""


@dataclass(frozen=True)
class KeptRollout:
    """One completion; `text` is what a model wrote, hostile."""

    text: str
    reward: float | None
    tokens: int | None
    is_cut: bool

    @property
    def facts(self) -> str:
        """Its reward, and if they are known its length and whether it was cut."""
        parts = ["no reward" if self.reward is None else f"reward {self.reward:g}"]
        parts += [] if self.tokens is None else [f"{self.tokens} tokens"]
        return ", ".join([*parts, *["cut at the limit"] * self.is_cut])


@dataclass(frozen=True)
class Visit:
    """One group of a prompt, with the rollouts that were kept of it.

    Attributes:
        state: one of `STATES`.
        predicted: what the method had predicted, in words; for METIS, the policy's judgment.
    """

    step: int
    rate: float
    state: str
    reason: str
    is_admitted: bool
    predicted: str
    rollouts: list[KeptRollout]


@dataclass(frozen=True)
class PromptHistory:
    """A prompt and its latest visits, the last first.

    Attributes:
        title: the beginning of the prompt; its key where the run does not know the text.
        text: the prompt as the model read it, from the kept rollouts; empty if none were kept.
        count: the number of all visits.
    """

    number: int
    key: str
    title: str
    source: str
    text: str
    count: int
    visits: list[Visit]

    @classmethod
    def of(cls, groups: GroupColumns, number: int, kept: KeptLines) -> PromptHistory | None:
        """Read a prompt's history; None for a prompt that was never visited."""
        rows = np.flatnonzero(groups.prompt == number)
        if not len(rows):
            return None
        lines, last = kept.get(number, {}), rows[-1]
        source = int(groups.source[last])
        return cls(
            number,
            groups.key(last),
            groups.text(last),
            groups.sources[source] if source >= 0 else "",
            str(next(reversed(lines.values()), {}).get("text", "")),
            len(rows),
            [_visit(groups, row, lines) for row in rows[::-1][:VISITS].tolist()],
        )


_START = re.compile(rb'\{"step": (\d{1,15}), "prompt": (\d{1,15}),')
"""How a line of kept rollouts begins."""


def kept_rollouts(path: Path, prompts: Iterable[int]) -> KeptLines:
    """Read the lines of the latest `KEPT` groups of each of these prompts of which rollouts were kept."""
    latest = {prompt: deque[tuple[int, bytes]](maxlen=KEPT) for prompt in prompts}
    for line in whole_lines(path):
        if (start := _START.match(line)) and int(start[2]) in latest:
            latest[int(start[2])].append((int(start[1]), line))
    kept: KeptLines = {}
    for prompt, lines in latest.items():
        kept[prompt] = {}
        for step, line in lines:
            with suppress(ValueError):  # it is damaged
                group = as_object(line)
                kept[prompt][step, str(group.get("ticket"))] = group
    return kept


def spelt_out(text: str, most: int) -> str:
    """A model's or a data set's text, cut, with all that would steer a terminal or a page spelt out."""
    cut = f"\n… {len(text) - most:,} more characters" if len(text) > most else ""
    return "\n".join(printable(line) for line in re.split(r"\r?\n", text[:most])) + cut


def reason_name(value: int) -> str:
    """Write why a prompt was chosen: "exploration", or "reason 9" for a method's own."""
    known = {int(reason): reason.name for reason in Reason}
    return known.get(value, f"reason {value}").lower().replace("_", ", ")


def _visit(groups: GroupColumns, row: int, lines: dict[tuple[int, str], dict[str, Any]]) -> Visit:
    step = int(groups.step[row])
    kept = lines.get((step, str(groups.tickets[row])), {}).get("rollouts")
    kept = kept if isinstance(kept, list) else []
    predicted = {name.removeprefix("predicted_"): values[row] for name, values in groups.predicted.items()}
    return Visit(
        step,
        float(groups.rate[row]),
        STATES[groups.state[row]],
        reason_name(int(groups.reason[row])),
        bool(groups.admitted[row]),
        ", ".join(f"{name} {value:.2f}" for name, value in predicted.items() if value == value),
        [_rollout(rollout) for rollout in kept if isinstance(rollout, dict)],
    )


def _rollout(line: dict[str, Any]) -> KeptRollout:
    reward, tokens = line.get("reward"), line.get("tokens")
    return KeptRollout(
        str(line.get("text", "")),
        reward if isinstance(reward, int | float) and abs(reward) < LARGEST else None,
        tokens if type(tokens) is int else None,
        bool(line.get("cut")),
    )
