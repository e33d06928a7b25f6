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
    on_a_cache_line,
)
from curro.methods.index.mixing import salt

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
        self._record: NDArray[np.uint64] = on_a_cache_line(2 * (self.size + 8), np.uint64)
        self._by_id = np.zeros((self.size, 2), dtype=np.uint32)
        self._end = kernels.ROOT

    @classmethod
    def from_array(cls, priorities: ArrayLike, *, seed: int) -> "MaxHeap":
        """A heap that holds every id, id i with priorities[i]: one push of them all."""
        keys = check_values(priorities, None, -_LARGEST, np.inf, "priority", _RULE)
        heap = cls(keys.size, seed=seed)
        heap._put(np.arange(keys.size), keys)
        return heap

    def push(self, ids: ArrayLike, priorities: ArrayLike) -> None:
        """Add ids, or give those present a new priority. Of an id that is repeated the last one counts.

        `priorities` is one number for each id, or one for all: any finite number, or +inf. NaN and -inf
        are refused with a ValueError that names the id, and nothing is pushed.
        """
        at = check_ids(ids, self.size)
        keys = check_values(priorities, at, -_LARGEST, np.inf, "priority", _RULE)
        self._put(at, keys)

    def pop(self, k: int) -> Ids:
        """Take out the min(k, len) ids of the highest priority; returns them, the highest first."""
        return self.pop_with_priorities(k)[0]

    def pop_with_priorities(self, k: int) -> tuple[Ids, Floats]:
        """As `pop`; returns the ids and the priorities they had.

        Raises:
            ValueError: k < 0.
        """
        if k < 0:
            raise ValueError(f"cannot pop {k} ids")
        k = min(int(k), len(self))
        ids, slots = np.empty((2, k), dtype=np.int64)
        keys = np.empty(k)
        if k:
            edge, slot = np.zeros(2 * (k + 8), dtype=np.uint64), np.empty(k + 8, dtype=np.int64)
            sinking, filled = np.empty((2, k), dtype=np.uint64), np.empty(k, dtype=np.int64)
            starts = np.empty(18, dtype=np.int64)
            bits = keys.view(np.uint64)
            self._end = int(
                kernels.pop(
                    self._record,
                    self._by_id,
                    self._end,
                    ids,
                    bits,
                    slots,
                    edge,
                    slot,
                    *sinking,
                    filled,
                    starts,
                )
            )
        return ids, keys

    def pop_uniform(self, uniforms: ArrayLike) -> Ids:
        """Take out ids uniformly at random, one for each number in [0, 1), at most all; returns them.

        What a number stands for depends on the number and on which ids are present, on nothing else: it
        is hashed into a row of random ids, of which the first one present is taken. Where 256 find none
        (few ids are left) it stands for a rank among those present, which costs O(size) once a call.
        """
        uniforms_P = check_uniforms(uniforms)[: len(self)]
        ids = np.empty(uniforms_P.size, dtype=np.int64)
        slots = self._by_id[:, 0]
        present: Ids | None = None
        done = kernels.pick(self._by_id, len(self), uniforms_P, 0, ids)
        while done < uniforms_P.size:
            present = self.ids() if present is None else present
            present = present[slots[present] < kernels.TAKEN]
            ids[done] = present[ids[done]]
            slots[ids[done]] |= kernels.TAKEN
            done = kernels.pick(self._by_id, len(self), uniforms_P, done + 1, ids)
        self.discard(ids)
        return ids

    def discard(self, ids: ArrayLike) -> None:
        """Take ids out wherever they are; those absent are ignored."""
        at = check_ids(ids, self.size)
        self._put(at, np.full(at.size, -np.inf))

    def __len__(self) -> int:
        return int(self._end - kernels.ROOT)

    def contains(self, ids: ArrayLike) -> NDArray[np.bool_]:
        """Whether each id is present."""
        return self._by_id[check_ids(ids, self.size), 0] != 0

    def priorities(self, ids: ArrayLike) -> Floats:
        """The priority of each id; a ValueError names the first that is absent."""
        at = check_ids(ids, self.size)
        slots = self._by_id[at, 0]
        if not slots.all():
            raise ValueError(f"id {at[slots == 0][0]} is not in the heap")
        ordered = self._record[2 * slots.astype(np.int64)]
        sign = np.uint64(1 << 63)
        return np.where(ordered & sign, ordered ^ sign, ~ordered).view(np.float64)

    def ids(self) -> Ids:
        """The ids present, ascending."""
        return np.flatnonzero(self._by_id[:, 0])

    def state_dict(self) -> dict[str, Any]:
        """Arrays and integers from which `load_state_dict` restores the heap exactly; copies, not views.

        `ids` (int32, ascending) and their `priorities`, and `pushes` (uint32, one for each id of the
        heap's size, or none where nothing was ever pushed).
        """
        ids, pushes = self.ids(), self._by_id[:, 1]
        return {
            "kind": "MaxHeap",
            "size": self.size,
            "seed": self.seed,
            "ids": ids.astype(np.int32),
            "priorities": self.priorities(ids),
            "pushes": pushes.copy() if pushes.any() else pushes[:0].copy(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Become the heap that was saved; a ValueError refuses a state of another size or structure."""
        check_state(state, "MaxHeap", self.size)
        ids = check_ids(state["ids"], self.size)
        keys = check_values(state["priorities"], ids, -_LARGEST, np.inf, "priority", _RULE)
        if len(state["pushes"]) not in (0, self.size):
            raise ValueError(f"the state counts the pushes of {len(state['pushes'])} ids of {self.size}")
        MaxHeap.__init__(self, self.size, seed=state["seed"])
        if len(state["pushes"]):
            self._by_id[:, 1] = state["pushes"]
        self._put_again(ids, keys)

    def _put(self, ids: Ids, keys: Floats) -> None:
        bits = keys.view(np.uint64)
        self._end = int(kernels.put(self._record, self._by_id, self._salt, self._end, ids, bits))

    def _put_again(self, ids: Ids, keys: Floats) -> None:
        """Put distinct ids that were pushed before, with the tie-breakers of that push."""
        self._by_id[ids, 1] -= np.uint32(1)
        self._put(ids, keys)


_RULE = "a priority is a finite number or +inf"
