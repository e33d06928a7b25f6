"""The estimate of what uniform sampling would find, beside what it does find."""

import numpy as np
import pytest

from curro import ConfigError, Curriculum
from curro.core.intervals import agresti_coull, ratio_interval
from curro.core.meters import GroupMeter
from curro.core.prompts import PromptTable
from curro.core.standing import Standing
from curro.data import PromptSet


def test_by_hand():
    meter = GroupMeter(PromptTable(100))
    # 40 groups of weight 1 with a signal and 10 of weight 4 without, and 50 that say nothing
    weights = np.repeat([1.0, 4.0, np.nan], [40, 10, 50])
    meter.draw(np.arange(100), weights, np.zeros(100))
    meter.observe(np.arange(100), np.arange(100), np.repeat([0.25, 0.0, 0.25], [40, 10, 50]), np.zeros(100))
    metrics = meter.metrics()
    assert metrics["signal/uniform"] == pytest.approx(0.25 * 40 / 80)
    assert metrics["signal/mean_square_advantage"] == pytest.approx(0.25 * 90 / 100)
    assert metrics["signal/ratio"] == pytest.approx(2 * 90 / 100)
    assert metrics["signal/uniform_share"] == pytest.approx(0.5)
    # effective groups: 80^2 / (40 + 160) = 32; (16 + 2) / 36 +- 2 sqrt(1/4 / 36)
    low, high = metrics["signal/uniform_share_low"], metrics["signal/uniform_share_high"]
    assert (low, high) == pytest.approx((1 / 2 - 1 / 6, 1 / 2 + 1 / 6))


def test_the_signal_is_that_of_the_groups_that_uniform_sampling_is_estimated_from():
    """A policy that has learnt half of what it is asked: early and late groups count alike on both sides."""
    meter = GroupMeter(PromptTable(5000))
    meter.draw(np.arange(0, 1024, 4), np.full(256, 4.0), np.zeros(256))
    meter.observe(np.arange(512), np.arange(512), np.full(512, 0.25), np.zeros(512))
    meter.observe(np.arange(512, 1024), np.arange(512), np.full(512, 0.125), np.zeros(512))
    metrics = meter.metrics()
    assert metrics["signal/mean_square_advantage"] == metrics["signal/uniform"] == 3 / 16
    assert metrics["signal/ratio"] == 1


def test_the_ratio_of_two_shares_by_hand():
    # 0.24 / (0.125 + sqrt(0.125^2 - 0.24 * 0.06)) and (0.125 + sqrt(0.125^2 - 0.24 * 0.06)) / 0.06
    assert ratio_interval(0.5, (0.4, 0.6), 0.25, (0.2, 0.3)) == pytest.approx((1.5, 8 / 3))
    assert ratio_interval(0.5, (0.4, 0.6), 0.0, (0.0, 0.5)) == pytest.approx((0.24**0.5 / 0.5, np.inf))
    assert ratio_interval(0.0, (0.0, 0.1), 0.25, (0.2, 0.3)) == pytest.approx((0.0, 0.1 / 0.06**0.5))
    assert ratio_interval(0.0, (0.0, 0.0), 0.0, (0.0, 0.0)) == (0.0, np.inf)


@pytest.mark.parametrize(("of_method", "of_uniform"), [(0.2, 0.2), (0.5, 0.2), (0.1, 0.02), (0.9, 0.9)])
def test_the_interval_holds_the_ratio(of_method, of_uniform):
    """In 95% of 400 runs or more, of 256 groups of which 64 are uniform sampling's."""
    rng, held = np.random.default_rng(0), 0
    for random, own in zip(rng.binomial(64, of_uniform, 400), rng.binomial(192, of_method, 400), strict=True):
        standing = Standing(256, (random + own) / 256, random / 64, agresti_coull(random / 64, 64))
        low, high = standing.interval
        held += low <= (of_uniform + 3 * of_method) / 4 / of_uniform <= high
    assert held >= 380


def test_rounding_makes_no_share_certain():
    """Normalised weights sum to 1 less a rounding error, and every group has a signal."""
    for seed in range(20):
        meter, weights = GroupMeter(PromptTable(30)), np.random.default_rng(seed).uniform(0.5, 2, 30)
        meter.draw(np.arange(30), weights, np.zeros(30))
        meter.observe(np.arange(30), np.arange(30), np.full(30, 0.25), np.zeros(30))
        effective = weights.sum() ** 2 / np.square(weights).sum()
        assert meter.metrics()["signal/uniform_share_low"] == pytest.approx(agresti_coull(1, effective)[0])


def test_too_few_groups_say_nothing():
    meter = GroupMeter(PromptTable(100))
    meter.draw(np.arange(15), np.ones(15), np.zeros(15))
    meter.observe(np.arange(15), np.arange(15), np.full(15, 0.25), np.zeros(15))
    metrics = meter.metrics()
    assert metrics.pop("signal/mean_square_advantage") == 0.25
    assert all(np.isnan(value) for value in metrics.values())


