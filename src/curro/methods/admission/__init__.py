"""Which finished groups are trained on: one gate a class."""

from curro.core.bases import Gate

__all__ = ["Gate"]
