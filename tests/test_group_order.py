"""The order in which groups are learnt from."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from curro.groups import by_prompt


def test_groups_are_in_order_of_their_prompts():
    groups = np.array([[7, 2, 9, 0], [0.25, 0.5, 0.75, 1.0]])
    assert by_prompt(groups).tolist() == [[0, 2, 7, 9], [1.0, 0.5, 0.25, 0.75]]


def test_the_rows_after_it_decide_where_a_prompt_stands_twice():
    groups = np.array([[7, 2, 7, 7], [1, 0, 1, 0], [0.75, 0.5, 0.25, 1.0]])
    assert by_prompt(groups).tolist() == [[2, 7, 7, 7], [0, 0, 1, 1], [0.5, 1.0, 0.25, 0.75]]


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.floats(0, 1)), max_size=30).flatmap(
        lambda groups: st.tuples(st.just(groups), st.permutations(groups))
    )
)
def test_the_order_in_which_groups_came_in_does_not_matter(both):
    one, other = (np.array(groups, np.float64).reshape(-1, 3).T for groups in both)
    np.testing.assert_array_equal(by_prompt(one), by_prompt(other))