def test_settled_tickets_are_forgotten():
    curriculum = Curriculum("uniform", 9)
    draw = curriculum.select(9, step=0)
    curriculum.drop(draw.tickets[:3])
    curriculum.observe(draw.tickets[3:6], np.full((3, 2), np.nan))
    curriculum.observe(draw.tickets[6:8], np.ones((2, 2)))
    assert curriculum.state_dict()["meters"]["tickets"].tolist() == draw.tickets[8:].tolist()


def test_dropped_groups_do_not_count_and_the_latest_1024_do():
    meter = GroupMeter(PromptTable(5000))
    meter.draw(np.arange(3000), np.ones(3000), np.zeros(3000))
    meter.drop(np.arange(2000, 3000))
    meter.observe(np.arange(2000), np.arange(2000), np.repeat([0.0, 0.25], [1000, 1000]), np.zeros(2000))
    # of the latest 1,024 the first 24 have no signal
    assert meter.metrics()["signal/uniform_share"] == pytest.approx(1000 / 1024)
    assert not meter.state_dict()["tickets"].size


POOLS = {
    "half out of reach": lambda rng, n: np.where(rng.random(n) < 0.5, 0.0, rng.random(n)),
    "most out of reach": lambda rng, n: np.where(rng.random(n) < 0.9, 0.0, rng.random(n)),
    "most solved": lambda rng, n: np.where(rng.random(n) < 0.8, 1.0, rng.random(n)),
    "hard": lambda rng, n: rng.beta(0.3, 3.0, n),
    "uniform": lambda rng, n: rng.random(n),
}
METHODS = (
    "uniform", "pspo:epsilon=0.1", "prioritized-replay", "sec:categories=4", "frontier:exploration=0.25",
    "posterior:exploration=0.25",
)  # fmt: skip


def trained(method, rates, seed, steps=100, prompts=60):
    """So many prompts of 8 rollouts a step, with these success rates all along."""
    curriculum, rng = Curriculum(method, len(rates), seed=seed), np.random.default_rng(seed)
    for step in range(steps):
        draw = curriculum.select(prompts, step=step)
        curriculum.observe(draw.tickets, (rng.random((prompts, 8)) < rates[draw.prompts, None]) + 0.0)
    return curriculum


@pytest.mark.parametrize("method", METHODS)
def test_it_is_what_uniform_sampling_finds(method):
    """Of five pools at most two are outside of an interval of 95%; the variance is near."""
    outside = 0
    for number, pool in enumerate(POOLS.values()):
        rates = pool(np.random.default_rng(number), 1200)
        metrics = trained(method, rates, number).metrics()
        share, variance = np.mean(1 - rates**8 - (1 - rates) ** 8), np.mean(rates * (1 - rates)) * 7 / 8
        outside += not metrics["signal/uniform_share_low"] < share < metrics["signal/uniform_share_high"]
        assert metrics["signal/uniform"] == pytest.approx(variance, rel=0.35)
    assert outside <= 2


def test_predictions_by_hand():
    """Half of 32 groups have a signal, and predictions say that such prompts were drawn too often."""
    meter = GroupMeter(PromptTable(100))
    has_signal = np.arange(32) % 2 == 0
    # predictions are 0.5 and 0, and their mean over all candidates is 0.2
    meter.draw(np.arange(32), np.ones(32), np.where(has_signal, 0.3, -0.2))
    meter.observe(np.arange(32), np.arange(32), np.where(has_signal, 0.25, 0.0), np.zeros(32))
    metrics = meter.metrics()
    # slope 16 (0.15 + 0.1) / 16 (0.09 + 0.04) = 1.923, and 0.5 - 1.923 * 0.05 = 0.404; leaving one group out
    # changes it little
    assert metrics["signal/uniform_share"] == pytest.approx(0.404, abs=0.01)
    assert metrics["signal/uniform"] == pytest.approx(metrics["signal/uniform_share"] / 4, rel=1e-9)


NARROW = (
    ("frontier:exploration=0.25", 120, 60),  # all prompts are candidates
    ("frontier:exploration=0.25", 1200, 1),  # most calls explore nothing
    ("frontier:exploration=0.125", 4000, 30),  # most candidates are unseen, with equal predictions
    ("pspo:epsilon=0.1", 120, 60),  # the prompts of high priority are used up in every call
    ("greso", 100, 60),  # a call is of several passes
)


