"""The calibration memory: the latest pairs, or low, middle and high among them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from curro.prediction.metis.predictor import WINDOW, CalibrationMemory


def shown(memory):
    return [tuple(pair) for pair in zip(*(column.tolist() for column in memory.exemplars()), strict=True)]


def test_the_latest_three():
    memory = CalibrationMemory(3, spread=False)
    assert shown(memory) == []
    memory.add(np.array([7]), np.array([0.25]))
    assert shown(memory) == [(7, 0.25)]
    memory.add(np.array([1, 2]), np.array([0.0, 0.1]))
    memory.add(np.array([5]), np.array([0.2]))
    assert shown(memory) == [(1, 0.0), (2, 0.1), (5, 0.2)]


def test_spread_shows_low_middle_and_high():
    memory = CalibrationMemory(3, spread=True)
    memory.add(np.arange(6), np.array([0.0, 0.25, 0.109, 0.0, 0.2, 0.14]))
    # the middle of 0 and 0.25 is 0.125: 0.14 is 0.015 away, 0.109 is 0.016; of the two zeros the later
    assert shown(memory) == [(3, 0.0), (5, 0.14), (1, 0.25)]


def test_spread_of_equal_variances_shows_the_latest():
    memory = CalibrationMemory(3, spread=True)
    memory.add(np.arange(5), np.zeros(5))
    assert {prompt for prompt, _ in shown(memory)} == {2, 3, 4}


def test_spread_of_one_shows_the_middle():
    memory = CalibrationMemory(1, spread=True)
    memory.add(np.arange(3), np.array([0.0, 0.24, 0.11]))
    assert shown(memory) == [(2, 0.11)]


def test_spread_looks_back_so_far_and_no_further():
    memory = CalibrationMemory(2, spread=True)
    memory.add(np.array([0]), np.array([0.25]))
    memory.add(np.full(WINDOW, 1), np.zeros(WINDOW))
    assert {prompt for prompt, _ in shown(memory)} == {1}


@given(
    st.integers(0, 9),
    st.booleans(),
    st.lists(st.lists(st.sampled_from([0.0, 0.05, 0.1875, 0.25]), max_size=9), max_size=12),
)
def test_any_history(size, spread, calls):
    memory, everything = CalibrationMemory(size, spread=spread), []
    for variances in calls:
        prompts = np.arange(len(variances)) + len(everything)
        everything += list(zip(prompts.tolist(), variances, strict=True))
        memory.add(prompts, np.array(variances, np.float64))
        again = CalibrationMemory(size, spread=spread)
        again.load_state_dict(memory.state_dict())
        assert shown(again) == shown(memory)
        pairs = shown(memory)
        assert len(pairs) == len(set(pairs)) == min(size, len(everything))
        recent = everything[len(everything) - min(len(everything), max(size, WINDOW)) :]
        assert set(pairs) <= set(recent)
        if not spread:
            assert pairs == everything[len(everything) - len(pairs) :]
        elif len(pairs) > 1:
            values = [variance for _, variance in pairs]
            assert values == sorted(values)
            assert {values[0], values[-1]} == {min(v for _, v in recent), max(v for _, v in recent)}
