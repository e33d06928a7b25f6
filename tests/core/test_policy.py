"""What a server's likeliest tokens tell of an entropy."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curro.core.policy import entropy_of_likeliest

BY_HAND = {
    "one that is sure": ([1.0], 0.0),
    "two, and a rest as likely as the second": ([0.5, 0.25], 1.5 * log(2)),
    "two, and a rest of three like the second": ([0.8, 0.05], 0.8 * log(1.25) + 0.2 * log(20)),
    "one, and a rest that is no likelier": ([0.75], 0.75 * log(4 / 3) + 0.25 * log(4)),
    "three of ten": ([0.1] * 3, log(10)),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_entropies_worked_out_by_hand(name):
    likeliest, entropy = BY_HAND[name]
    assert entropy_of_likeliest(np.log(likeliest)) == pytest.approx(entropy, abs=1e-9)


def test_tokens_are_tempered():
    """At the temperature 1/2 (1/2, 1/4, 1/4) becomes (4, 1, 1) / 6, and at 0 one token is sure."""
    assert entropy_of_likeliest(np.log([0.5, 0.25]), 0.5) == pytest.approx(log(6) - 4 / 6 * log(4))
    assert entropy_of_likeliest(np.log([0.6]), 0.0) == pytest.approx(0)


@given(st.integers(1, 12), st.lists(st.floats(0, 12), min_size=12, max_size=60))
def test_it_is_the_least_entropy_and_lacks_no_more_than_it_says(k, logits):
    shares = np.sort(np.exp(logits) / np.exp(logits).sum())[::-1]
    exact = -(shares * np.log(shares)).sum()
    found = entropy_of_likeliest(np.log(shares[:k]))
    rest, last = shares[k:].sum(), shares[k - 1]
    lacks = rest * np.log(len(shares) * min(rest, last) / rest) if rest else 0
    assert -1e-9 <= exact - found <= lacks + 1e-9
    assert found <= entropy_of_likeliest(np.log(shares[: k + 1])) + 1e-9


@pytest.mark.parametrize("hostile", [[-1e300], [0.0, 0.0, 5.0], [-700.0, -1e-12]])
def test_what_is_no_distribution_gives_a_number(hostile):
    assert np.isfinite(entropy_of_likeliest(hostile))


@pytest.mark.parametrize(
    "likeliest", [[-9999.0] * 20, [-0.5, -9999.0], [np.log(0.7), np.log(0.2999), -9999.0]]
)
def test_a_rest_counts_as_no_more_tokens_than_a_vocabulary_has(likeliest):
    p = np.exp(likeliest)
    rest = 1 - p.sum()
    known = -(p * np.maximum(likeliest, -600)).sum()
    assert entropy_of_likeliest(likeliest) == pytest.approx(known - rest * log(rest / 2**20))
