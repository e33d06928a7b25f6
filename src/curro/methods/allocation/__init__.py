"""How many rollouts each chosen prompt gets: one rule a class."""

from curro.core.bases import Allocation

__all__ = ["Allocation"]
