"""Rows of a data set on the hub."""

from __future__ import annotations

from typing import TYPE_CHECKING

from curro.data.errors import DataError
from curro.data.raw import RawRow, Rows

if TYPE_CHECKING:
    import datasets


def read(name: str, dataset: datasets.Dataset) -> Rows:
    """Every row of a data set."""
    for number, row in enumerate(dataset):
        yield RawRow(name, f", row {number}", row)


def load(name: str, config: str | None, split: str) -> datasets.Dataset:
    """One split; one file, where the configuration is the name of a `.jsonl` file there.

    Loading scripts are never run.

    Raises:
        DataError: no such data set, configuration or split; no network; `datasets` not installed.
    """
    try:
        import datasets
    except ImportError:
        raise DataError(f"{name!r} is on the hub: pip install 'curro[train]' to load from there") from None
    try:
        if config is not None and config.endswith(".jsonl"):
            return datasets.load_dataset("json", data_files=f"hf://datasets/{name}/{config}", split=split)
        return datasets.load_dataset(name, config, split=split)
    # load_dataset raises ValueError for a wrong split or configuration, OSErrors of several libraries for the
    # network, and its own classes for what the hub answers
    except (ValueError, OSError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        reason = " ".join(str(error).split())
        raise DataError(
            f"there is no file or folder {name!r} here, and from the hub the split {split!r}"
            f"{f' of the configuration {config!r}' if config else ''} cannot be loaded: {reason}"
        ) from error
