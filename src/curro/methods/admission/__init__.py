"""Which finished groups are trained on: one gate a class."""

from curro.core.admission import Gate

__all__ = ["Gate"]