@pytest.mark.parametrize(("method", "size", "prompts"), NARROW)
def test_it_holds_where_few_prompts_are_left_to_choose(method, size, prompts):
    """The mean of four estimates is the share; a bias would not average out."""
    estimates, shares = [], []
    for seed in range(4):
        rates = POOLS["half out of reach"](np.random.default_rng(seed), size)
        metrics = trained(method, rates, seed, min(1800 // prompts, 600), prompts).metrics()
        estimates.append(metrics["signal/uniform_share"])
        shares.append(np.mean(1 - rates**8 - (1 - rates) ** 8))
    assert np.mean(estimates) == pytest.approx(np.mean(shares), abs=0.03)


def test_prompts_that_never_come_are_missed():
    """A prompt without signal comes 4,000 times more rarely than others, too rarely for 1,024 groups."""
    rates = POOLS["half out of reach"](np.random.default_rng(0), 1200)
    shares = [trained("pspo", rates, seed, 40).metrics()["signal/uniform_share"] for seed in range(2)]
    assert np.isnan(shares).all()


SILENT = ("frontier:exploration=0", "adcl", "least-visited", "prioritized-replay:variant=published")


@pytest.mark.parametrize("method", SILENT)
def test_where_nothing_is_known_nothing_is_said(method):
    metrics = trained(method, np.full(1200, 0.5), 0, steps=5).metrics()
    assert np.isnan(metrics["signal/uniform"])
    assert np.isnan(metrics["signal/ratio"])


def alike(rate):
    """A pool in which all prompts have this rate, so that nothing can tell them apart."""
    return lambda rng, n: np.full(n, rate)


LEVEL = {
    "easy": ("frontier", 1200, lambda rng, n: rng.uniform(0.2, 0.8, n), "Most groups have a signal anyway"),
    "solved": ("frontier", 1200, alike(1.0), "are solved in all rollouts"),
    "nearly solved": ("frontier", 1200, alike(0.995), "are solved in all rollouts"),
    "hopeless": ("frontier", 1200, alike(0.0), "fail in all rollouts"),
    "hopeless, by outcomes": ("posterior", 1200, alike(0.0005), "fail in all rollouts"),
    "solved and hopeless": (
        "frontier",
        1200,
        lambda rng, n: rng.integers(2, size=n) + 0.0,
        "are always solved",
    ),
    "nothing tells": ("frontier", 1200, alike(0.05), "does not tell which"),
    "outcomes tell nothing": ("posterior", 1200, alike(0.95), "does not tell which"),
}
AHEAD = {
    "texts tell": ("frontier", 1200, lambda rng, n: np.where(np.arange(n) % 4, 0.0, 0.5)),
    "outcomes tell": ("posterior", 60, lambda rng, n: np.where(np.arange(n) % 4, 0.0, 0.5)),
}


def logged(caplog, method, size, *pools, steps=24, expected=None):
    """What a run of 16 groups a step says of its standing, and at which step.

    Args:
        pools: of so many steps each, one after the other.
        expected: what the curriculum is told of the number of steps.
    """
    rng, said = np.random.default_rng(0), []
    texts = [f"{'sum' if i % 4 == 0 else 'word'} {rng.integers(10**6)}" for i in range(size)]
    rows = [{"key": str(i), "prompt": text, "answer": None} for i, text in enumerate(texts)]
    curriculum = Curriculum(method, PromptSet(rows), seed=0)
    if expected is not None:
        curriculum.expect(expected)
    for step in range(steps * len(pools)):
        rates = pools[step // steps](np.random.default_rng(0), size)
        draw = curriculum.select(16, step=step)
        curriculum.observe(draw.tickets, (rng.random((16, 8)) < rates[draw.prompts, None]) + 0.0)
        said += [(step, record.getMessage()) for record in caplog.records]
        caplog.clear()
    return said


@pytest.mark.parametrize("run", LEVEL)
def test_a_run_that_finds_no_more_says_so_once_with_the_cause(caplog, run):
    *setting, cause = LEVEL[run]
    ((_, message),) = logged(caplog, *setting)
    assert "no more than uniform" in message
    assert cause in message


@pytest.mark.parametrize("run", AHEAD)
def test_a_run_that_finds_more_says_nothing(caplog, run):
    assert logged(caplog, *AHEAD[run]) == []


@pytest.mark.parametrize(("expected", "steps_before"), [(None, 8), (60, 6), (200, 20)])
def test_it_says_so_after_a_tenth_of_its_steps_or_after_128_groups(caplog, expected, steps_before):
    ((step, _),) = logged(caplog, *LEVEL["hopeless"][:3], expected=expected)
    assert step + 1 == steps_before


def test_a_warning_that_later_groups_contradict_is_taken_back_once(caplog):
    """Nothing can be found at first; then the policy learns what the texts tell apart."""
    method, size, pool = AHEAD["texts tell"]
    warned, withdrawn = logged(caplog, method, size, alike(0.0), pool, pool, steps=64)
    assert (warned[0] + 1, "no more than uniform" in warned[1]) == (8, True)
    assert withdrawn[0] >= 64
    assert "contrary to what was said before, the method helps now. In the last 1,024 groups" in withdrawn[1]


@pytest.mark.parametrize("steps", [0, 2.5, None])
def test_an_expected_number_of_steps_is_a_whole_number(steps):
    with pytest.raises(ConfigError, match="steps is a whole number from 1"):
        Curriculum("uniform", 6).expect(steps)
