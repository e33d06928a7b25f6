"""How many rollouts each chosen prompt gets: one rule a class."""

from curro.core.allocation import Allocation

__all__ = ["Allocation"]
