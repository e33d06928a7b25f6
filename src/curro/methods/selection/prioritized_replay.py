"""Prioritized replay (Fatemi, "Prioritized Replay for RL Post-training"), in the variant that never runs dry.

`prioritized_replay` builds one of two variants. The published one has a module of its own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from curro.core import registry
from curro.core.bases import Choice, Outcome, Reason, Selection
from curro.core.errors import ConfigError, require
from curro.core.prompts import PromptTable
from curro.methods.index import Proportional
from curro.methods.prediction.posterior import FadedPosterior
from curro.methods.selection.published_replay import PublishedReplay


def prioritized_replay(*, variant: str = "default", **options: Any) -> Selection:
    """Prompts of intermediate success rate first.

    Source: "Prioritized Replay for RL Post-training", sections 2 to 5.

    Args:
        variant: "published" is the paper with the values of its section 5; "default" keeps its
            priority and replaces its pools by a posterior that fades, so that it never runs dry.
        options: see `PublishedReplay` or `FadedReplay`.

    Raises:
        ConfigError: another variant.
    """
    variants = {"default": FadedReplay, "published": PublishedReplay}
    if variant not in variants:
        raise ConfigError(f"prioritized-replay has no variant {variant!r}; there are: {', '.join(variants)}")
    label = f"prioritized-replay (variant {variant})"
    return registry.construct(label, variants[variant], options, also=["variant"])


class FadedReplay(Selection):
    """The paper's priority p(1-p), with a posterior instead of solved and unsolved pools.

    The paper moves a prompt without reward variance to a pool and looks at it again on a timetable. With 8
    rollouts a prompt of success rate 0.1 fails all of them in 43% of its visits, and the pools fill faster
    than the timetable empties them. Here a prompt earns another look when it may have become informative:

    1. For every slot of the batch, `candidates` prompts are proposed: half in proportion to p(1-p) as last
       known (section 4.2's sum tree), half uniformly from all prompts.
    2. The informativeness of each is drawn from its posterior (`FadedPosterior`), and multiplied by the share
       of its evidence that has faded (1 for a prompt never seen), so that a prompt is not repeated at once.
       The highest takes the slot.
    3. One slot in eight, at random, goes to a uniform proposal instead (section 4.2's exploration at section
       5's rate), so that the curriculum notices what the policy has learnt elsewhere.

    A prompt that never succeeded is passed over while its outcomes still count and comes back as they fade.
    Draws one at a time and in batches are the same. If all candidates of a slot are in flight, the first free
    prompt takes it that is met in long equal steps from the last candidate, because neighbours are often of
    one source.

    Args:
        candidates: proposals for each slot, an even number from 2; the cost grows in proportion.
        exploration: the share of slots that go to a uniform proposal, from 0 to 1.
    """

    needs_second_visits = True
    remembered = ("posterior", "thompson")

    def __init__(self, *, candidates: int = 4, exploration: float = 0.125) -> None:
        is_even = candidates >= 2 and candidates % 2 == 0
        require(is_even, "candidates", "an even number from 2", candidates)
        require(0 <= exploration <= 1, "exploration", "in [0, 1]", exploration)
        self.candidates, self.exploration = candidates, exploration
        self.posterior = FadedPosterior()

    def bind(self, table: PromptTable, rng: np.random.Generator) -> None:
        super().bind(table, rng)
        # separate streams, so that a batch consumes each of them as single draws would
        (self.thompson,) = rng.spawn(1)
        self.posterior.bind(table, self.thompson)
        self.tree = Proportional(np.zeros(table.size))
        self.stride = stride_of(table.size)

    def select(self, n: int, step: int) -> Choice:
        learnt = self.posterior.learn()
        self.tree.update(learnt, self.posterior.variance[learnt].astype(np.float64))
        half = self.candidates // 2
        chance, uniforms = np.split(self.rng.random((n, 1 + self.candidates)), [1], axis=1)
        proposed = (uniforms * self.table.size).astype(np.int64)
        if self.tree.total > 0:
            proposed[:, :half] = self.tree.sample(uniforms[:, :half].ravel())[0].reshape(n, half)
        informativeness, kept = self.posterior.draw(proposed.ravel(), step)
        drawn = (informativeness * (1 - kept)).reshape(proposed.shape)
        explores = chance[:, 0] < self.exploration
        drawn[explores, -1] = np.inf
        chosen = one_each(proposed, drawn, self.table["in_flight"], self.stride)
        reasons = Reason.by_visits(self.table["visits"][chosen])
        reasons[explores & (chosen == proposed[:, -1])] = Reason.EXPLORATION
        return Choice.of(chosen, reasons)

    def uniform_weights(self, choice: Choice) -> np.ndarray:
        return np.where(choice.reasons == Reason.EXPLORATION, 1.0, np.nan)

    def observe(self, outcome: Outcome) -> None:
        self.posterior.observe(outcome)

    def metrics(self) -> dict[str, float]:
        return self.posterior.metrics()

    def load_state_dict(self, state: Any) -> None:
        super().load_state_dict(state)
        self.tree = Proportional(self.posterior.variance.astype(np.float64))


def stride_of(size: int) -> int:
    """How long steps are that meet every number below `size` once: near .618 of it, and coprime to it."""
    stride = max(1, int(size * (math.sqrt(5) - 1) / 2))
    while math.gcd(stride, size) > 1:
        stride += 1
    return stride


def one_each(proposed: np.ndarray, drawn: np.ndarray, taken: np.ndarray, stride: int) -> np.ndarray:
    """Choose for each row of proposed prompts (n, C) the one with the highest draw that is free, int64 (n,).

    Where all are `taken`, bool (N,), or chosen for earlier rows, the first free prompt in steps of `stride`
    from the row's last proposal is chosen.
    """
    chosen: dict[int, None] = {}
    best_first = np.take_along_axis(proposed, np.argsort(-drawn, axis=1, kind="stable"), axis=1)
    for row, last in zip(best_first.tolist(), proposed[:, -1].tolist(), strict=True):
        pick = next((prompt for prompt in row if not taken[prompt] and prompt not in chosen), None)
        if pick is None:
            pick = last
            while taken[pick] or pick in chosen:
                pick = (pick + stride) % len(taken)
        chosen[pick] = None
    return np.fromiter(chosen, np.int64, len(chosen))
