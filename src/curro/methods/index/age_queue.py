"""A queue by age: the least recently stamped ids first."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from curro.methods.index.checks import Ids, check_ids, check_state, flat_values
from curro.methods.index.heap import MaxHeap

_EXACT = 2**53
"""Up to here a float64 holds every integer."""


class AgeQueue:
    """Oldest stamp first over ids 0..size-1; ids of one stamp in a random and repeatable order.

    The pools of solved and unsolved prompts in Fatemi, "Prioritized Replay for RL Post-training", section
    4.1, are retested in this order. It is a `MaxHeap` whose priority is the stamp, negated: the same costs
    and promises, and memory is taken only as the queue fills.
    """

    def __init__(self, size: int, *, seed: int) -> None:
        self._heap = MaxHeap(size, seed=seed)
        self.size = self._heap.size

    def push(self, ids: ArrayLike, stamps: ArrayLike) -> None:
        """Add ids, or give those present a new stamp. Of an id that is repeated the last one counts.

        `stamps` is one integer for each id, or one for all, within +-2**53; the smallest is the oldest.

        Raises:
            TypeError: stamps that are no integers.
            ValueError: a stamp beyond 2**53.
        """
        at = check_ids(ids, self.size)
        ages = np.asarray(stamps)
        if ages.dtype.kind not in "iu" and ages.size:
            raise TypeError(f"stamps must be integers, not {ages.dtype}")
        if ages.size and (ages.min() < -_EXACT or ages.max() > _EXACT):
            is_beyond = np.broadcast_to((ages < -_EXACT) | (ages > _EXACT), at.shape)
            raise ValueError(f"stamp of id {at[is_beyond.argmax()]} is beyond 2**53")
        self._heap._put(at, flat_values(-ages.astype(np.float64), at, "stamp"))

    def pop(self, k: int) -> Ids:
        """Take out the min(k, len) oldest ids; returns them, the oldest first."""
        return self._heap.pop(k)

    def discard(self, ids: ArrayLike) -> None:
        """Take ids out wherever they are; those absent are ignored."""
        self._heap.discard(ids)

    def __len__(self) -> int:
        return len(self._heap)

    def contains(self, ids: ArrayLike) -> NDArray[np.bool_]:
        """Whether each id is in the queue."""
        return self._heap.contains(ids)

    def stamps(self, ids: ArrayLike) -> Ids:
        """The stamp of each id; a ValueError names the first that is absent."""
        return -self._heap.priorities(ids).astype(np.int64)

    def ids(self) -> Ids:
        """The ids in the queue, ascending."""
        return self._heap.ids()

    def state_dict(self) -> dict[str, Any]:
        """Arrays and integers from which `load_state_dict` restores the queue exactly."""
        return {"kind": "AgeQueue", "size": self.size, "heap": self._heap.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Become the queue that was saved; a ValueError refuses a state of another size or structure."""
        check_state(state, "AgeQueue", self.size)
        self._heap.load_state_dict(state["heap"])
