"""Find prompts by priority: the highest first, or in proportion.

Array kernels that know nothing of curricula. Ids are dense integers 0..size-1. NumPy in, NumPy out.
"""

from curro.methods.index.heap import MaxHeap
from curro.methods.index.sum_tree import SumTree

__all__ = ["MaxHeap", "SumTree"]
