"""An exponential race: proportional draws without replacement that stay exact over many calls."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from curro.methods.index import heap_kernels as kernels
from curro.methods.index.checks import Floats, Ids, check_ids, check_size, check_state, check_values
from curro.methods.index.heap import MaxHeap
from curro.methods.index.mixing import salt

_LARGEST = float(np.finfo(np.float64).max)
_RULE = "a weight is a finite number >= 0"
_BLUNT = 2.0**30
"""Clocks are moved back to zero where `now` is this much longer than a new clock's mean wait."""


class ExponentialRace:
    """Each id present runs an exponential clock at the rate of its weight; the first to ring win.

    The winners of successive pops are successive draws in proportion to weight, without replacement, also
    where ids return between the pops, because an exponential clock has no memory. Efraimidis and Spirakis,
    "Weighted random sampling with a reservoir", 2006, in the form of arrival times.

    A clock is a hash of (seed, id, how often the id was updated): no stream of random numbers is consumed.
    O(log size) an id, 24 bytes an id.
    """

    def __init__(self, size: int, *, seed: int) -> None:
        self.size = check_size(size)
        self._now = 0.0
        self._clocks = MaxHeap(self.size, seed=seed)
        self._salt = salt(seed, 2)

    def update(self, ids: ArrayLike, weights: ArrayLike) -> None:
        """Add ids, or give those present a new weight and a new clock. Weight 0 takes an id out.

        `weights` is one number for each id, or one for all. NaN, infinities and negative weights are
        refused with a ValueError that names the id, and nothing changes. Of a repeated id the last counts.
        """
        at = check_ids(ids, self.size)
        weight_P = check_values(weights, at, 0.0, _LARGEST, "weight", _RULE)
        if self._now > 0.0:
            fast = np.flatnonzero(weight_P > _BLUNT / self._now)
            if fast.size:
                self._run(at[: fast[0]], weight_P[: fast[0]])
                self._set_back()
                at, weight_P = at[fast[0] :], weight_P[fast[0] :]
        self._run(at, weight_P)

    def pop(self, k: int) -> Ids:
        """Take out the first min(k, len) winners; returns them in the order in which they won."""
        ids, keys = self._clocks.pop_with_priorities(k)
        if keys.size:
            self._now = max(self._now, -float(keys[-1]))
        return ids

    def discard(self, ids: ArrayLike) -> None:
        """Take ids out of the race; those absent are ignored."""
        self._clocks.discard(ids)

    def __len__(self) -> int:
        return len(self._clocks)

    def contains(self, ids: ArrayLike) -> NDArray[np.bool_]:
        """Whether each id is in the race."""
        return self._clocks.contains(ids)

    def ids(self) -> Ids:
        """The ids in the race, ascending."""
        return self._clocks.ids()

    def state_dict(self) -> dict[str, Any]:
        """Arrays and numbers from which `load_state_dict` restores the race exactly; copies, not views."""
        return {
            "kind": "ExponentialRace",
            "size": self.size,
            "now": self._now,
            "clocks": self._clocks.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Become the race that was saved; a ValueError refuses a state of another size or structure."""
        check_state(state, "ExponentialRace", self.size)
        self._clocks.load_state_dict(state["clocks"])
        self._salt = salt(self._clocks.seed, 2)
        self._now = float(state["now"])

    def _run(self, ids: Ids, weights: Floats) -> None:
        keys = np.empty(ids.size)
        kernels.clocks(self._clocks._by_id, self._salt, self._now, ids, weights, keys)
        self._clocks._put(ids, keys)

    def _set_back(self) -> None:
        """Count time from now: the waits that are left keep their order, new ones regain their digits."""
        ids = self._clocks.ids()
        self._clocks._put_again(ids, self._clocks.priorities(ids) + self._now)
        self._now = 0.0
