"""The candidates of `benchmarks/port/indexes.py`: one class each, built from all priorities.

`select(count)` returns ids (and importance weights where draws are proportional), `update(ids, priorities)`
gives those ids new priorities. What is timed is one of each.
"""

import heapq
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from curro.methods.index import MaxHeap, SumTree

BETA = 0.4


class Candidate:
    label = ""
    largest = 10**7
    """Above this size it takes minutes or gigabytes and is left out."""
    ours = False

    def __init__(self, priorities: np.ndarray, rng: np.random.Generator) -> None:
        self.rng = rng
        self.build(priorities)

    def build(self, priorities: np.ndarray) -> None:
        self.priorities = priorities.copy()

    def update(self, ids: Any, priorities: np.ndarray) -> None:
        self.priorities[ids] = priorities


def importance(probabilities: np.ndarray) -> np.ndarray:
    """(size * probability) ** -beta over the largest of the batch (Schaul et al. 2016); the size cancels."""
    weights = probabilities**-BETA
    weights /= np.maximum.reduce(weights)
    return weights


# ---- top-k


class CurroHeap(Candidate):
    label, ours = "curro MaxHeap", True

    def build(self, priorities):
        self.heap = MaxHeap.from_array(priorities, seed=0)

    def select(self, count):
        return self.heap.pop(count)

    def update(self, ids, priorities):
        self.heap.push(ids, priorities)


