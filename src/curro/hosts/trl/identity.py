"""Which data set this is: what a curriculum needs to know of a `datasets.Dataset`."""

from __future__ import annotations

import hashlib
import json

from datasets import Dataset


class RowIdentity:
    """The keys and the fingerprint of a data set, for `Curriculum(prompts=...)`.

    Attributes:
        keys: the column `key` where there is one, else the row numbers.
        fingerprint: SHA-256, 64 hex digits, over keys and prompts in their order.
        rows: the data set, for methods that look at texts or columns.
    """

    def __init__(self, dataset: Dataset) -> None:
        column = dataset["key"] if "key" in dataset.column_names else range(len(dataset))
        self.keys = [str(key) for key in column]
        digest = hashlib.sha256()
        prompts = dataset["prompt"] if "prompt" in dataset.column_names else [None] * len(dataset)
        for key, prompt in zip(self.keys, prompts, strict=True):
            digest.update(json.dumps([key, prompt], sort_keys=True).encode() + b"\n")
        self.fingerprint = digest.hexdigest()
        self.rows = dataset
