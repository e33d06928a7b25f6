"""Prioritized replay as published: highest priorities, pools of solved and unsolved prompts, retests."""

from __future__ import annotations

from typing import Any

import numpy as np

from curro.core.bases import Choice, Outcome, Reason, Selection
from curro.core.checkpoint import Stateful, check_state
from curro.core.errors import require
from curro.core.groups import Groups, by_rollouts
from curro.core.prompts import PromptTable
from curro.methods.index import MaxPriority, Proportional

HEAP, SOLVED, UNSOLVED = 0, 1, 2
RETESTS = Reason.RETEST_SOLVED, Reason.RETEST_UNSOLVED
"""By pool, the solved one first: why a prompt of it was chosen."""


class PublishedReplay(Selection):
    """Prompts of the highest reward variance first, from a heap, with pools of solved and unsolved prompts.

    Source: Fatemi, "Prioritized Replay for RL Post-training", sections 2 to 5.

    Priority omega = p(1-p) + bonus where p >= 1/2 (section 2 and 4.4); p is the moving average
    p <- smoothing * observed + (1 - smoothing) * p, which starts at the first observation.
    In general p(1-p) is the variance of that average's mixture of groups,
    v <- a s + (1-a) v + a (1-a) (m - mean)^2 for a group of mean m and variance s, which for 0/1
    rewards is p(1-p) and for any other rewards their variance in squared reward ranges (the column
    `smoothed_variance` is in squared units of the reward). Groups of other sizes count by their rollouts
    (`by_rollouts`).

    A group whose own rewards do not vary (its p <= tolerance or >= 1 - tolerance, section 4.1) sends its
    prompt to the solved or the unsolved pool, by its mean. Every `retest_every` steps, on the first step
    asked for from each multiple on, the longest unevaluated of the pools come before all others; what varies
    again re-enters the heap.

    Where the heap has too few prompts, of which the paper does not speak, the batch is completed from the
    solved pool, then from the unsolved pool, longest unevaluated first. A solved prompt that the policy has
    forgotten has a signal again; unsolved ones would fill batch after batch with flat groups.

    Args:
        smoothing: weight of the new observation (section 5: 0.8).
        initial_priority: the priority of prompts not seen yet; infinity makes every prompt come once before
            any comes twice, exploration and retests aside (section 2). Section 5: 0.2.
        draw: "top" takes the highest priorities, as the paper's heap does, ties at random;
            "proportional" draws with probability proportional to the priority (section 4.2).
        exploration: the share of batches drawn uniformly from the main heap (4.2, 5).
        bonus: added where p >= 1/2, for concise reasoning (section 4.4, 5: 1e-4).
        tolerance: how far the success rate may be from 0 and 1, for the pools (section 4.1); section 5: 0.
        retest_every: training steps between retests (section 5: 10); 0 for none.
        retest_solved, retest_unsolved: how many of each pool (section 5: 1 and 3).

    Raises:
        ConfigError: an option outside its range.
    """

    needs_second_visits = True
    remembered = ("planned", "exploring", "due", "heap", "solved", "unsolved")

    def __init__(
        self,
        *,
        smoothing: float = 0.8,
        initial_priority: float = 0.2,
        draw: str = "top",
        exploration: float = 0.125,
        bonus: float = 1e-4,
        tolerance: float = 0.0,
        retest_every: int = 10,
        retest_solved: int = 1,
        retest_unsolved: int = 3,
    ) -> None:
        require(0 < smoothing <= 1, "smoothing", "in (0, 1]", smoothing)
        require(draw in ("top", "proportional"), "draw", "top or proportional", draw)
        least, most = (-np.inf, np.inf) if draw == "top" else (0, np.finfo(float).max)
        is_priority = -np.inf < initial_priority and least <= initial_priority <= most
        rule = "a number or infinity; finite and from 0 with draw=proportional"
        require(is_priority, "initial_priority", rule, initial_priority)
        require(0 <= exploration <= 1, "exploration", "in [0, 1]", exploration)
        require(0 <= bonus < np.inf, "bonus", "a number from 0", bonus)
        require(0 <= tolerance < 0.5, "tolerance", "in [0, 0.5)", tolerance)
        require(retest_every >= 0, "retest_every", "a number of steps, or 0 for none", retest_every)
        require(retest_solved >= 0, "retest_solved", "a number from 0", retest_solved)
        require(retest_unsolved >= 0, "retest_unsolved", "a number from 0", retest_unsolved)
        self.smoothing, self.initial_priority, self.draw = smoothing, initial_priority, draw
        self.exploration, self.bonus = exploration, bonus
        self.tolerance, self.retest_every = tolerance, retest_every
        self.leaves_out = "credit" if tolerance > 0 else "nothing"
        self.retest_solved, self.retest_unsolved = retest_solved, retest_unsolved

    def bind(self, table: PromptTable, rng: np.random.Generator) -> None:
        super().bind(table, rng)
        self.mean_N = table.add("smoothed_mean", np.float32, np.nan)
        self.variance_N = table.add("smoothed_variance", np.float32, 0)
        self.size_N = table.add("smoothed_size", np.float32, 0)
        self.pool_N = table.add("pool", np.int8, HEAP)
        self.seed = int(rng.integers(2**62))
        self.planned, self.exploring = -1, False
        # of the solved pool and the unsolved one: how many retests are left in this step, and what came up
        self.due = [0, 0]
        self.retested: list[set[int]] = [set(), set()]
        everything = np.full(table.size, self.initial_priority)
        self.heap: MaxPriority | ProportionalStore
        if self.draw == "top":
            self.heap = MaxPriority.from_array(everything, seed=self.seed)
        else:
            self.heap = ProportionalStore(everything)
        self.solved, self.unsolved = (MaxPriority(table.size, seed=self.seed + n) for n in (SOLVED, UNSOLVED))
        self.pools = self.solved, self.unsolved

    def select(self, n: int, step: int) -> Choice:
        self._plan(step)
        parts = []
        for number, pool in enumerate(self.pools):
            retested = pool.pop(min(n, self.due[number]))
            parts.append(Choice.of(retested, RETESTS[number]))
            self.retested[number] |= set(retested.tolist())
            self.due[number] -= len(retested)
            n -= len(retested)
        parts.append(self._from_heap(min(n, len(self.heap))))
        n -= len(parts[-1].prompts)
        for pool, reason in zip(self.pools, RETESTS, strict=True):
            parts.append(Choice.of(pool.pop(n), reason))
            n -= len(parts[-1].prompts)
        return Choice.join([part for part in parts if len(part.prompts)])

    def without_update(self, groups: Groups) -> np.ndarray | None:
        """Section 4.1: where a problem of the solved pool "remains fully solved, no gradient update"."""
        solved_P = self.pool_N[groups.prompts] == SOLVED
        if not solved_P.any():
            return None
        return solved_P & self.table.is_solved(groups.mean, groups.variance, self.tolerance)

    def _plan(self, step: int) -> None:
        """Decide once a step whether it explores and retests, so that small calls make one batch."""
        if step == self.planned:
            return
        every, before = self.retest_every, max(self.planned, 0)
        self.planned = step
        self.exploring = self.rng.random() < self.exploration
        retest = every > 0 and step // every > before // every
        retests = self.retest_solved, self.retest_unsolved
        self.due = [min(most, len(pool)) * retest for most, pool in zip(retests, self.pools, strict=True)]
        self.retested = [set(), set()]

    def _from_heap(self, n: int) -> Choice:
        uniforms = self.rng.random(n)
        if self.exploring:
            chance = 1 / np.arange(len(self.heap), len(self.heap) - n, -1)
            return Choice.of(self.heap.pop_uniform(uniforms), Reason.EXPLORATION, chance)
        if isinstance(self.heap, ProportionalStore):
            prompts, chance = self.heap.draw(uniforms)
        else:
            prompts, chance = self.heap.pop(n), np.full(n, np.nan)
        return Choice.of(prompts, Reason.by_visits(self.table["visits"][prompts]), chance)

    def priority(self, prompts: np.ndarray) -> np.ndarray:
        """omega of each prompt, float64 (P,)."""
        known_P = ~np.isnan(self.mean_N[prompts])
        return np.where(known_P, self._omega(prompts), float(self.initial_priority))

    def _omega(self, prompts: np.ndarray) -> np.ndarray:
        """p(1-p), and a bonus where p >= 1/2 (sections 2 and 4.4), in squared reward ranges."""
        above_P = self.table.success_rate(self.mean_N[prompts].astype(np.float64)) >= 0.5
        return self.table.informativeness(self.variance_N[prompts].astype(np.float64)) + self.bonus * above_P

    def observe(self, outcome: Outcome) -> None:
        prompts = outcome.prompts
        size_P, mean_P, variance_P = (
            column_N[prompts].astype(np.float64) for column_N in (self.size_N, self.mean_N, self.variance_N)
        )
        known_P, count_P = ~np.isnan(mean_P), outcome.count.astype(np.float64)
        size_P = np.where(known_P, size_P, count_P)
        a_P, self.size_N[prompts] = by_rollouts(np.where(known_P, self.smoothing, 1.0), count_P, size_P)
        gap_P = np.where(known_P, outcome.mean - mean_P, 0.0)
        self.variance_N[prompts] = (
            a_P * outcome.variance + (1 - a_P) * variance_P + a_P * (1 - a_P) * (gap_P * gap_P)
        )
        self.mean_N[prompts] = outcome.mean - (1 - a_P) * gap_P
        flat_P = self.table.is_flat(outcome.variance, self.tolerance)
        is_high_P = self.table.success_rate(outcome.mean) >= 0.5
        pool_P = np.where(flat_P, np.where(is_high_P, SOLVED, UNSOLVED), HEAP)
        self.pool_N[prompts] = pool_P
        self._put(prompts, pool_P, self._omega(prompts), outcome.steps)

    def release(self, prompts: np.ndarray) -> None:
        self._put(prompts, self.pool_N[prompts], self.priority(prompts), self.table["last_step"][prompts])

    def take_back(self, choice: Choice) -> None:
        """Retests that are taken back are due in the next calls of this step."""
        for number, retested in enumerate(self.retested):
            again = retested & set(choice.prompts.tolist())
            retested -= again
            self.due[number] += len(again)
        self.release(choice.prompts)

    def _put(self, prompts: np.ndarray, pool_P: np.ndarray, omega_P: np.ndarray, steps: np.ndarray) -> None:
        """Return prompts to where they belong, the pools by the step of their last evaluation."""
        heaped = np.flatnonzero(pool_P == HEAP)
        self.heap.push(prompts[heaped], omega_P[heaped])
        for pool, queue in zip((SOLVED, UNSOLVED), self.pools, strict=True):
            rows = np.flatnonzero(pool_P == pool)
            queue.push(prompts[rows], -steps[rows])

    def metrics(self) -> dict[str, float]:
        """Sizes, mean finite priority in the heap, and the deviation of the moving averages (figure 3)."""
        heaped = np.flatnonzero((self.pool_N == HEAP) & ~self.table["in_flight"])
        priority_H = self.priority(heaped)
        finite_H = priority_H[priority_H < np.inf]
        rate_N = self.table.success_rate(self.mean_N.astype(np.float64))
        seen_S = rate_N[~np.isnan(rate_N)]
        return {
            "replay/heap_size": float(len(self.heap)),
            "replay/solved_pool": float(len(self.solved)),
            "replay/unsolved_pool": float(len(self.unsolved)),
            "replay/mean_priority": float(finite_H.mean()) if len(finite_H) else np.nan,
            "replay/success_rate_std": float(seen_S.std()) if len(seen_S) else np.nan,
        }

    def load_state_dict(self, state: Any) -> None:
        super().load_state_dict(state)
        check_state(len(self.due) == 2 and min(self.due) >= 0, "replay/due")
        check_state(np.isin(self.pool_N, (HEAP, SOLVED, UNSOLVED)).all(), "table/pool")
        mean, variance, size = self.mean_N, self.variance_N, self.size_N
        valid_N = np.isfinite(variance) & (variance >= 0) & np.isfinite(size) & (np.isnan(mean) | (size >= 1))
        check_state(valid_N.all() and not np.isinf(mean).any(), "table/smoothed")


