"""How many rollouts each chosen prompt gets: one rule a class."""

from curro.allocation.base import Allocation

__all__ = ["Allocation"]
