"""A max-heap over prompts: the highest priorities first, ties in a random and repeatable order."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from curro.methods.index import heap_kernels as kernels
from curro.methods.index.checks import (
    Floats,
    Ids,
    check_ids,
    check_size,
    check_state,
    check_uniforms,
    check_values,
)
from curro.methods.index.mixing import another, salt

_LARGEST = float(np.finfo(np.float64).max)
_RULE = "a priority is a finite number or +inf"


class MaxHeap:
    """Top-k with deletion over ids 0..size-1, as in prioritized replay for RL post-training.

    Fatemi, "Prioritized Replay for RL Post-training", section 3: the highest priority is drawn, leaves the
    heap, and comes back with a new priority. Every operation costs O(log size) an id; 24 bytes an id,
    which the system hands over only as they are used, so an empty heap is nearly free.

    The order of what comes out is total: the priority first, then a tie-breaker, which is a hash of
    (seed, id, how often this id was pushed). So tied ids come out in a random order, each equally likely
    to be first; no stream of random numbers is consumed; and neither the order in which different ids were
    pushed, nor how the pushes were batched, nor a save and a load changes what `pop` gives.
    """

    def __init__(self, size: int, *, seed: int) -> None:
        self.size = check_size(size)
        self.seed = int(seed)
        self._salt = salt(self.seed, 1)
        self._record: NDArray[np.uint64] = np.zeros((self.size + 1, 2), np.uint64)
        self._by_id = np.zeros((self.size, 2), np.uint32)
        self._count = 0

    @classmethod
    def from_array(cls, priorities: ArrayLike, *, seed: int) -> "MaxHeap":
        """A heap that holds every id, id i with priorities[i]: one push of them all."""
        keys = check_values(priorities, None, -_LARGEST, np.inf, "priority", _RULE)
        heap = cls(keys.size, seed=seed)
        heap._put(np.arange(keys.size), keys)
        return heap

    def push(self, ids: ArrayLike, priorities: ArrayLike) -> None:
        """Add ids, or give those present a new priority. The last of repeated ids counts.

        `priorities` is one number for each id, or one for all: any finite number, or +inf. NaN and -inf
        are refused with a ValueError that names the id, and nothing is pushed.
        """
        at = check_ids(ids, self.size)
        self._put(at, check_values(priorities, at, -_LARGEST, np.inf, "priority", _RULE))

    def pop(self, k: int) -> Ids:
        """Take out the min(k, len) ids of the highest priority; returns them, the highest first.

        Raises:
            ValueError: k < 0.
        """
        if k < 0:
            raise ValueError(f"cannot pop {k} ids")
        ids = np.empty(min(int(k), len(self)), np.int64)
        self._count = int(kernels.pop(self._record, self._by_id, self._count, ids))
        return ids

    def pop_uniform(self, uniforms: ArrayLike) -> Ids:
        """Take out ids uniformly at random, one for each number in [0, 1), at most all; returns them.

        What a number stands for depends on the number and on which ids are present, on nothing else: it
        is hashed into a row of random ids, of which the first one present is taken. Where 256 find none
        (few ids are left) it stands for a rank among those present, which costs O(size).
        """
        uniforms_P = check_uniforms(uniforms)[: len(self)]
        ids = np.empty(uniforms_P.size, np.int64)
        for a, uniform in enumerate(uniforms_P):
            ids[a] = kernels.pick(self._by_id, uniform)
            if ids[a] < 0:
                ids[a] = self.ids()[int(another(uniform, kernels.TRIES) * len(self))]
            self.discard(ids[a : a + 1])
        return ids

    def discard(self, ids: ArrayLike) -> None:
        """Take ids out wherever they are; those absent are ignored."""
        at = check_ids(ids, self.size)
        self._put(at, np.full(at.size, -np.inf))

    def __len__(self) -> int:
        return self._count

    def priorities(self, ids: ArrayLike) -> Floats:
        """The priority of each id; a ValueError names the first that is absent."""
        at = check_ids(ids, self.size)
        slots = self._by_id[at, 0]
        if not slots.all():
            raise ValueError(f"id {at[slots == 0][0]} is not in the heap")
        ordered, sign = self._record[slots, 0], np.uint64(1 << 63)
        return np.where(ordered & sign, ordered ^ sign, ~ordered).view(np.float64)

    def ids(self) -> Ids:
        """The ids present, ascending."""
        return np.flatnonzero(self._by_id[:, 0])

    def state_dict(self) -> dict[str, Any]:
        """Arrays and integers from which `load_state_dict` restores the heap exactly; copies, not views.

        `ids` (int32, ascending) and their `priorities`, and `pushes` (uint32, one for each id of the
        heap's size, or none if nothing was ever pushed).
        """
        ids, pushes = self.ids(), self._by_id[:, 1]
        return {
            "size": self.size,
            "seed": self.seed,
            "ids": ids.astype(np.int32),
            "priorities": self.priorities(ids),
            "pushes": pushes.copy() if pushes.any() else pushes[:0].copy(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Become the heap that was saved; a ValueError refuses a state of another size."""
        check_state(state, self.size)
        ids = check_ids(state["ids"], self.size)
        keys = check_values(state["priorities"], ids, -_LARGEST, np.inf, "priority", _RULE)
        if len(state["pushes"]) not in (0, self.size):
            raise ValueError(f"the state counts the pushes of {len(state['pushes'])} ids of {self.size}")
        MaxHeap.__init__(self, self.size, seed=state["seed"])
        if len(state["pushes"]):
            self._by_id[:, 1] = state["pushes"]
        # with the tie-breakers of their last push
        self._by_id[ids, 1] -= np.uint32(1)
        self._put(ids, keys)

    def _put(self, ids: Ids, keys: Floats) -> None:
        bits = keys.view(np.uint64)
        self._count = int(kernels.put(self._record, self._by_id, self._salt, self._count, ids, bits))
