"""Which data set this is: what a curriculum needs to know of a `datasets.Dataset`."""

from __future__ import annotations

from collections.abc import Sequence

from datasets import Dataset

from curro.data.identity import fingerprint_of_rows
from curro.data.keys import RowNumbers


class RowIdentity:
    """The keys and the fingerprint of a data set, for `Curriculum(prompts=...)`.

    Attributes:
        keys: the column `key` where there is one, else the row numbers.
        fingerprint: of prompts and answers (`curro.data.identity`).
        rows: the data set, for methods that look at texts or columns.
    """

    def __init__(self, dataset: Dataset) -> None:
        self.keys: Sequence[str] = RowNumbers(len(dataset))
        if "key" in dataset.column_names:
            self.keys = [str(key) for key in dataset["key"]]
        self.fingerprint = fingerprint_of_rows(dataset)
        self.rows = dataset
