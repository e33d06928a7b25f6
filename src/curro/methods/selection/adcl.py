"""ADCL: from easy to hard in chunks, each measured again before it is trained on."""

from __future__ import annotations

from typing import Any

import numpy as np

from curro.core.bases import Choice, Outcome, Reason, Selection
from curro.core.checkpoint import check_state
from curro.core.errors import require
from curro.core.groups import Groups
from curro.core.prompts import PromptTable

_IDLE, _ESTIMATE, _TRAIN = 0, 1, 2
_ATTEMPTS = 3


class ADCL(Selection):
    """From easy to hard, in chunks whose difficulty is estimated again before each.

    Source: adaptive difficulty curriculum learning (arXiv 2505.08364), as METIS, A.5, runs it.

    1. Every prompt is rolled out once, in a random order, for its difficulty (`Reason.ESTIMATE`).
    2. The data set is sorted from easy to hard, equals at random, and cut into chunks that stay.
    3. The chunks are trained on one after the other, each from easy to hard (`Reason.PRIORITY`). Each but
       the first is rolled out for estimation again before, and sorted anew by what that said.
    4. After the last chunk comes the first, estimated again.

    The latest group tells the difficulty. Estimates are not trained on, as published: their advantages are 0
    and they are rejected, so that a host fills its batch with others, and its limit of a fill has to allow
    for an estimate of the whole data set. The allocation `estimates` gives them 4 rollouts, as table 5 does.

    Where the last estimates of a chunk do not fill a batch, it is completed by the latest difficulties; a
    prompt without any is taken as the hardest. A dropped estimate is asked for again, three times in all; a
    dropped prompt of step 3 misses its turn.

    Args:
        chunks: as in table 5, from 1.
        difficulty: "failure": 1 - success rate, and so 1 - mean reward, in reward ranges, where rewards are
            not 0/1; "variance": the variance of the group's rewards, the paper's choice for those.
        train_estimates: train on estimates as on other groups, so that no rollout is without use.

    Raises:
        ConfigError: an option that is none of these.
    """

    orders_everything = True
    remembered = ("seed", "chunk")

    def __init__(
        self, *, chunks: int = 8, difficulty: str = "failure", train_estimates: bool = False
    ) -> None:
        require(chunks >= 1, "chunks", "a number from 1", chunks)
        require(difficulty in ("failure", "variance"), "difficulty", "failure or variance", difficulty)
        self.chunks, self.difficulty = chunks, difficulty
        self.train_estimates = train_estimates
        self.leaves_out = "nothing" if train_estimates else "groups"

    def bind(self, table: PromptTable, rng: np.random.Generator) -> None:
        super().bind(table, rng)
        self.seed, self.chunk, self.count = int(rng.integers(2**63)), -1, min(self.chunks, table.size)
        self.chunk_N = table.add("adcl_chunk", np.int32, -1)
        self.due_N = table.add("adcl_due", np.uint8, _ESTIMATE)
        self.asked_N = table.add("adcl_asked", np.uint8, 0)
        self._shuffle()

    def _shuffle(self) -> None:
        self.tie_N = np.random.default_rng(self.seed).permutation(self.table.size)

    def difficulty_of(self, prompts: np.ndarray) -> np.ndarray:
        """Difficulty (P,) as last seen; infinite for a prompt that was never seen."""
        if self.difficulty == "failure":
            seen = 1 - self.table.success_rate(self.table["reward_mean"][prompts].astype(np.float64))
        else:
            seen = self.table["reward_variance"][prompts].astype(np.float64)
        return np.where(self.table["visits"][prompts] > 0, seen, np.inf)

    def _cut(self) -> None:
        """Sort all prompts into chunks, the first of which is due."""
        everything = np.arange(self.table.size)
        order = np.lexsort((self.tie_N, self.difficulty_of(everything)))
        self.chunk_N[order] = everything * self.count // self.table.size
        self.due_N[:] = np.where(self.chunk_N == 0, _TRAIN, _IDLE)
        self.chunk = 0

    def _open_next(self) -> None:
        self.chunk = (self.chunk + 1) % self.count
        opened = np.flatnonzero(self.chunk_N == self.chunk)
        self.due_N[opened] = _ESTIMATE
        self.asked_N[opened[~self.table["in_flight"][opened]]] = 0

    def select(self, n: int, step: int) -> Choice:
        parts: list[Choice] = []
        missing, in_flight = n, self.table["in_flight"]
        try:
            while missing:
                parts.append(self._due(missing))
                # what the rest of this call must not choose again; the port marks it anew
                in_flight[parts[-1].prompts] = True
                missing -= len(parts[-1].prompts)
        finally:
            for part in parts:
                in_flight[part.prompts] = False
        return Choice.join(parts)

    def _due(self, most: int) -> Choice:
        """What comes next of the free prompts, `most` at most; none where the next chunk had to be opened."""
        ask = self._waiting(_ESTIMATE, most)
        if len(ask):
            self.asked_N[ask] += 1
            return Choice.of(ask, Reason.ESTIMATE)
        if self.chunk < 0:
            self._cut()
        train = self._waiting(_TRAIN, most)
        if not len(train):
            self._open_next()
        self.due_N[train], self.asked_N[train] = _IDLE, 0
        return Choice.of(train, Reason.PRIORITY)

    def _waiting(self, due: int, most: int) -> np.ndarray:
        """The free prompts that are due for this, in turn, `most` at most."""
        prompts = np.flatnonzero((self.due_N == due) & ~self.table["in_flight"])
        keys = self.asked_N[prompts] if due == _ESTIMATE else self.difficulty_of(prompts)
        ties = self.tie_N[prompts]
        if most < len(prompts):  # sort the first alone: of a million prompts a sort takes 130 ms
            limit = np.partition(keys, most - 1)[most - 1]
            below, equal = np.flatnonzero(keys < limit), np.flatnonzero(keys == limit)
            left = most - len(below)
            first = np.concatenate([below, equal[np.argpartition(ties[equal], left - 1)[:left]]])
            prompts, keys, ties = prompts[first], keys[first], ties[first]
        return prompts[np.lexsort((ties, keys))]

    def without_update(self, groups: Groups) -> np.ndarray | None:
        # what a group was drawn for: what its prompt is due for may have changed since
        return self.asked_N[groups.prompts] > 0 if self.leaves_out == "groups" else None

    def observe(self, outcome: Outcome) -> None:
        self._measured(outcome.prompts)

    def release(self, prompts: np.ndarray) -> None:
        self._measured(prompts[self.asked_N[prompts] >= _ATTEMPTS])

    def _measured(self, prompts: np.ndarray) -> None:
        self.due_N[prompts[self.due_N[prompts] == _ESTIMATE]] = _TRAIN

    def metrics(self) -> dict[str, float]:
        return {
            "adcl/chunk": float(self.chunk),
            "adcl/to_estimate": float((self.due_N == _ESTIMATE).sum()),
            "adcl/to_train": float((self.due_N == _TRAIN).sum()) if self.chunk >= 0 else np.nan,
        }

    def load_state_dict(self, state: Any) -> None:
        super().load_state_dict(state)
        lowest = 0 if self.chunk >= 0 else -1
        inside = self.chunk_N.min() >= lowest and self.chunk_N.max() < self.count
        check_state(-1 <= self.chunk < self.count and inside, "adcl/chunk")
        check_state(self.due_N.max() <= _TRAIN, "table/adcl_due")
        self._shuffle()
