"""Tinker: the cookbook's training loops with a curriculum, on whichever service speaks their protocol."""

from curro.contrib.tinker.dataset import CurriculumDataset
from curro.contrib.tinker.strategy import FilledGroups

__all__ = ["CurriculumDataset", "FilledGroups"]
