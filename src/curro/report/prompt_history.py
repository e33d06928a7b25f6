"""One prompt's visits, and the rollouts that were kept of them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from curro.report.figures import reason_name
from curro.runs.reader import Groups, GrowingColumns
from curro.storage.json_lines import BLOCK, GrowingFile, line_starts, parse_columns
from curro.text import printable

VISITS, KEPT = 200, 20
"""The most visits, and the most groups of kept rollouts, of a prompt's history: the latest."""

STATES = ("all wrong", "mixed", "all right")

_TYPES = {"step": pa.int64(), "prompt": pa.int64()}


@dataclass(frozen=True)
class Rollout:
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
    rollouts: list[Rollout]


@dataclass(frozen=True)
class PromptHistory:
    """A prompt and its latest visits, the last first.

    Attributes:
        number, key: the prompt's.
        source: empty where it has none.
        text: the prompt as the model read it, from the kept rollouts; empty where none were kept.
        count: how many visits there were in all.
    """

    number: int
    key: str
    source: str
    text: str
    count: int
    visits: list[Visit]

    @classmethod
    def of(cls, groups: Groups, number: int, kept: RolloutsReader) -> PromptHistory | None:
        """None for a prompt that was never visited."""
        rows = np.flatnonzero(groups.prompt == number)
        if not len(rows):
            return None
        lines = kept.of(number)
        source = int(groups.source[rows[-1]])
        return cls(
            number,
            groups.key(rows[-1]),
            groups.sources[source] if source >= 0 else "",
            str(next(reversed(lines.values()), {}).get("text", "")),
            len(rows),
            [_visit(groups, row, lines) for row in rows[::-1][:VISITS].tolist()],
        )

    def as_json(self) -> dict[str, Any]:
        """Plain values; the key is on one line."""
        return asdict(self) | {"key": printable(self.key[:400])}


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

    def of(self, prompt: int) -> dict[int, dict[str, Any]]:
        """The latest lines of a prompt by their training step, in order."""
        if not len(self._lines):
            return {}
        rows = np.flatnonzero(self._lines["prompt"] == prompt)[-KEPT:]
        found = {}
        with self._file.path.open("rb") as file:
            for row in rows.tolist():
                file.seek(int(self._lines["line"][row]))
                try:
                    line = json.loads(file.readline())
                except ValueError:  # the file was written anew meanwhile
                    continue
                if isinstance(line, dict):
                    found[int(self._lines["step"][row])] = line
        return found


def _visit(groups: Groups, row: int, lines: dict[int, dict[str, Any]]) -> Visit:
    step = int(groups.step[row])
    kept = lines.get(step, {}).get("rollouts", [])
    predicted = {name: float(values[row]) for name, values in groups.predicted.items()}
    return Visit(
        step,
        float(groups.rate[row]),
        STATES[groups.state[row]],
        reason_name(int(groups.reason[row])),
        bool(groups.admitted[row]),
        {name: value for name, value in predicted.items() if value == value},
        [_rollout(one) for one in kept if isinstance(one, dict)],
    )


def _rollout(line: dict[str, Any]) -> Rollout:
    return Rollout(str(line.get("text", "")), line.get("reward"), line.get("tokens"), bool(line.get("cut")))
