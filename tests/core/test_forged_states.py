"""A state that is damaged, or made to do harm, is refused or harmless.

`benchmarks/reliability/faults.py` tries more.
"""

from __future__ import annotations

import pytest
from benchmarks.reliability import forged_states as faults

from curro import CheckpointError, ConfigError, Curriculum

KINDS = [kind for kind in faults.CURRICULA if kind != "pcl"]
"""Without torch; PCL's value model is tried in tests/methods/prediction."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_forged_state_is_refused_or_harmless(kind):
    counts = faults.forged_states(kind, 40, seed=5)
    assert sum(counts.values()) == 40
    assert counts["refused"] >= 10
    assert counts["works"] >= 1


def test_prompts_in_flight_without_tickets_are_refused():
    curriculum = Curriculum("uniform", 5)
    state = curriculum.state_dict()
    state["table"]["in_flight"][:] = True
    with pytest.raises(CheckpointError, match="table/in_flight is not of the prompts of the open tickets"):
        Curriculum("uniform", 5).load_state_dict(state)


def test_a_step_that_cannot_be_counted_is_refused():
    curriculum = Curriculum("posterior", 5)
    with pytest.raises(ConfigError, match="step 2147483647 is beyond 2147483646"):
        curriculum.select(1, step=2**31 - 1)
    draw = curriculum.select(1, step=2**31 - 2)
    curriculum.observe(draw.tickets, [[1, 0]])
    assert curriculum.table["last_step"].max() == 2**31 - 2
    assert len(curriculum.select(2, step=2**31 - 2)) == 2
