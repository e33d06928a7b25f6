"""A sum tree over prompts: draws in proportion to weight."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from curro.methods.index import sum_tree_kernels as kernels
from curro.methods.index.checks import (
    Floats,
    Ids,
    check_ids,
    check_size,
    check_state,
    check_uniforms,
    check_values,
)


class SumTree:
    """Proportional draws over ids 0..size-1, with weights that change all the time.

    Schaul et al., "Prioritized Experience Replay", 2016, appendix B.2.1, with eight children to a node.
    float64 throughout; O(log size) an id; 9.2 bytes an id.
    """

    def __init__(self, size: int) -> None:
        self.size = check_size(size)
        starts, width = [0], self.size
        while True:
            starts.append(starts[-1] + (width + 7) // 8 * 8)
            if width <= 8:
                break
            width = (width + 7) // 8
        self._start = np.array(starts, np.int64)
        self._tree: Floats = np.zeros(starts[-1] + 1)
        self._largest = float(np.finfo(np.float64).max) / (2 * self.size)
        self._rule = (
            f"a weight is a finite number >= 0, here at most {self._largest:.3g} so that sums are finite"
        )

    @classmethod
    def from_array(cls, weights: ArrayLike) -> "SumTree":
        """A tree in which id i has weights[i], in O(size)."""
        flat = np.asarray(weights, np.float64)
        tree = cls(flat.size)
        tree._fill(flat)
        return tree

    def update(self, ids: ArrayLike, weights: ArrayLike) -> None:
        """Set the weight of each id. The last of repeated ids counts.

        `weights` is one finite number >= 0 for each id, or one for all. NaN, infinities and negative
        weights are refused with a ValueError that names the id, and nothing changes.
        """
        at = check_ids(ids, self.size)
        self._tree[at] = check_values(weights, at, 0.0, self._largest, "weight", self._rule)
        kernels.sum_above(self._tree, self._start, at.copy())

    def sample(self, uniforms: ArrayLike) -> tuple[Ids, Floats]:
        """One id for each number in [0, 1), with replacement; returns (ids, probabilities).

        A probability is weight / total. An id of weight 0 never comes. ValueError where the total is 0.
        """
        uniforms_P = check_uniforms(uniforms)
        if not self.total > 0:
            raise ValueError("nothing to sample: every weight is 0")
        ids = np.empty(uniforms_P.size, np.int64)
        kernels.sample(self._tree, self._start, uniforms_P * self.total, ids)
        return ids, self._tree[ids] / self.total

    def sample_free(
        self, uniforms: ArrayLike, again: ArrayLike, taken: NDArray[np.bool_], taken_ids: Ids
    ) -> tuple[Ids, Floats]:
        """As `sample`, but distinct ids that are not taken; returns (ids, probabilities).

        In order, an id that is taken or came before is drawn anew, by its number in `again`, from the ids of
        which neither is true. `taken` are flags (size,), set for the distinct ids in `taken_ids` alone.
        Neither they nor the tree change. At least one positive weight must be left for each.

        A probability is weight / total as the call began. ValueError where the total is 0.
        """
        ids, probabilities = self.sample(uniforms)
        redraws_P, total = check_uniforms(again), self.total
        drawn: set[int] = set()
        removed: list[tuple[Ids, Floats]] = []
        settled = -1
        for a in range(ids.size):
            if taken[ids[a]] or int(ids[a]) in drawn:
                if settled < 0:
                    removed.append(self._remove(taken_ids))
                    settled = 0
                removed.append(self._remove(ids[settled:a].copy()))
                settled = a
                ids[a : a + 1] = self.sample(redraws_P[a : a + 1])[0]
            drawn.add(int(ids[a]))
        for gone, weights in removed:
            self.update(gone, weights)
        return ids, self._tree[ids] / total if removed else probabilities

    def _remove(self, ids: Ids) -> tuple[Ids, Floats]:
        """Set weights to 0; returns the ids and the weights that they had."""
        weights = self._tree[ids]
        self.update(ids, 0.0)
        return ids, weights

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return float(self._tree[-1])

    def weights(self, ids: ArrayLike) -> Floats:
        """The weight of each id."""
        return self._tree[check_ids(ids, self.size)]

    def state_dict(self) -> dict[str, Any]:
        """The size and a copy of the weights (float64, one for each id)."""
        return {"size": self.size, "weights": self._tree[: self.size].copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Become the tree that was saved; a ValueError refuses a state of another size."""
        check_state(state, self.size)
        self._fill(np.asarray(state["weights"], np.float64))

    def _fill(self, weights: Floats) -> None:
        self._tree[: self.size] = check_values(weights, None, 0.0, self._largest, "weight", self._rule)
        kernels.sum_above(self._tree, self._start, np.arange(self.size))
