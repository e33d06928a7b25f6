"""Find prompts by priority: the highest, in proportion, without replacement, by age.

Array kernels that know nothing of curricula. Ids are dense integers 0..size-1. NumPy in, NumPy out.
"""

from curro.methods.index.age_queue import AgeQueue
from curro.methods.index.heap import MaxHeap
from curro.methods.index.race import ExponentialRace
from curro.methods.index.sum_tree import SumTree

__all__ = ["AgeQueue", "ExponentialRace", "MaxHeap", "SumTree"]
