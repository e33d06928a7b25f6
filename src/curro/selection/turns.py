"""Prompts that wait for their turn, in an order that changes little."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

import numpy as np


class Turns:
    """A queue of prompts by a key, the lowest first; equals by a second key that stays.

    It is sorted once, so that a turn costs the same however many prompts wait. A prompt that is no longer due
    when its turn comes is passed over and forgotten; whoever makes it due again adds it.

    Args:
        prompts: int64 (K,), those that wait.
        keys: (K,), their keys.
        tie_N: the second key of every prompt, distinct.
    """

    def __init__(self, prompts: np.ndarray, keys: np.ndarray, tie_N: np.ndarray) -> None:
        order = np.argsort(tie_N[prompts])
        order = order[np.argsort(keys[order], kind="stable")]
        self._prompts, self._keys, self._tie_N = prompts[order], keys[order], tie_N
        self._next = 0
        self._late: list[tuple[float, int, int]] = []

    def add(self, prompts: np.ndarray, keys: np.ndarray) -> None:
        """Prompts (P,) that have become due, or whose key has changed."""
        for late in zip(keys.tolist(), self._tie_N[prompts].tolist(), prompts.tolist(), strict=True):
            heappush(self._late, late)

    def take(self, most: int, is_due: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
        """The next of those that are due, at most so many; `is_due` is asked with prompts and their keys."""
        found: dict[int, None] = {}
        while len(found) < most and (self._late or self._next < len(self._prompts)):
            prompts, keys = self._block(most - len(found))
            # one that was added again may stand twice
            found |= dict.fromkeys(prompts[is_due(prompts, keys)].tolist())
        return np.fromiter(found, np.int64, len(found))

    def _block(self, most: int) -> tuple[np.ndarray, np.ndarray]:
        """Some of the next in order, at least one."""
        rows = slice(self._next, self._next + most)
        prompts, keys = self._prompts[rows], self._keys[rows]
        if self._late:
            key, tie, prompt = self._late[0]
            before = int(((keys < key) | ((keys == key) & (self._tie_N[prompts] < tie))).sum())
            if not before:
                heappop(self._late)
                return np.array([prompt]), np.array([key])
            prompts, keys = prompts[:before], keys[:before]
        self._next += len(prompts)
        return prompts, keys
