"""Groups of different size under a filler, and groups that go on."""

from collections import Counter

import numpy as np
import pytest
from benchmarks.common import run
from tests.rollout.fake_engine import InOrder
from tests.rollout.filler_setup import make, settled

from curro import Allocation, Curriculum
from curro.errors import FillError


class TwoOrSix(Allocation):
    """2 and 6 rollouts in turn."""

    needs_belief = False

    def __call__(self, prompts, budget, successes, failures):
        return np.resize([2, 6], prompts)


def test_groups_have_the_sizes_that_the_allocation_gave_them():
    marks = {0: "10", 1: "111000", 2: "11", 3: "x11000", 4: "01", 5: "100000"}
    curriculum = Curriculum(
        InOrder(), 20, allocation=TwoOrSix(), admission="band:0,1", advantage="leave-one-out"
    )
    filler, engine, _ = make(
        lambda i, n: (1.0 + i, marks.get(i, "0" * n)),
        curriculum=curriculum,
        max_in_flight=6,
        rollouts_per_prompt=4,
    )
    batch = run(filler.fill(4, step=0))
    assert engine.calls[:4] == [("0", 2), ("1", 6), ("2", 2), ("3", 6)]
    assert batch.prompts.tolist() == [0, 1, 3, 4]
    assert [len(rollouts) for rollouts in batch.rollouts] == [2, 6, 6, 2]
    assert batch.scored.sum(axis=1).tolist() == [2, 6, 5, 2]
    np.testing.assert_array_equal(batch.rewards[0], [1, 0, 0, 0, 0, 0])
    np.testing.assert_allclose(batch.credit[0], [1, -1, 0, 0, 0, 0])
    np.testing.assert_allclose(batch.credit[2], [0, 0.75, 0.75, -0.5, -0.5, -0.5])
    counts = settled(filler, curriculum)
    assert (counts.given_out, counts.cancelled, counts.draws) == (12, 7, 3)
    assert counts.rollouts == 5 * (2 + 6)  # 10 were started
    failing, _, _ = make(lambda i, n: (1.0, "0" * n), curriculum=curriculum, max_in_flight=3, limit=99)
    with pytest.raises(FillError, match="all 20 prompts were tried"):
        run(failing.fill(2, step=1))
    assert len(curriculum.ledger) == 0


def test_a_knapsack_spends_the_budget_of_every_batch():
    curriculum = Curriculum("frontier", 40, allocation="knapsack", advantage="leave-one-out")
    filler, _, _ = make(lambda i, n: (1.0, ("10" * n)[:n]), curriculum=curriculum, max_in_flight=4)

    async def steps():
        return [await filler.fill(4, step=step) for step in range(5)]

    for batch in run(steps()):
        assert sum(len(rollouts) for rollouts in batch.rollouts) == 4 * 4
    assert settled(filler, curriculum).admitted == 20


def staged(plan, allocation, **options):
    """A filler whose groups go on; `plan(prompt, stage)` are the marks of a group's stage."""
    curriculum = Curriculum(
        InOrder(), 20, allocation=allocation, admission="signal", advantage="leave-one-out"
    )
    stages = Counter()

    def marks(prompt, n):
        stages[prompt] += 1
        return 1.0, plan(prompt, stages[prompt])

    filler, engine, _ = make(marks, curriculum=curriculum, **options)
    return filler, engine, curriculum


def test_open_groups_get_the_further_rollouts_that_the_allocation_wants():
    plans = {1: ["10", "1x01", "1"], 2: ["11"], 4: ["01", "x000", "0"]}
    filler, engine, curriculum = staged(
        lambda i, stage: plans.get(i, ["00"])[stage - 1], "screen:first=2,total=6", least_rollouts=1
    )
    batch = run(filler.fill(2, step=0))
    assert [call for call in engine.calls if call[0] == "1"] == [("1", 2), ("1", 4), ("1", 1)]
    assert batch.prompts.tolist() == [1, 4]
    assert [len(rollouts) for rollouts in batch.rollouts] == [7, 7]
    assert batch.scored.sum(axis=1).tolist() == [6, 6]
    np.testing.assert_array_equal(batch.rewards[0], [1, 0, 1, 0, 0, 1, 1])
    np.testing.assert_allclose(batch.credit[0], [0.4, -0.8, 0.4, 0, -0.8, 0.4, 0.4])
    counts = settled(filler, curriculum)
    assert counts.rollouts == sum(n for _, n in engine.calls)


def test_a_group_that_cannot_go_on_is_observed_as_it_is():
    filler, engine, curriculum = staged(
        lambda i, stage: "10" if stage == 1 else "xx", "screen:first=2,total=4", retries=1, max_in_flight=1
    )
    batch = run(filler.fill(1, step=0))
    assert batch.rewards.tolist() == [[1, 0]]
    assert engine.calls == [("0", 2)] + [("0", 2)] * 2
    assert settled(filler, curriculum).wasted_rollouts == 4


def test_a_group_that_wants_more_for_ever_ends_at_the_limit():
    class Endless(Allocation):
        needs_budget = needs_belief = False
        first = 4

        def more(self, groups, table):
            return np.full(len(groups.prompts), 4)

    filler, _, curriculum = staged(
        lambda i, stage: "1100", Endless(), limit=3, max_in_flight=1, rollouts_per_prompt=4
    )
    batch = run(filler.fill(2, step=0))
    assert filler.counts.rollouts == 3 * 2 * 4 + 4
    assert [len(rollouts) for rollouts in batch.rollouts] == [24, 4]
    settled(filler, curriculum)
