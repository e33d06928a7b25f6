"""The error of data sets."""

from curro.errors import CurroError


class DataError(CurroError):
    """A data set that cannot be used: says what was wrong, where, and what to do."""
