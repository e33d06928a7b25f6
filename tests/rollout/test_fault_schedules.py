"""Fills in which everything goes wrong that can; `python -m tests.rollout.fault_schedules` tries more."""

import pytest
from tests.rollout import fault_schedules


@pytest.mark.parametrize("selection", fault_schedules.SELECTIONS)
def test_no_schedule_breaks_a_promise(selection):
    assert fault_schedules.schedules(selection, 40, seed=7) == {"kept": 40}
