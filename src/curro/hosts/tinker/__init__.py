"""Tinker: the cookbook's training loops with a curriculum, on whichever service speaks their protocol."""

from curro.hosts.tinker.dataset import CurriculumDataset
from curro.hosts.tinker.strategy import FilledGroups

__all__ = ["CurriculumDataset", "FilledGroups"]
