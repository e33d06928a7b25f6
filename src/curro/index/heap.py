"""A max-heap over prompts: the highest priorities first, ties in a random and repeatable order."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from curro.index import heap_kernels as kernels
from curro.index.checks import (
    Floats,
    Ids,
    check_ids,
    check_size,
    check_state,
    check_uniforms,
    check_values,
    on_a_cache_line,
)
from curro.index.mixing import salt

_LARGEST = float(np.finfo(np.float64).max)


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
        self._key: Floats = on_a_cache_line(self.size + 16, np.float64)
        self._item: NDArray[np.uint64] = on_a_cache_line(self.size + 16, np.uint64)
        self._slot_of = np.zeros(self.size, dtype=np.int32)
        self._pushes = np.zeros(self.size, dtype=np.uint32)
        self._end = kernels.ROOT

    @classmethod
    def from_array(cls, priorities: ArrayLike, *, seed: int) -> "MaxHeap":
        """A heap that holds every id, id i with priorities[i]: as one push of them all, but in O(size)."""
        keys = check_values(priorities, None, -_LARGEST, np.inf, "priority", _RULE)
        heap = cls(keys.size, seed=seed)
        heap._pushes[:] = 1
        heap._fill(np.arange(keys.size), keys)
        return heap

    def push(self, ids: ArrayLike, priorities: ArrayLike) -> None:
        """Add ids, or give those present a new priority. Of an id that is repeated the last one counts.

        `priorities` is one number for each id, or one for all: any finite number, or +inf. NaN and -inf
        are refused with a ValueError that names the id, and nothing is pushed.
        """
        at = check_ids(ids, self.size)
        keys = check_values(priorities, at, -_LARGEST, np.inf, "priority", _RULE)
        self._end = kernels.push(
            self._key, self._item, self._slot_of, self._pushes, self._salt, self._end, at, keys
        )

    def pop(self, k: int) -> Ids:
        """Take out the min(k, len) ids of the highest priority; returns them, the highest first."""
        return self.pop_with_priorities(k)[0]

    def pop_with_priorities(self, k: int) -> tuple[Ids, Floats]:
        """As `pop`; returns the ids and the priorities they had."""
        if k < 0:
            raise ValueError(f"cannot pop {k} ids")
        ids = np.empty(min(int(k), len(self)), dtype=np.int64)
        keys = np.empty(ids.size, dtype=np.float64)
        if ids.size:
            self._end = kernels.pop(self._key, self._item, self._slot_of, self._end, ids, keys)
        return ids, keys

    def pop_uniform(self, uniforms: ArrayLike) -> Ids:
        """Take out ids uniformly at random, one for each number in [0, 1), at most all; returns them.

        What a number stands for depends on the number and on which ids are present, on nothing else: it
        is hashed into a row of random ids, of which the first one present is taken. Where 256 find none
        (few ids are left) it stands for a rank among those present, which costs O(size) once a call.
        """
        drawn = check_uniforms(uniforms)[: len(self)]
        out = np.empty(drawn.size, dtype=np.int64)
        present: Ids | None = None
        done = 0
        while True:
            self._end, done = kernels.pop_uniform(
                self._key, self._item, self._slot_of, self.size, self._end, drawn, done, out
            )
            if done == drawn.size:
                return out
            present = self.ids() if present is None else present[self._slot_of[present] != 0]
            out[done] = present[out[done]]
            self.discard(out[done : done + 1])
            done += 1

    def discard(self, ids: ArrayLike) -> None:
        """Take ids out wherever they are; those absent are ignored."""
        at = check_ids(ids, self.size)
        self._end = kernels.discard(self._key, self._item, self._slot_of, self._end, at)

    def __len__(self) -> int:
        return int(self._end - kernels.ROOT)

    def contains(self, ids: ArrayLike) -> NDArray[np.bool_]:
        """Whether each id is present."""
        return self._slot_of[check_ids(ids, self.size)] != 0

    def priorities(self, ids: ArrayLike) -> Floats:
        """The priority of each id; a ValueError names the first that is absent."""
        at = check_ids(ids, self.size)
        slots = self._slot_of[at]
        if not slots.all():
            raise ValueError(f"id {at[slots == 0][0]} is not in the heap")
        return self._key[slots]

    def ids(self) -> Ids:
        """The ids present, ascending."""
        return np.flatnonzero(self._slot_of)

    def state_dict(self) -> dict[str, Any]:
        """Arrays and integers from which `load_state_dict` restores the heap exactly; copies, not views.

        `ids` (int32, ascending) and their `priorities`, and `pushes` (uint32, one for each id of the
        heap's size, or none where nothing was ever pushed).
        """
        ids = self.ids()
        return {
            "kind": "MaxHeap",
            "size": self.size,
            "seed": self.seed,
            "ids": ids.astype(np.int32),
            "priorities": self._key[self._slot_of[ids]],
            "pushes": self._pushes.copy() if self._pushes.any() else self._pushes[:0].copy(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Become the heap that was saved; a ValueError refuses a state of another size or structure."""
        check_state(state, "MaxHeap", self.size)
        ids = check_ids(state["ids"], self.size)
        keys = check_values(state["priorities"], ids, -_LARGEST, np.inf, "priority", _RULE)
        MaxHeap.__init__(self, self.size, seed=state["seed"])
        if len(state["pushes"]):
            self._pushes[:] = state["pushes"]
        self._fill(ids, keys)

    def _fill(self, ids: Ids, keys: Floats) -> None:
        self._end = kernels.heapify(self._key, self._item, self._slot_of, self._pushes, self._salt, ids, keys)


_RULE = "a priority is a finite number or +inf"
