"""Tinker: the cookbook's training loops with a curriculum, on whichever service speaks their protocol.

Tested with tinker-cookbook 0.5.8 and a simulated service, and with cookbook 0.5.7, tinker 0.24.1 and SkyRL
0.3.0 on a CPU; not with Thinking Machines' own service.
"""

from curro.contrib.tinker.dataset import CurriculumDataset
from curro.contrib.tinker.strategy import FilledGroups

__all__ = ["CurriculumDataset", "FilledGroups"]