class PaperHeap(Candidate):
    """A binary max-heap of ids in a list that looks priorities up, as Fatemi describes it."""

    label = "the paper's heap"

    def build(self, priorities):
        self.priority = priorities.tolist()
        self.heap = list(range(priorities.size))
        for at in range(priorities.size // 2 - 1, -1, -1):
            self.sink(at)

    def sink(self, at):
        heap, priority = self.heap, self.priority
        size = len(heap)
        while True:
            top, left = at, 2 * at + 1
            for child in (left, left + 1):
                if child < size and priority[heap[child]] > priority[heap[top]]:
                    top = child
            if top == at:
                return
            heap[at], heap[top] = heap[top], heap[at]
            at = top

    def rise(self, at):
        heap, priority = self.heap, self.priority
        while at > 0:
            parent = (at - 1) // 2
            if priority[heap[at]] <= priority[heap[parent]]:
                return
            heap[at], heap[parent] = heap[parent], heap[at]
            at = parent

    def select(self, count):
        return [self.extract() for _ in range(count)]

    def extract(self):
        root, last = self.heap[0], self.heap.pop()
        if self.heap:
            self.heap[0] = last
            self.sink(0)
        return root

    def update(self, ids, priorities):
        for i, priority in zip(ids, priorities.tolist(), strict=True):
            self.priority[i] = priority
            self.heap.append(i)
            self.rise(len(self.heap) - 1)


class HeapQ(Candidate):
    label = "heapq"

    def build(self, priorities):
        self.heap = list(zip((-priorities).tolist(), range(priorities.size), strict=True))
        heapq.heapify(self.heap)

    def select(self, count):
        return [heapq.heappop(self.heap)[1] for _ in range(count)]

    def update(self, ids, priorities):
        for pair in zip((-priorities).tolist(), ids, strict=True):
            heapq.heappush(self.heap, pair)


class Sorted(Candidate):
    label, largest = "sortedcontainers", 10**6

    def build(self, priorities):
        self.pairs = importlib.import_module("sortedcontainers").SortedList(
            zip(priorities.tolist(), range(priorities.size), strict=True)
        )

    def select(self, count):
        return [self.pairs.pop()[1] for _ in range(count)]

    def update(self, ids, priorities):
        self.pairs.update(zip(priorities.tolist(), ids, strict=True))


class ArgPartition(Candidate):
    label = "NumPy argpartition"

    def select(self, count):
        return np.argpartition(self.priorities, -count)[-count:]


# ---- in proportion, with replacement


class CurroTree(Candidate):
    label, ours = "curro SumTree", True

    def build(self, priorities):
        self.tree = SumTree.from_array(priorities)

    def select(self, count):
        ids, probabilities = self.tree.sample(self.rng.random(count))
        return ids, importance(probabilities)

    def update(self, ids, priorities):
        self.tree.update(ids, priorities)


class Cpprb(Candidate):
    label = "cpprb"

    def build(self, priorities):
        module, size = importlib.import_module("cpprb"), priorities.size
        self.buffer = module.PrioritizedReplayBuffer(size, {"a": {"dtype": np.int8}}, alpha=1.0, eps=1e-6)
        for part in np.array_split(priorities, max(1, size // 100_000)):
            self.buffer.add(a=np.zeros(part.size, dtype=np.int8), priorities=part)

    def select(self, count):
        sample = self.buffer.sample(count, BETA)
        return sample["indexes"], sample["weights"]

    def update(self, ids, priorities):
        self.buffer.update_priorities(ids, priorities)


class TorchRL(Candidate):
    """Its C++ sum and min trees, as its PrioritizedSampler uses them."""

    label = "torchrl sum + min trees"

    def build(self, priorities):
        module, self.size = importlib.import_module("torchrl._torchrl"), priorities.size
        self.sum, self.min = module.SumSegmentTreeFp32(self.size), module.MinSegmentTreeFp32(self.size)
        self.update(np.arange(self.size), priorities)

    def select(self, count):
        mass = (self.rng.random(count) * self.sum.query(0, self.size)).astype(np.float32)
        ids = np.clip(self.sum.scan_lower_bound(mass), 0, self.size - 1)
        return ids, (self.sum[ids] / max(self.min.query(0, self.size), 1e-6)) ** -BETA

    def update(self, ids, priorities):
        weights = priorities.astype(np.float32)
        self.sum[ids] = weights
        self.min[ids] = weights


class Choice(Candidate):
    label = "NumPy Generator.choice"

    def select(self, count):
        probabilities = self.priorities / self.priorities.sum()
        ids = self.rng.choice(probabilities.size, count, p=probabilities)
        return ids, importance(probabilities[ids])


class CumSum(Candidate):
    label = "NumPy cumsum + searchsorted"

    def select(self, count):
        cumulative = np.cumsum(self.priorities)
        ids = np.searchsorted(cumulative, self.rng.random(count) * cumulative[-1], side="right")
        return ids, importance(self.priorities[ids] / cumulative[-1])


class Floor(Candidate):
    """The work that no index can spare: random numbers, one read and one write per id."""

    label = "floor: random + gather + scatter"

    def build(self, priorities):
        self.priorities = priorities.copy()
        self.ids = np.empty(0, dtype=np.int64)

    def prepare(self, count: int) -> None:
        self.ids = self.rng.integers(0, self.priorities.size, count)

    def select(self, count):
        self.rng.random(count)
        return self.ids, self.priorities[self.ids]


GROUPS: dict[str, list[type[Candidate]]] = {
    "top-k": [CurroHeap, PaperHeap, HeapQ, Sorted, ArgPartition, Floor],
    "proportional": [CurroTree, Cpprb, TorchRL, Choice, CumSum, Floor],
}

NEEDS: dict[type[Candidate], tuple[str, ...]] = {
    Sorted: ("sortedcontainers",),
    Cpprb: ("cpprb",),
    TorchRL: ("torch", "torchrl._torchrl"),
}


def missing(kind: type[Candidate]) -> str | None:
    """Say why a candidate cannot be measured here; None if it can."""
    try:
        for name in NEEDS.get(kind, ()):
            module = importlib.import_module(name)
            if name == "torch":
                module.set_num_threads(1)
    except Exception as error:  # a wheel built for another torch fails in many ways
        return f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"
    return None


def uniform(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.uniform(0.01, 0.99, count)


def tied(rng: np.random.Generator, count: int) -> np.ndarray:
    """p(1 - p) + 1e-4 for groups of 8, of which four in five are solved by all or by none."""
    rate = rng.integers(1, 8, count) / 8
    return np.where(rng.random(count) < 0.8, 0.0, rate * (1 - rate)) + 1e-4


PRIORITIES: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {"uniform": uniform, "tied": tied}
