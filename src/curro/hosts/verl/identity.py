"""Which data set this is: a prompt is a row of verl's training data, whatever its `index` says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from curro.data.identity import fingerprint_of_rows
from curro.data.keys import RowNumbers


class RowIdentity:
    """The keys and the fingerprint of a data set of verl, for `Curriculum(prompts=...)`.

    Row i is what `dataset[i]` gives: the rows of all files, one after the other, as verl has filtered them.
    verl's own `index` is that of a file and 0 where there is none, so it names no prompt.

    Attributes:
        keys: the column `key` where there is one, else the row numbers.
        fingerprint: of prompts and answers (`curro.data.identity`).
        rows: the rows with their columns, for methods that look at them.
        prompt_key: the column of the prompt, text or messages.

    Args:
        dataset: verl's `RLHFDataset`, or another map-style data set.
        prompt_key: `data.prompt_key`.
    """

    def __init__(self, dataset: Any, prompt_key: str = "prompt") -> None:
        frame = getattr(dataset, "dataframe", None)
        self.prompt_key = prompt_key
        self.rows: Sequence[Mapping[str, Any]] = (
            [_plain(dataset[row]) for row in range(len(dataset))] if frame is None else frame
        )
        self.fingerprint = fingerprint_of_rows(self.rows, prompt_key)
        self.keys: Sequence[str] = RowNumbers(len(self.rows))
        if frame is None or "key" in frame.column_names:
            keys = [row.get("key") for row in self.rows] if frame is None else frame["key"]
            self.keys = [str(number if key is None else key) for number, key in enumerate(keys)]

    def __len__(self) -> int:
        return len(self.keys)

    def prompt(self, number: int, row: Mapping[str, Any] | None = None) -> Any:
        """The prompt of a row as the data set has it, text or messages."""
        row = self.rows[number] if row is None else row
        return row.get(self.prompt_key, row.get("raw_prompt"))


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row without its tensors and images."""
    kept = (str, int, float, bool, list, dict, type(None))
    return {name: value for name, value in row.items() if isinstance(value, kept)}
