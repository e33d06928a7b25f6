"""PSPO's prioritized prompt sampling: equations 7 to 11 by hand, and the frequencies of (10)."""

import math

import numpy as np
import pytest
from scipy.stats import chisquare

from curro import Curriculum, Reason

EPSILON = 1e-6


def pspo(prompts, *, seed=0, advantage=None, reward_range=(0, 1), **options):
    return Curriculum(
        {"name": "pspo", **options}, prompts, advantage=advantage, reward_range=reward_range, seed=seed
    )


def report(port, groups, step=0):
    """Roll out all prompts and report groups in the order of the prompts' numbers; returns the draw."""
    draw = port.select(port.table.size, step=step)
    port.observe(draw.tickets, np.array(groups, float)[draw.prompts])
    return draw


def priorities(rewards, **options):
    port = pspo(1, **options)
    report(port, [rewards])
    return float(port.table["pps_priority"][0])


def test_priorities_of_a_binary_group():
    # [1, 0, 0, 0]: mean 1/4, deviation sqrt(3)/4, |A| = .75, .25, .25, .25 over it
    scale = math.sqrt(3) / 4 + 1e-4
    assert priorities([1, 0, 0, 0], priority="mean") == pytest.approx(
        0.375 / scale + EPSILON, rel=1e-12
    )  # (7)
    assert priorities([1, 0, 0, 0], priority="max") == pytest.approx(0.75 / scale + EPSILON, rel=1e-12)  # (8)
    assert priorities([1, 0, 0, 0]) == pytest.approx(0.25 / scale + EPSILON, rel=1e-12)  # (9)
    assert priorities([0, 0, 0, 1]) == pytest.approx(0.75 / scale + EPSILON, rel=1e-12)
    assert priorities([1, 0, 0, 0], priority="informativeness") == pytest.approx(3 / 16 + EPSILON, rel=1e-12)


def test_priorities_of_a_continuous_group():
    # [-1, 1, 3, 5]: mean 2, deviation sqrt 5
    scale = math.sqrt(5) + 1e-4
    assert priorities([-1, 1, 3, 5], priority="mean") == pytest.approx(2 / scale + EPSILON, rel=1e-12)
    assert priorities([-1, 1, 3, 5]) == pytest.approx(3 / scale + EPSILON, rel=1e-12)
    informative = priorities([-1, 1, 3, 5], priority="informativeness", reward_range=(-1, 5))
    assert informative == pytest.approx(5 / 36 + EPSILON, rel=1e-12)


def test_equal_rewards_leave_epsilon():
    for priority in ("last", "mean", "max", "informativeness"):
        assert priorities([0.1] * 7, priority=priority, epsilon=0.01) == 0.01


def test_the_last_rollout_is_the_last_that_was_scored():
    # of [1, 0]: A = -+1/2 over 1/2 + 1e-4
    assert priorities([1, 0, np.nan, np.nan]) == pytest.approx(0.5 / 0.5001 + EPSILON, rel=1e-12)
    mean = priorities([1, 0, np.nan, np.nan], priority="mean")
    assert mean == pytest.approx(0.5 / 0.5001 + EPSILON, rel=1e-12)


def test_smoothed_priorities_are_those_of_the_credited_advantages():
    port = pspo(1, statistics="smoothed", advantage="smoothed:alpha=0.5,epsilon=0")
    report(port, [[1, 0, 0, 0]])
    report(port, [[1, 1, 1, 0]])
    # test_smoothed: A = -1/2 / sqrt(3/16) in the last place
    assert port.table["pps_priority"][0] == pytest.approx(0.5 / math.sqrt(3 / 16) + EPSILON, rel=1e-12)
    raw = pspo(1, advantage="smoothed:alpha=0.5,epsilon=0")
    report(raw, [[1, 0, 0, 0]])
    report(raw, [[1, 1, 1, 0]])
    expected = 0.75 / (math.sqrt(3) / 4 + 1e-4) + EPSILON
    assert raw.table["pps_priority"][0] == pytest.approx(expected, rel=1e-12)


