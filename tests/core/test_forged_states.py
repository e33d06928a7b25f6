"""A state that is damaged, or made to do harm, is refused or harmless.

`benchmarks/reliability/faults.py` tries more.
"""

from __future__ import annotations

import numpy as np
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


REGRESSION = ("selection", "predictor", "means")


@pytest.mark.parametrize(
    ("kind", "place", "bend", "words"),
    [
        ("frontier, texts", (*REGRESSION, "weight"), lambda array: array[:9], "another number of features"),
        ("frontier, texts", (*REGRESSION, "centre"), lambda array: array * np.nan, "not finite"),
        ("frontier, texts", (*REGRESSION, "penalty"), lambda array: -array, "not above 0"),
        (
            "frontier, texts",
            ("selection", "predictor", "recent"),
            lambda array: -1 - array,
            "posterior/recent",
        ),
        (
            "posterior",
            ("selection", "predictor", "prior_mean"),
            lambda value: 1e200,
            "moments that no rewards",
        ),
        ("published replay, sum tree", ("selection", "heap", "inside"), np.atleast_2d, "bool with 1 dim"),
        (
            "published replay, sum tree",
            ("selection", "heap", "inside"),
            lambda array: array[:5],
            "not of all",
        ),
        ("published replay, sum tree", ("selection", "heap", "inside"), np.zeros_like, "not in it"),
        ("published replay", ("table", "smoothed_size"), np.negative, "table/smoothed is not of groups"),
        ("published replay", ("table", "smoothed_variance"), lambda array: array - 1, "table/smoothed"),
        ("uniform", ("step",), lambda value: 2**31, "no training step"),
    ],
)
def test_what_a_method_keeps_is_checked(kind, place, bend, words):
    curriculum = faults.make(kind)
    faults.train(curriculum, 4, seed=0)
    state = inside = curriculum.state_dict()
    for name in place[:-1]:
        inside = inside[name]
    inside[place[-1]] = bend(inside[place[-1]])
    with pytest.raises(CheckpointError, match=words):
        faults.make(kind).load_state_dict(state)


def test_a_step_that_cannot_be_counted_is_refused():
    curriculum = Curriculum("posterior", 5)
    with pytest.raises(ConfigError, match="step 2147483647 is beyond 2147483646"):
        curriculum.select(1, step=2**31 - 1)
    draw = curriculum.select(1, step=2**31 - 2)
    curriculum.observe(draw.tickets, [[1, 0]])
    assert curriculum.table["last_step"].max() == 2**31 - 2
    assert len(curriculum.select(2, step=2**31 - 2)) == 2


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("ledger", "selected"), 7, "ledger has counts that do not add up"),
        (("ledger", "tickets"), np.array([1, 0, 2]), "ledger/tickets were not given out so"),
        (("ledger", "prompts"), np.array([0, 9, 1]), "ledger/prompts are not of the table"),
        (("ledger", "weights"), np.array([1.0, np.nan, 1]), "ledger/weights are not weights"),
        (("ledger", "weights"), np.ones(2), "ledger/weights are not weights"),
        (("ledger", "steps"), np.array([0, 9, 0]), "ledger/steps is after the last step"),
        (("step",), 1.0, "state/step is 1.0, not a value of type int"),
        (("meters", "signal", "average"), -1.0, "signal is not a mean square"),
    ],
)
def test_what_does_not_fit_is_named(place, value, words):
    curriculum = Curriculum("uniform", 5)
    curriculum.select(3, step=0)
    state = curriculum.state_dict()
    inside = state
    for name in place[:-1]:
        inside = inside[name]
    inside[place[-1]] = value
    with pytest.raises(CheckpointError, match=words):
        Curriculum("uniform", 5).load_state_dict(state)
