"""Which finished groups are trained on: one gate a class."""

from curro.admission.gate import Gate

__all__ = ["Gate"]
