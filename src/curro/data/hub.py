"""Rows of a data set on the hub."""

from __future__ import annotations

from curro.data.errors import DataError
from curro.data.raw import RawRow, Rows


def read(name: str, config: str | None, split: str) -> Rows:
    """Every row of one split. Loading scripts are never run.

    Raises:
        DataError: no such data set, configuration or split; no network; `datasets` not installed.
    """
    try:
        import datasets
    except ImportError:
        raise DataError(f"{name!r} is on the hub: pip install 'curro[train]' to load from there") from None
    try:
        table = datasets.load_dataset(name, config, split=split)
    # load_dataset raises ValueError for a wrong split or configuration, OSErrors of several libraries for the
    # network, and its own classes for what the hub answers
    except (ValueError, OSError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        reason = " ".join(str(error).split())
        raise DataError(
            f"there is no file or folder {name!r} here, and from the hub the split {split!r}"
            f"{f' of the configuration {config!r}' if config else ''} cannot be loaded: {reason}"
        ) from error
    for number, row in enumerate(table):
        yield RawRow(name, f", row {number}", row)
