"""The prompts worth a look: the hardest, the most informative, the regressed, the just learnt."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from curro.core.text import printable
from curro.runs.json_lines import BLOCK, GrowingFile, as_object, line_starts, parse_columns
from curro.runs.reader import LARGEST, LEARNABLE, UNSOLVED, GroupColumns, GrowingColumns
from curro.runs.report.figures import reason_name


@dataclass(frozen=True)
class Ranked:
    """A prompt of a ranking.

    Attributes:
        number: the prompt's in the data set.
        key: the data set's key.
        text: the beginning of the prompt; its key where the run does not know the text.
        visits: how many of its groups were finished.
        rate: the success rate of its latest group.
        best: the highest success rate of any of its groups.
        best_step: the training step of that group.
        last_step: the training step of the latest.
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
    """A title, one sentence on what is in it, and its prompts, best placed first."""

    title: str
    rule: str
    prompts: list[Ranked]


def rankings(groups: GroupColumns, n: int) -> list[Ranking]:
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
                groups.text(rows[i]),
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


VISITS, KEPT = 200, 20
"""The most visits, and the most groups of kept rollouts, of a prompt's history: the latest."""

STATES = ("all wrong", "mixed", "all right")

_TYPES = {"step": pa.int64(), "prompt": pa.int64()}


@dataclass(frozen=True)
class KeptRollout:
    """One completion; `text` is what a model wrote, hostile."""

    text: str
    reward: float | None
    tokens: int | None
    is_cut: bool


@dataclass(frozen=True)
class Visit:
    """One group of a prompt.

    Attributes:
        step: the training step.
        rate: the group's success rate.
        state: "all wrong", "mixed" or "all right".
        reason: why the prompt was chosen.
        is_admitted: whether the group was trained on.
        predicted: what the method had predicted, by name.
        rollouts: those that were kept.
    """

    step: int
    rate: float
    state: str
    reason: str
    is_admitted: bool
    predicted: dict[str, float]
    rollouts: list[KeptRollout]


@dataclass(frozen=True)
class PromptHistory:
    """A prompt and its latest visits, the last first.

    Attributes:
        number, key: the prompt's.
        source: empty where it has none.
        title: the beginning of the prompt; its key where the run does not know the text.
        text: the prompt as the model read it, from the kept rollouts; empty where none were kept.
        count: how many visits there were in all.
    """

    number: int
    key: str
    title: str
    source: str
    text: str
    count: int
    visits: list[Visit]

    @classmethod
    def of(cls, groups: GroupColumns, number: int, kept: RolloutsReader) -> PromptHistory | None:
        """None for a prompt that was never visited."""
        rows = np.flatnonzero(groups.prompt == number)
        if not len(rows):
            return None
        lines = kept.of(number)
        source = int(groups.source[rows[-1]])
        return cls(
            number,
            groups.key(rows[-1]),
            groups.text(rows[-1]),
            groups.sources[source] if source >= 0 else "",
            str(next(reversed(lines.values()), {}).get("text", "")),
            len(rows),
            [_visit(groups, row, lines) for row in rows[::-1][:VISITS].tolist()],
        )

    def as_json(self) -> dict[str, Any]:
        """Plain values; the key and the title are on one line."""
        return asdict(self) | {"key": printable(self.key[:400]), "title": printable(self.title[:400])}


class RolloutsReader:
    """Knows where each group's line of kept rollouts is; texts are read when they are asked for.

    Attributes:
        left: bytes that have not been read yet.
        version: grows with all that is read.
    """

    def __init__(self, path: Path) -> None:
        self._file = GrowingFile(path)
        self.left = self.version = 0
        self._lines = GrowingColumns()

    def __len__(self) -> int:
        return len(self._lines)

    def advance(self, most: int = BLOCK) -> bool:
        """Read the next block; whether there is more to read now."""
        block = self._file.read(most)
        self.left = block.left
        if not block.start and len(self._lines):
            self._lines = GrowingColumns()
        if not block.data:
            return False
        table = parse_columns(block, self._file.path, _TYPES, tuple(_TYPES))
        columns = {name: table[name].to_numpy() for name in _TYPES} | {"line": line_starts(block)}
        self._lines.append(columns, table.num_rows)
        self.version += 1
        return bool(block.left)

    def of(self, prompt: int) -> dict[tuple[int, str], dict[str, Any]]:
        """The latest lines of a prompt by their training step and ticket, in order.

        Earlier versions of curro wrote no ticket, which is "None" then.
        """
        if not len(self._lines):
            return {}
        rows = np.flatnonzero(self._lines["prompt"] == prompt)[-KEPT:]
        lines = {}
        with self._file.path.open("rb") as file:
            for row in rows.tolist():
                file.seek(int(self._lines["line"][row]))
                with suppress(ValueError):  # the file was written anew meanwhile
                    line = as_object(file.readline())
                    lines[int(self._lines["step"][row]), str(line.get("ticket"))] = line
        return lines


def _visit(groups: GroupColumns, row: int, lines: dict[tuple[int, str], dict[str, Any]]) -> Visit:
    step = int(groups.step[row])
    kept = lines.get((step, groups.ticket(row)), {}).get("rollouts")
    kept = kept if isinstance(kept, list) else []
    predicted = {name: float(values[row]) for name, values in groups.predicted.items()}
    return Visit(
        step,
        float(groups.rate[row]),
        STATES[groups.state[row]],
        reason_name(int(groups.reason[row])),
        bool(groups.admitted[row]),
        {name: value for name, value in predicted.items() if value == value},
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
