"""Find prompts by priority: the highest first, or in proportion.

Both classes are arrays over ids 0..N-1 and know nothing of curricula. What they give depends on what is in
them alone, never on how calls were batched or on a save and a load.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from curro.core.checkpoint import Stateful, check_state

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FACTORS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SEED_FACTOR, _SEED_TERM = 0xD1342543DE82EF95, 0x2545F4914F6CDD1E
_S12, _S27, _S30, _S31, _S32 = (np.uint64(bits) for bits in (12, 27, 30, 31, 32))
_HIGH = np.uint64(0xFFFFFFFF00000000)
_BLOCK = 256
"""Ids of a block, whose highest priority, or the sum of whose weights, is looked at first."""
_TRIES = 256
"""Random ids that `MaxPriority.pop_uniform` looks at for one draw."""


def _mixed(words: np.ndarray) -> np.ndarray:
    """Hash uint64 words with the output function of SplitMix64, a bijection.

    What a stream of random numbers gives depends on who asked first. A hash does not.
    Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
    """
    words = (words ^ (words >> _S30)) * _FACTORS[0]
    words = (words ^ (words >> _S27)) * _FACTORS[1]
    return words ^ (words >> _S31)


class MaxPriority(Stateful):
    """The ids of the highest priority leave first and come back with a new priority.

    Source: Fatemi, "Prioritized Replay for RL Post-training", section 3, whose heap gives the same ids. Here
    `pop` looks at all N priorities and `push` at the pushed ones.

    The order is total: the priority first, then a tie-breaker, which is a hash of (seed, id, how often this
    id was pushed). So tied ids come out in a random order, and no stream of random numbers is consumed.
    """

    remembered = ("seed", "_priorities_N", "_pushes_N")

    def __init__(self, size: int, *, seed: int) -> None:
        self.size, self.seed = size, int(seed)
        self._priorities_N = np.full(size, -np.inf)  # -inf for absent ids
        self._pushes_N = np.zeros(size, np.uint32)
        self._tie_N = np.zeros(size, np.uint64)

    @classmethod
    def from_array(cls, priorities: ArrayLike, *, seed: int) -> MaxPriority:
        """All ids, id i with priorities[i]."""
        priority_N = np.asarray(priorities, np.float64)
        index = cls(len(priority_N), seed=seed)
        index.push(np.arange(len(priority_N)), priority_N)
        return index

    def push(self, ids: np.ndarray, priorities: ArrayLike) -> None:
        """Add distinct ids, or give those present a new priority: a number, or infinity."""
        self._priorities_N[ids] = priorities
        self._pushes_N[ids] += np.uint32(1)
        self._break_ties(ids)

    def _break_ties(self, ids: np.ndarray) -> None:
        ids = np.asarray(ids).astype(np.uint64)
        salt = _mixed(np.array([(self.seed * _SEED_FACTOR + _SEED_TERM) & (2**64 - 1)], np.uint64))
        words = ids | self._pushes_N[ids].astype(np.uint64) << _S32
        self._tie_N[ids] = (_mixed(words * _GAMMA + salt) & _HIGH) | ids

    def pop(self, k: int) -> np.ndarray:
        """Take out the min(k, len) ids of the highest priority, int64; the highest first."""
        if not (k := min(k, len(self))):
            return np.empty(0, np.int64)
        # so many blocks have one priority at least that is as high, and the k highest are not below it;
        # to part all priorities takes long where many are equal
        best_B = np.maximum.reduceat(self._priorities_N, np.arange(0, self.size, _BLOCK))
        limit = np.partition(best_B, len(best_B) - k)[len(best_B) - k] if k <= len(best_B) else -np.inf
        ids = np.flatnonzero(self._priorities_N > limit)
        if (missing := k - len(ids)) > 0:
            tied = np.flatnonzero(self._priorities_N == limit)
            last = np.argpartition(self._tie_N[tied], len(tied) - missing)[len(tied) - missing :]
            ids = np.concatenate([ids, tied[last]])
        ids = ids[np.lexsort((self._tie_N[ids], self._priorities_N[ids]))[::-1][:k]]
        self._priorities_N[ids] = -np.inf
        return ids

    def pop_uniform(self, uniforms: np.ndarray) -> np.ndarray:
        """Take out ids uniformly at random, one for each number in [0, 1), at most all; int64.

        A number is hashed into 256 random ids, of which the first one present is taken. Where none is (few
        ids are left) it stands for a rank among those present.
        """
        ids = np.empty(min(len(uniforms), len(self)), np.int64)
        for a, uniform in enumerate(uniforms[: len(ids)].tolist()):
            words = _mixed(np.uint64(uniform * 2.0**53) + np.arange(_TRIES + 1, dtype=np.uint64) * _GAMMA)
            further = ((words >> _S12).astype(np.float64) + 0.5) * 2.0**-52
            tried = (further[:_TRIES] * self.size).astype(np.int64)
            present = tried[self._priorities_N[tried] > -np.inf]
            ids[a] = present[0] if len(present) else self.ids()[int(further[_TRIES] * len(self))]
            self._priorities_N[ids[a]] = -np.inf
        return ids

    def __len__(self) -> int:
        return int(np.count_nonzero(self._priorities_N > -np.inf))

    def ids(self) -> np.ndarray:
        """The ids present, ascending."""
        return np.flatnonzero(self._priorities_N > -np.inf)

    def load_state_dict(self, state: Any) -> None:
        super().load_state_dict(state)
        shapes = {self._priorities_N.shape, self._pushes_N.shape}
        check_state(shapes == {(self.size,)} and not np.isnan(self._priorities_N).any(), "index")
        self._break_ties(np.arange(self.size))


class Proportional:
    """Random draws in proportion to weights that change all the time.

    Schaul et al., "Prioritized Experience Replay", 2016, appendix B.2.1, with two levels in place of a tree:
    the sum of every 256 weights is kept, so that a draw looks at N / 256 sums and at 256 weights. Sums are
    always computed anew, never patched, so that they cannot drift.

    Args:
        weights: float64 (N,), finite, from 0.
    """

    def __init__(self, weights: np.ndarray) -> None:
        self.size = len(weights)
        self._weight_BK = np.zeros((-(-self.size // _BLOCK), _BLOCK))
        self._sum_B = np.zeros(len(self._weight_BK))
        self.update(np.arange(self.size), weights)

    def update(self, ids: np.ndarray, weights: ArrayLike) -> None:
        """Set the weight of each of these distinct ids."""
        self._weight_BK.ravel()[ids] = weights
        blocks = np.unique(np.asarray(ids) // _BLOCK)
        self._sum_B[blocks] = self._weight_BK[blocks].sum(axis=1)
        self._edge_B = np.concatenate([[0.0], np.cumsum(self._sum_B)])  # the sum of all blocks before each

    def sample(self, uniforms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One id for each number in [0, 1), with replacement; some weight is above 0.

        Returns:
            int64 (P,), and each one's weight over the total; an id of weight 0 never comes.
        """
        mass_P = np.asarray(uniforms) * self.total
        # a product that rounds up to the total would lie behind every block
        last = np.searchsorted(self._edge_B[1:], self.total)
        block_P = np.minimum(np.searchsorted(self._edge_B[1:], mass_P, side="right"), last)
        mass_P -= self._edge_B[block_P]
        inside_PK = np.cumsum(self._weight_BK[block_P], axis=1)
        place_P = np.minimum(
            (inside_PK <= mass_P[:, None]).sum(axis=1), (inside_PK < inside_PK[:, -1:]).sum(axis=1)
        )
        ids = block_P * _BLOCK + place_P
        return ids, self.weights(ids) / self.total

    def sample_free(
        self, uniforms: np.ndarray, again: np.ndarray, taken: np.ndarray, taken_ids: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `sample`, but distinct ids that are not taken, and their weights over the total.

        In order, an id that is taken or came before is drawn anew, by its number in `again`, from the ids of
        which neither is true. `taken` are flags (N,), set for the distinct ids in `taken_ids` alone. At least
        one positive weight must be left for each.
        """
        ids, total, drawn = self.sample(uniforms)[0], self.total, set[int]()
        removed: list[tuple[np.ndarray, np.ndarray]] = []
        settled = 0
        for a in range(len(ids)):
            if taken[ids[a]] or int(ids[a]) in drawn:
                gone = ids[settled:a].copy() if removed else np.concatenate([taken_ids, ids[:a]])
                removed.append((gone, self.weights(gone)))
                self.update(gone, 0.0)
                settled = a
                ids[a] = self.sample(again[a : a + 1])[0][0]
            drawn.add(int(ids[a]))
        for gone, weights in removed:
            self.update(gone, weights)
        return ids, self.weights(ids) / total

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return float(self._edge_B[-1])

    def weights(self, ids: np.ndarray) -> np.ndarray:
        """The weight of each id."""
        return self._weight_BK.ravel()[ids]
