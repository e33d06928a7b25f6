"""The divergence of 0/1 rewards and its crossing with (14), by hand."""

import numpy as np
import pytest
from benchmarks.papers.theory_bound import crossing, most_learnable, reverse_kl, variance_approximation


def test_the_divergence_by_hand():
    # beta = 1 / log 2, p = 1/2: log(1/2 + 2/2) - log(2) / 2
    assert reverse_kl(0.5, 1 / np.log(2)) == pytest.approx(np.log(1.5) - np.log(2) / 2)
    assert reverse_kl([0.0, 1.0], 0.1) == pytest.approx([0, 0])
    assert variance_approximation(0.5, 0.5) == pytest.approx(0.5)


@pytest.mark.parametrize("beta", [0.02, 0.3, 1.0, 20.0])
def test_14_holds_up_to_the_crossing_and_fails_above_it(beta):
    below, above = np.linspace(0.1, 0.99, 9) * crossing(beta), np.linspace(1.01 * crossing(beta), 0.99, 9)
    assert (reverse_kl(below, beta) > variance_approximation(below, beta)).all()
    assert (reverse_kl(above, beta) < variance_approximation(above, beta)).all()


def test_the_most_learnable_rate_is_the_highest_point():
    p = np.linspace(0.001, 0.999, 999)
    for beta in (0.1, 1.0, 5.0):
        assert p[reverse_kl(p, beta).argmax()] == pytest.approx(most_learnable(beta), abs=2e-3)
