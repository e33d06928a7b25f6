"""The room of a pool: which prompts are held out, and how sure its number is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from curro.training.room import Room, split_evenly


@pytest.mark.parametrize("seed", range(10))
def test_as_many_easy_prompts_are_held_out_as_there_are_in_the_pool(seed):
    # four are never solved, one of them without any outcome, and four always: of each kind one in four
    rates = np.array([1, 0, 1, np.nan, 0, 1, 0, 1])
    assert np.nan_to_num(rates[split_evenly(rates, 2, seed)]).tolist() in ([0, 1], [1, 0])


def test_any_of_the_prompts_with_a_rate_may_be_held_out():
    held_out = [np.flatnonzero(split_evenly(np.zeros(8), 2, seed)) for seed in range(100)]
    assert set(np.concatenate(held_out).tolist()) == set(range(8))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rates=st.lists(st.sampled_from([0, 0.25, 0.5, 0.75, 1]), min_size=1, max_size=60),
    share=st.floats(0, 1),
    seed=st.integers(0, 9),
)
def test_the_held_out_prompts_are_nearly_as_easy_as_all(rates, share, seed):
    rates_P = np.array(rates)
    number = max(1, round(share * len(rates)))
    is_held_out = split_evenly(rates_P, number, seed)
    assert is_held_out.sum() == number
    # one of each run: at worst its lowest or its highest throughout, and the runs follow one another
    lowest = [run[0] for run in np.array_split(np.sort(rates_P), number)]
    highest = [run[-1] for run in np.array_split(np.sort(rates_P), number)]
    assert np.mean(lowest) - 1e-9 <= rates_P[is_held_out].mean() <= np.mean(highest) + 1e-9


def test_the_interval_compares_each_prompt_with_itself():
    # gains of .5, 0, 1 and .5: a mean of .5, a deviation of sqrt(.5 / 3); 3.1824 x .4082 / sqrt(4) = .6496
    room = Room(np.array([0, 0.5, 0, 0.5]), np.array([0.5, 0.5, 1, 1]), prompts=12, answers=1440, seconds=9.0)
    assert room.gain == 0.5
    assert room.interval() == pytest.approx((-0.1496, 1.1496), abs=1e-4)
    assert room.describe()[0].startswith(
        "room +0.500 (-0.150 to +1.150): pass@1 0.250 before and 0.750 after"
    )
    assert room.as_dict()["interval"] == pytest.approx([-0.1496, 1.1496], abs=1e-4)


def test_equal_gains_are_no_certainty():
    hopeless = Room(np.zeros(100), np.zeros(100), prompts=300, answers=1440, seconds=9.0)
    assert hopeless.interval() == pytest.approx((-0.03, 0.03))
    two = Room(np.zeros(2), np.full(2, 0.25), prompts=6, answers=1440, seconds=9.0)
    assert two.interval() == pytest.approx((-0.75, 1.25))


def test_one_held_out_prompt_says_nothing_of_others():
    room = Room(np.array([0.0]), np.array([0.5]), prompts=3, answers=1440, seconds=9.0)
    assert (room.gain, room.interval(), room.as_dict()["interval"]) == (0.5, None, None)
    assert room.describe()[0].startswith("room +0.500 (no interval: one prompt): pass@1 0.000 before")
