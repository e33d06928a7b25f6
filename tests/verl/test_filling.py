"""What a batch that is not filled is said to have failed by."""

from __future__ import annotations

import pytest

from curro.errors import FillError
from curro.hosts.verl.filling import Filling


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"rejected": 5, "stale": 2}, "5 were rejected by the gate, 2 were stale: widen curro.admission, or"),
        ({"flat": 8}, "8 had one value of algorithm.filter_groups.metric: choose another metric or data, or"),
        ({"failed": 3, "rejected": 1}, "3 had failed rollouts, 1 were rejected by the gate: look for their"),
        ({"stale": 4}, "4 were stale: raise trainer.v1.sampler.max_off_policy_threshold, or"),
        ({}, "too few are finished: raise curro.refill_limit"),
    ],
)
def test_the_largest_cause_comes_first_and_says_what_to_do(counts, words):
    filling = Filling(4, 2)
    filling.begin()
    filling.drawn(8)
    for name, number in counts.items():
        setattr(filling, name, number)
    with pytest.raises(FillError) as caught:
        filling.check(7)
    said = str(caught.value)
    assert said.startswith("8 groups were generated for the batch of 4 of step 7, and of the groups that")
    assert words in said
    assert said.endswith("raise curro.refill_limit, now 2 batches")


def test_a_batch_begins_at_nothing():
    filling = Filling(4, 1)
    filling.drawn(4)
    filling.rejected = filling.flat = filling.failed = filling.stale = 4
    filling.begin()
    filling.check(0)
    assert filling == Filling(4, 1)