class ProportionalStore(Stateful):
    """Prompts leave when they are drawn and come back with a new priority.

    Section 4.2 of "Prioritized Replay for RL Post-training": the probability of drawing a prompt is
    its priority over the sum of all; prompts of priority 0 come last, uniformly.

    Args:
        priorities: float64 (N,), finite, from 0; every prompt is in the store.
    """

    def __init__(self, priorities: np.ndarray) -> None:
        self.weights = Proportional(priorities)
        self.inside = np.ones(len(priorities), np.bool_)

    def __len__(self) -> int:
        return int(np.count_nonzero(self.inside))

    def draw(self, uniforms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Take out a prompt for each number in [0, 1); returns prompts and probabilities, (P,) each."""
        prompts, chance = np.empty(len(uniforms), np.int64), np.empty(len(uniforms))
        for i in range(len(uniforms)):
            if not self.weights.total > 0:
                left = len(self)
                prompts[i:] = self.pop_uniform(uniforms[i:])
                chance[i:] = 1 / np.arange(left, left - len(uniforms) + i, -1)
                break
            prompts[i : i + 1], chance[i : i + 1] = self.weights.sample(uniforms[i : i + 1])
            self._remove(prompts[i : i + 1])
        return prompts, chance

    def pop_uniform(self, uniforms: np.ndarray) -> np.ndarray:
        """Take out prompts uniformly at random, one for each number in [0, 1)."""
        present = np.flatnonzero(self.inside)
        prompts = np.empty(len(uniforms), np.int64)
        for i, uniform in enumerate(uniforms):
            rank = int(uniform * len(present))
            prompts[i], present = present[rank], np.delete(present, rank)
        self._remove(prompts)
        return prompts

    def push(self, prompts: np.ndarray, priorities: np.ndarray) -> None:
        """Put prompts back, with these priorities."""
        self.inside[prompts] = True
        self.weights.update(prompts, priorities)

    def _remove(self, prompts: np.ndarray) -> None:
        self.inside[prompts] = False
        self.weights.update(prompts, 0.0)

    def state_dict(self) -> dict[str, Any]:
        weight_N = self.weights.weights(np.arange(self.weights.size))
        return {"priorities": np.where(self.inside, weight_N, -1.0)}

    def load_state_dict(self, state: Any) -> None:
        priority_N = state["priorities"]
        is_valid = priority_N.shape == self.inside.shape and np.isfinite(priority_N).all()
        check_state(is_valid, "store/priorities")
        self.inside = priority_N >= 0
        self.weights = Proportional(np.maximum(priority_N, 0.0))
