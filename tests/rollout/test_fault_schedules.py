"""In whatever order groups end, fail or are withdrawn, every admitted group is trained on once.

`python -m tests.rollout.fault_schedules` tries more schedules.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.rollout.fault_schedules import schedules
from tests.rollout.fill_promises import GATES, SELECTIONS, FilledBatches

from curro.rollout.fill_settings import WHEN_SHORT, FillSettings

SIZES = st.integers(1, 5)


@pytest.mark.parametrize("selection", SELECTIONS)
def test_no_schedule_breaks_a_promise(selection):
    assert schedules(selection, 40, seed=7) == {"kept": 40}


class Machine(RuleBasedStateMachine):
    @initialize(
        selection=st.sampled_from(SELECTIONS), gate=st.sampled_from(GATES), seed=st.integers(0, 99),
        limit=st.sampled_from([1.0, 2.0, 10.0]), when_short=st.sampled_from(WHEN_SHORT), n=SIZES,
    )  # fmt: skip
    def start(self, selection, gate, seed, limit, when_short, n):
        self.batches = FilledBatches(selection, gate, seed, FillSettings(limit, when_short), n)

    @precondition(lambda self: not self.batches.fill.reason)
    @rule(n=st.integers(1, 4))
    def draw(self, n):
        self.batches.draw(n)

    @precondition(lambda self: self.batches.fill.in_flight)
    @rule(data=st.data(), right=st.integers(0, 4))
    def observe(self, data, right):
        self.batches.observe(data.draw(st.sampled_from(sorted(self.batches.fill.in_flight))), right)

    @precondition(lambda self: self.batches.fill.in_flight)
    @rule(data=st.data(), why=st.sampled_from(["failed", "stale", "cancelled"]))
    def lose(self, data, why):
        self.batches.lose(data.draw(st.sampled_from(sorted(self.batches.fill.in_flight))), why)

    @precondition(lambda self: self.batches.fill.admitted)
    @rule(data=st.data(), why=st.sampled_from(["filtered", "expired"]))
    def withdraw(self, data, why):
        self.batches.withdraw(data.draw(st.sampled_from(sorted(self.batches.fill.admitted))), why)

    @precondition(lambda self: self.batches.trained)
    @rule(data=st.data(), call=st.integers(0, 3))
    def end_again(self, data, call):
        self.batches.end_again(data.draw(st.sampled_from(self.batches.trained)), call)

    @rule(n=SIZES, cancel=st.booleans())
    def finish(self, n, cancel):
        self.batches.finish(n, cancel=cancel)

    @rule(n=SIZES)
    def restore(self, n):
        self.batches.restore(n)

    @invariant()
    def promises(self):
        self.batches.check()


TestMachine = Machine.TestCase
TestMachine.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