def test_probabilities_and_weights():
    # informativeness: 1/4, 3/16 and 0, to the power 1: P = 4/7, 3/7, 0 but for epsilon, then w by (11)
    port = pspo(3, priority="informativeness", exponent=1, beta=0.5, epsilon=0.0625)
    report(port, [[1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
    # with epsilon 1/16: 5/16, 4/16, 1/16: P = .5, .4, .1; N P = 1.5, 1.2, .3
    draw = port.select(3, step=1)
    probabilities, weights = np.empty(3), np.empty(3)
    probabilities[draw.prompts], weights[draw.prompts] = draw.probabilities, draw.weights
    np.testing.assert_allclose(probabilities, [0.5, 0.4, 0.1], rtol=1e-12)
    raw = (1 / (3 * np.array([0.5, 0.4, 0.1]))) ** 0.5
    np.testing.assert_allclose(weights, raw, rtol=1e-12)
    np.testing.assert_allclose(port.selection.batch_weights(weights), [math.sqrt(0.2), 0.5, 1], rtol=1e-12)


def test_weights_of_a_batch_do_not_depend_on_how_it_was_drawn():
    options = {"priority": "informativeness", "exponent": 1, "beta": 0.5, "epsilon": 0.0625, "seed": 4}
    found = []
    for sizes in ([3], [1, 2], [1, 1, 1]):
        port = pspo(3, **options)
        report(port, [[1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
        draws = [port.select(n, step=1) for n in sizes]
        prompts = np.concatenate([draw.prompts for draw in draws])
        settled = [port.observe(draw.tickets, np.zeros((len(draw), 4))).weights for draw in draws]
        weights = port.selection.batch_weights(np.concatenate(settled))
        found.append(weights[np.argsort(prompts)].tolist())
    for weights in found:
        assert weights == pytest.approx([math.sqrt(0.2), 0.5, 1], rel=1e-12)


def test_the_weight_is_that_of_the_draw():
    port = pspo(2, priority="informativeness", exponent=1, beta=1, epsilon=0.0625, normalize="all")
    report(port, [[1, 1, 0, 0], [0, 0, 0, 0]])
    draw = port.select(2, step=1)  # 5/16 and 1/16
    later = port.observe(draw.tickets, [[0, 0, 0, 0], [0, 0, 0, 0]])
    np.testing.assert_allclose(later.weights[np.argsort(draw.prompts)], [0.2, 1])


def test_all_normalizes_by_the_rarest_prompt_of_the_data_set():
    options = {"priority": "informativeness", "exponent": 1, "beta": 1, "epsilon": 0.0625}
    for normalize, expected in (("batch", 1.0), ("all", 0.2)):
        port = pspo(2, normalize=normalize, seed=3, **options)
        report(port, [[1, 1, 0, 0], [0, 0, 0, 0]])
        draws = [port.select(1, step=1) for _ in range(2)]
        weight = {int(d.prompts[0]): float(port.selection.batch_weights(d.weights)[0]) for d in draws}
        assert weight == pytest.approx({0: expected, 1: 1.0})


def test_new_prompts_have_the_priority_of_a_standard_advantage():
    port = pspo(3)
    draw = port.select(1, step=0)
    assert draw.reasons.tolist() == [Reason.UNSEEN]
    assert draw.probabilities.tolist() == pytest.approx([1 / 3])
    port.observe(draw.tickets, [[0, 0]])
    others = port.select(2, step=0)
    np.testing.assert_allclose(others.probabilities, 1 / (2 + EPSILON**0.6))
    assert pspo(1, priority="informativeness").table["pps_priority"].tolist() == [0.25]


def test_frequencies_follow_equation_10_before_and_after_a_change():
    """2,000 single draws each; a chi-square test that fails for one right program in a thousand."""
    port = pspo(4, priority="informativeness", epsilon=0.01, seed=5)
    report_to = {
        "before": [[1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]],
        "after": [[0, 0, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]],
    }
    variance = {"before": [0.25, 0.1875, 0, 0], "after": [0, 0.25, 0.1875, 0]}
    for when, groups in report_to.items():
        known = np.zeros(4, bool)
        while not known.all():
            draw = port.select(1, step=0)
            port.observe(draw.tickets, np.array(groups)[draw.prompts])
            known[draw.prompts] = True
        counts = np.zeros(4)
        for _ in range(2_000):
            draw = port.select(1, step=0)
            counts[draw.prompts] += 1
            port.drop(draw.tickets)
        weight = (np.array(variance[when]) + 0.01) ** 0.6
        assert chisquare(counts, 2_000 * weight / weight.sum()).pvalue > 1e-3


def test_a_batch_is_successive_draws():
    """First and second of 2,000 pairs, against P(i) P(j) / (1 - P(i)); one wrong alarm in a thousand."""
    port = pspo(3, priority="informativeness", exponent=1, epsilon=0.0625, seed=6)
    report(port, [[1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
    chance, counts = np.array([0.5, 0.4, 0.1]), np.zeros((3, 3))
    for _ in range(2_000):
        draw = port.select(2, step=1)
        counts[tuple(draw.prompts)] += 1
        port.drop(draw.tickets)
    expected = chance[:, None] * chance / (1 - chance[:, None])
    off = ~np.eye(3, dtype=bool)
    assert not counts[~off].any()
    assert chisquare(counts[off], 2_000 * expected[off]).pvalue > 1e-3


def test_metrics_count_how_many_prompts_share_the_draws():
    port = pspo(4, exponent=1, epsilon=1e-6)
    assert port.metrics()["pspo/effective_prompts"] == 4
    report(port, [[1, 0], [0, 1], [0, 0], [1, 1]])
    assert port.metrics()["pspo/effective_prompts"] == pytest.approx(2, rel=1e-5)
