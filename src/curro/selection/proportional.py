"""A store of prompts drawn in proportion to priority: what a heap offers, on a sum tree."""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from typing import Any

import numpy as np

from curro.index import SumTree
from curro.saved_state import require


class ProportionalStore:
    """Prompts leave when they are drawn and come back with a new priority.

    Section 4.2 of "Prioritized Replay for RL Post-training": the probability of drawing a prompt is
    its priority over the sum of all; prompts of priority 0 come last, uniformly.

    Args:
        priorities: float64 (N,), finite, from 0; every prompt is in the store.
    """

    def __init__(self, priorities: np.ndarray) -> None:
        self.tree = SumTree.from_array(priorities)
        self.inside = np.ones(len(priorities), np.bool_)
        self._size = len(priorities)

    def __len__(self) -> int:
        return self._size

    def draw(self, uniforms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Take out a prompt for each number in [0, 1); returns prompts and probabilities, (P,) each."""
        prompts, chance = np.empty(len(uniforms), np.int64), np.empty(len(uniforms))
        for i in range(len(uniforms)):
            if not self.tree.total > 0:
                left = len(self)
                prompts[i:] = self.pop_uniform(uniforms[i:])
                chance[i:] = 1 / np.arange(left, left - len(uniforms) + i, -1)
                break
            prompts[i : i + 1], chance[i : i + 1] = self.tree.sample(uniforms[i : i + 1])
            self._remove(prompts[i : i + 1])
        return prompts, chance

    def pop_uniform(self, uniforms: np.ndarray) -> np.ndarray:
        """Take out prompts uniformly at random, one for each number in [0, 1)."""
        present = np.flatnonzero(self.inside)
        gone: list[int] = []
        ranks = np.empty(len(uniforms), np.int64)
        for i, uniform in enumerate(uniforms):
            left = int(uniform * (len(present) - i))
            # of those left, this many stand after the ones gone whose place, less those before it, is lower
            before = bisect.bisect_right(range(i), left, key=lambda j: gone[j] - j)
            ranks[i] = left + before
            gone.insert(before, left + before)
        self._remove(present[ranks])
        return present[ranks]

    def push(self, prompts: np.ndarray, priorities: np.ndarray) -> None:
        """Put prompts back, with these priorities."""
        self._size += len(prompts) - int(np.count_nonzero(self.inside[prompts]))
        self.inside[prompts] = True
        self.tree.update(prompts, priorities)

    def _remove(self, prompts: np.ndarray) -> None:
        self.inside[prompts] = False
        self._size -= len(prompts)
        self.tree.update(prompts, 0.0)

    def state_dict(self) -> dict[str, Any]:
        return {"inside": self.inside.copy(), "tree": self.tree.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        require(state["inside"].shape == self.inside.shape, "store/inside", "is not of all prompts")
        self.tree.load_state_dict(state["tree"])
        outside = np.flatnonzero(~state["inside"])
        require(not self.tree.weights(outside).any(), "store/tree", "draws prompts that are not in it")
        self.inside = state["inside"].copy()
        self._size = int(np.count_nonzero(self.inside))
