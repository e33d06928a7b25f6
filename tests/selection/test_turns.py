"""A queue of turns against a sorted list."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from curro.selection.adcl import Turns

PROMPTS = 5


def test_a_turn_worked_out_by_hand():
    # keys 1, 0, 1, 0 of prompts 0..3; ties 2, 1, 0, 3: the order is 1, 3, 2, 0
    turns = Turns(np.arange(4), np.array([1, 0, 1, 0]), np.array([2, 1, 0, 3]))

    def everything_but_3(prompts: np.ndarray, keys: np.ndarray) -> np.ndarray:
        return prompts != 3

    assert turns.take(2, everything_but_3).tolist() == [1, 2]
    turns.add(np.array([3, 1]), np.array([2, 0]))
    assert turns.take(9, lambda prompts, keys: prompts >= 0).tolist() == [1, 0, 3]
    assert turns.take(1, everything_but_3).tolist() == []


actions = st.one_of(
    st.tuples(st.just("take"), st.integers(1, 6)),
    st.tuples(st.just("change"), st.integers(0, PROMPTS - 1), st.integers(0, 2)),
    st.tuples(st.just("away"), st.integers(0, PROMPTS - 1)),
)


@given(
    first=st.lists(st.integers(0, 2), min_size=PROMPTS, max_size=PROMPTS),
    ties=st.permutations(range(PROMPTS)),
    done=st.lists(actions, max_size=40),
)
def test_turns_come_as_from_a_sorted_list(first, ties, done):
    """Prompts are taken, get another key, become due again or stop being due, in any order."""
    tie_N, key_of = np.array(ties), dict(enumerate(first))
    turns, due = Turns(np.arange(PROMPTS), np.array(first), tie_N), set(range(PROMPTS))

    def is_due(prompts: np.ndarray, keys: np.ndarray) -> np.ndarray:
        found = []
        for prompt, key in zip(prompts.tolist(), keys.tolist(), strict=True):
            found.append(prompt in due and key_of[prompt] == key)
        return np.array(found, np.bool_)

    for what, *arguments in done:
        if what == "take":
            expected = sorted(due, key=lambda prompt: (key_of[prompt], ties[prompt]))[: arguments[0]]
            taken = turns.take(arguments[0], is_due).tolist()
            assert taken == expected
            due -= set(taken)
        elif what == "away":
            due.discard(arguments[0])
        else:
            prompt, key = arguments
            if prompt in due and key_of[prompt] == key:
                continue  # it waits there already
            key_of[prompt] = key
            due.add(prompt)
            turns.add(np.array([prompt]), np.array([key]))
