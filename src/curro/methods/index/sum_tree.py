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
    flat_ids,
    flat_values,
    on_a_cache_line,
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
        self._start = np.array(starts, dtype=np.int64)
        self._tree: Floats = on_a_cache_line(starts[-1] + 1, np.float64)
        self._positive = 0
        self._largest = float(np.finfo(np.float64).max) / (2 * self.size)
        self._rule = (
            f"a weight is a finite number >= 0, here at most {self._largest:.3g} so that sums are finite"
        )

    @classmethod
    def from_array(cls, weights: ArrayLike) -> "SumTree":
        """A tree in which id i has weights[i], in O(size)."""
        flat = np.asarray(weights, dtype=np.float64)
        tree = cls(flat.size)
        tree._fill(flat)
        return tree

    def update(self, ids: ArrayLike, weights: ArrayLike) -> None:
        """Set the weight of each id. Of an id that is repeated the last one counts.

        `weights` is one finite number >= 0 for each id, or one for all. NaN, infinities and negative
        weights are refused with a ValueError that names the id, and nothing changes.
        """
        at = flat_ids(ids)
        weight_P = flat_values(weights, at, "weight")
        node = np.empty(at.size, dtype=np.int64)
        positive = kernels.update(
            self._tree, self._start, self.size, self._largest, self._positive, at, weight_P, node
        )
        if positive < 0:
            check_ids(at, self.size)
            check_values(weight_P, at, 0.0, self._largest, "weight", self._rule)
        self._positive = int(positive)

    def sample(self, uniforms: ArrayLike) -> tuple[Ids, Floats]:
        """One id for each number in [0, 1), with replacement; returns (ids, probabilities).

        A probability is weight / total. An id of weight 0 never comes. ValueError where the total is 0.
        """
        uniforms_P = np.ascontiguousarray(uniforms, dtype=np.float64)
        uniforms_P = uniforms_P if uniforms_P.ndim == 1 else uniforms_P.reshape(-1)
        if not self._positive:
            raise ValueError("nothing to sample: every weight is 0")
        ids, probabilities = np.empty(uniforms_P.size, dtype=np.int64), np.empty(uniforms_P.size)
        if not kernels.sample(self._tree, self._start, uniforms_P, ids, probabilities):
            check_uniforms(uniforms_P)
        return ids, probabilities

    def sample_free(
        self, uniforms: ArrayLike, again: ArrayLike, taken: NDArray[np.bool_], taken_ids: ArrayLike
    ) -> tuple[Ids, Floats]:
        """As `sample`, but distinct ids that are not taken; returns (ids, probabilities).

        In order, an id that is taken or came before is drawn anew, by its number in `again`, from the ids of
        which neither is true. `taken` are flags (size,), set for the distinct ids in `taken_ids` alone.
        Neither they nor the tree change. At least one positive weight must be left for each.

        A probability is weight / total as the call began. ValueError where the total is 0.
        """
        uniforms_P, redraws_P, taken_P = check_uniforms(uniforms), check_uniforms(again), flat_ids(taken_ids)
        if not self._positive:
            raise ValueError("nothing to sample: every weight is 0")
        ids, probabilities = np.empty(uniforms_P.size, dtype=np.int64), np.empty(uniforms_P.size)
        kernels.sample(self._tree, self._start, uniforms_P, ids, probabilities)
        if not kernels.are_free(taken, ids):
            node, held = (
                np.empty(uniforms_P.size + taken_P.size, np.int64),
                np.empty(uniforms_P.size + taken_P.size),
            )
            kernels.draw_anew(
                self._tree, self._start, taken, taken_P, redraws_P, ids, probabilities, node, held
            )
        return ids, probabilities

    def sample_distinct(self, uniforms: ArrayLike) -> tuple[Ids, Floats]:
        """Successive proportional draws without replacement; returns (ids, probabilities).

        At most as many ids as have a positive weight, in the order drawn; the tree does not change. A
        probability is the weight over the total at the start of the call.
        """
        uniforms_P = check_uniforms(uniforms)[: self._positive]
        ids, node = np.empty((2, uniforms_P.size), dtype=np.int64)
        weights, mass = np.empty((2, uniforms_P.size))
        if uniforms_P.size:
            kernels.sample_distinct(self._tree, self._start, uniforms_P, ids, weights, node, mass)
        return ids, weights / self.total

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return float(self._tree[-1])

    def weights(self, ids: ArrayLike) -> Floats:
        """The weight of each id."""
        return self._tree[check_ids(ids, self.size)]

    def state_dict(self) -> dict[str, Any]:
        """The size and a copy of the weights (float64, one for each id)."""
        return {"kind": "SumTree", "size": self.size, "weights": self._tree[: self.size].copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Become the tree that was saved; a ValueError refuses a state of another size or structure."""
        check_state(state, "SumTree", self.size)
        self._fill(np.asarray(state["weights"], dtype=np.float64))

    def _fill(self, weights: NDArray[np.float64]) -> None:
        self._tree[: self.size] = check_values(weights, None, 0.0, self._largest, "weight", self._rule)
        self._positive = int(np.count_nonzero(self._tree[: self.size]))
        kernels.sum_above(self._tree, self._start, np.empty(0, dtype=np.int64), self.size)
