"""Prioritized replay as published: highest priorities, pools of solved and unsolved prompts, retests.

`PublishedReplay` is the method. `ProportionalStore` takes the heap's place where draws are proportional to
the priority.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from curro.core.bases import Choice, Outcome, Reason, Selection
from curro.core.checkpoint import check_state
from curro.core.errors import ConfigError
from curro.core.groups import Groups
from curro.core.prompts import PromptTable
from curro.methods.index import MaxPriority, Proportional

HEAP, SOLVED, UNSOLVED = 0, 1, 2


class PublishedReplay(Selection):
    """Prompts of the highest reward variance first, from a heap, with pools of solved and unsolved prompts.

    Source: Fatemi, "Prioritized Replay for RL Post-training", sections 2 to 5.

    Priority omega = p(1-p) + bonus where p >= 1/2 (section 2 and 4.4); p is the moving average
    p <- smoothing * observed + (1 - smoothing) * p, which starts at the first observation.
    In general p(1-p) is the variance of that average's mixture of groups,
    v <- a s + (1-a) v + a (1-a) (m - mean)^2 for a group of mean m and variance s, which for 0/1
    rewards is p(1-p) and for any other rewards their variance in squared reward ranges (the column
    `smoothed_variance` is in squared units of the reward). Groups of other sizes count by their rollouts:
    with n of them after visits of n' on the same average, a is
    smoothing n / (smoothing n + (1 - smoothing) n').

    A group whose own rewards do not vary (its p <= tolerance or >= 1 - tolerance, section 4.1) sends
    its prompt to the solved or the unsolved pool, by the side of the reward range's middle its mean
    lies on. Every `retest_every` steps, on the first step asked for from each multiple on, the longest
    unevaluated of the pools come before all others; what varies again re-enters the heap.

    The paper does not say what happens when the heap has too few prompts: the batch is completed
    from the solved pool, then from the unsolved pool, longest unevaluated first. A solved prompt that the
    policy has forgotten has a signal again; unsolved ones would fill batch after batch with flat groups.

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
        for name, value, is_valid, rule in (
            ("smoothing", smoothing, 0 < smoothing <= 1, "in (0, 1]"),
            ("initial_priority", initial_priority, initial_priority > -np.inf, "a number or infinity"),
            ("draw", draw, draw in ("top", "proportional"), '"top" or "proportional"'),
            ("exploration", exploration, 0 <= exploration <= 1, "in [0, 1]"),
            ("bonus", bonus, 0 <= bonus < np.inf, "a number from 0"),
            ("tolerance", tolerance, 0 <= tolerance < 0.5, "in [0, 0.5)"),
            ("retest_every", retest_every, retest_every >= 0, "a number of steps, or 0 for none"),
            ("retest_solved", retest_solved, retest_solved >= 0, "from 0"),
            ("retest_unsolved", retest_unsolved, retest_unsolved >= 0, "from 0"),
        ):
            if not is_valid:
                raise ConfigError(f"prioritized-replay: {name} is {rule}, not {value!r}")
        if draw == "proportional" and not 0 <= initial_priority < np.inf:
            raise ConfigError(
                "prioritized-replay: draw='proportional' needs a finite initial_priority from 0, "
                f"not {initial_priority}"
            )
        self.smoothing, self.initial_priority, self.draw = smoothing, initial_priority, draw
        self.exploration, self.bonus = exploration, bonus
        self.tolerance, self.retest_every = tolerance, retest_every
        self.leaves_out = "credit" if tolerance > 0 else "nothing"
        self.retests = {SOLVED: retest_solved, UNSOLVED: retest_unsolved}

    def bind(self, table: PromptTable, rng: np.random.Generator) -> None:
        super().bind(table, rng)
        self.mean_N = table.add("smoothed_mean", np.float32, np.nan)
        self.variance_N = table.add("smoothed_variance", np.float32, 0)
        self.size_N = table.add("smoothed_size", np.float32, 0)
        self.pool_N = table.add("pool", np.int8, HEAP)
        self.seed = int(rng.integers(2**62))
        self.planned, self.exploring = -1, False
        self.due = {SOLVED: 0, UNSOLVED: 0}
        self.retested: dict[int, list[int]] = {SOLVED: [], UNSOLVED: []}
        everything = np.full(table.size, self.initial_priority)
        self.heap: MaxPriority | ProportionalStore
        if self.draw == "top":
            self.heap = MaxPriority.from_array(everything, seed=self.seed)
        else:
            self.heap = ProportionalStore(everything)
        self.pools = {pool: MaxPriority(table.size, seed=self.seed + pool) for pool in (SOLVED, UNSOLVED)}

    def select(self, n: int, step: int) -> Choice:
        self._plan(step)
        parts = []
        pools = (SOLVED, Reason.RETEST_SOLVED), (UNSOLVED, Reason.RETEST_UNSOLVED)
        for pool, reason in pools:
            if self.due[pool] and n:
                parts.append(Choice.of(self.pools[pool].pop(min(n, self.due[pool])), reason))
                self.retested[pool] += parts[-1].prompts.tolist()
                self.due[pool] -= len(parts[-1].prompts)
                n -= len(parts[-1].prompts)
        parts.append(self._from_heap(min(n, len(self.heap))))
        n -= len(parts[-1].prompts)
        for pool, reason in pools:
            if n:
                parts.append(Choice.of(self.pools[pool].pop(n), reason))
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
        self.due = {pool: min(n, len(self.pools[pool])) * retest for pool, n in self.retests.items()}
        self.retested = {SOLVED: [], UNSOLVED: []}

    def _from_heap(self, n: int) -> Choice:
        uniforms = self.rng.random(n)
        return self._explore(uniforms) if self.exploring else self._exploit(uniforms)

    def _explore(self, uniforms: np.ndarray) -> Choice:
        chance = 1 / np.arange(len(self.heap), len(self.heap) - len(uniforms), -1)
        return Choice.of(self.heap.pop_uniform(uniforms), Reason.EXPLORATION, chance)

    def _exploit(self, uniforms: np.ndarray) -> Choice:
        if isinstance(self.heap, ProportionalStore):
            prompts, chance = self.heap.draw(uniforms)
        else:
            prompts, chance = self.heap.pop(len(uniforms)), np.full(len(uniforms), np.nan)
        return Choice.of(prompts, Reason.by_visits(self.table["visits"][prompts]), chance)

    def priority(self, prompts: np.ndarray) -> np.ndarray:
        """omega of each prompt, float64 (P,)."""
        known_P = ~np.isnan(self.mean_N[prompts])
        return np.where(known_P, self._omega(prompts), float(self.initial_priority))

    def _omega(self, prompts: np.ndarray) -> np.ndarray:
        """p(1-p), and a bonus where p >= 1/2 (sections 2 and 4.4), in squared reward ranges."""
        low, high = self.table.reward_range
        above_P = self.table.success_rate(self.mean_N[prompts].astype(np.float64)) >= 0.5
        return self.variance_N[prompts].astype(np.float64) / (high - low) ** 2 + self.bonus * above_P

    def observe(self, outcome: Outcome) -> None:
        prompts = outcome.prompts
        size_P, mean_P, variance_P = (
            column_N[prompts].astype(np.float64) for column_N in (self.size_N, self.mean_N, self.variance_N)
        )
        known_P, count_P = ~np.isnan(mean_P), outcome.count.astype(np.float64)
        # groups of other sizes count by their rollouts
        differs_P = known_P & (count_P != size_P)
        average_P = self.smoothing * count_P + (1 - self.smoothing) * size_P
        a_P = np.where(known_P, self.smoothing, 1.0)
        a_P = np.where(differs_P, self.smoothing * count_P / average_P, a_P)
        gap_P = np.where(known_P, outcome.mean - mean_P, 0.0)
        self.size_N[prompts] = np.where(differs_P, average_P, count_P)
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
        for pool, retested in self.retested.items():
            again = set(retested) & set(choice.prompts.tolist())
            self.retested[pool] = [prompt for prompt in retested if prompt not in again]
            self.due[pool] += len(again)
        self.release(choice.prompts)

    def _put(self, prompts: np.ndarray, pool_P: np.ndarray, omega_P: np.ndarray, steps: np.ndarray) -> None:
        """Return prompts to where they belong, the pools by the step of their last evaluation."""
        heaped = np.flatnonzero(pool_P == HEAP)
        self.heap.push(prompts[heaped], omega_P[heaped])
        for pool, queue in self.pools.items():
            rows = np.flatnonzero(pool_P == pool)
            if len(rows):
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
            "replay/solved_pool": float(len(self.pools[SOLVED])),
            "replay/unsolved_pool": float(len(self.pools[UNSOLVED])),
            "replay/mean_priority": float(finite_H.mean()) if len(finite_H) else np.nan,
            "replay/success_rate_std": float(seen_S.std()) if len(seen_S) else np.nan,
        }

    def state_dict(self) -> dict[str, Any]:
        return {
            "planned": self.planned,
            "exploring": self.exploring,
            "due": [self.due[SOLVED], self.due[UNSOLVED]],
            "heap": self.heap.state_dict(),
            "solved": self.pools[SOLVED].state_dict(),
            "unsolved": self.pools[UNSOLVED].state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        check_state(
            set(np.unique(self.pool_N)) <= {HEAP, SOLVED, UNSOLVED}, "table/pool", "is none of the pools"
        )
        mean, variance, size = (self.table[f"smoothed_{name}"] for name in ("mean", "variance", "size"))
        valid_N = np.isfinite(variance) & (variance >= 0) & np.isfinite(size) & (np.isnan(mean) | (size >= 1))
        check_state(valid_N.all() and not np.isinf(mean).any(), "table/smoothed", "is not of groups")
        check_state(len(state["due"]) == 2 and min(state["due"]) >= 0, "replay/due", "is not of two pools")
        self.planned, self.exploring = state["planned"], state["exploring"]
        self.due = dict(zip((SOLVED, UNSOLVED), state["due"], strict=True))
        self.heap.load_state_dict(state["heap"])
        self.pools[SOLVED].load_state_dict(state["solved"])
        self.pools[UNSOLVED].load_state_dict(state["unsolved"])


class ProportionalStore:
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

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        priority_N = state["priorities"]
        is_valid = priority_N.shape == self.inside.shape and np.isfinite(priority_N).all()
        check_state(is_valid, "store/priorities", "are not of all prompts")
        self.inside = priority_N >= 0
        self.weights = Proportional(np.maximum(priority_N, 0.0))
