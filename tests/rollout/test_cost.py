import numpy as np
import pytest

from curro import ConfigError, Curriculum, Gate
from curro.core.intervals import wilson
from curro.rollout.cost import fill_cost


def seen(rewards_PG, **options):
    """A curriculum that has seen these groups, and has prompts that it has not."""
    curriculum = Curriculum("uniform", len(rewards_PG) + 5, **options)
    draw = curriculum.select(len(rewards_PG), step=0)
    curriculum.observe(draw.tickets, rewards_PG)
    return curriculum


def groups(successes, size):
    return (np.arange(size) < np.asarray(successes)[:, None]).astype(float)


def test_the_cost_is_the_group_over_the_share_admitted():
    cost = fill_cost(seen(groups([0, 1, 2, 3, 4, 4, 0, 0, 2, 4], 4)).table, "band:0,1", 4)
    assert (cost.share, cost.seen, cost.rollouts) == (0.4, 10, 10.0)
    # Wilson's interval of 4 in 10, as in his 1927 paper's formula with z = 1.96
    assert (4 / cost.high, 4 / cost.low) == pytest.approx((0.1682, 0.6873), abs=1e-4)
    assert str(cost).startswith("10.0 rollouts an admitted group (95 % interval 5.8 to 23.8): 40.0% of 10")


@pytest.mark.parametrize("size", [1, 2, 3, 5, 6, 7, 10, 16, 20, 30])
@pytest.mark.parametrize(
    "gate",
    [
        "everything",
        "signal",
        "signal:0.2",
        "variance:0.09",
        "variance:0.09,0.21",
        "band:0,1",
        "band:0.2,0.8",
        "band:0.3,0.7",
        "band:0.3,0.7,both",
        "band:0.5,1,high",
        "band:0.25,0.6,low",
    ],
)
def test_a_gate_admits_what_it_admitted(gate, size):
    for reward_range in [(0.0, 1.0), (-1.0, 1.0)]:
        low, high = reward_range
        rewards_PG = low + (high - low) * groups(range(size + 1), size)
        curriculum = seen(rewards_PG, admission=gate, reward_range=reward_range)
        admitted = curriculum.metrics()["admitted"]
        assert fill_cost(curriculum.table, gate, size).share * (size + 1) == pytest.approx(admitted)


def test_thirds_and_tenths_are_what_they_were():
    curriculum = seen(groups([2, 3, 4], 9))
    assert fill_cost(curriculum.table, {"name": "band", "low": 1 / 3, "high": 0.9}, 9).share == 1 / 3
    curriculum = seen(np.array([[0.1, 0.5], [0.2, 0.4], [0.3, 0.4]]))
    assert fill_cost(curriculum.table, "band:0.3,0.9", 2).share == 1 / 3


@pytest.mark.parametrize("size", [2, 3, 8])
def test_a_gate_of_ones_own_sees_groups_of_the_table_s_mean_and_variance(size):
    rng = np.random.default_rng(0)
    curriculum = seen(rng.normal(2, 3, (200, size)))

    class Own(Gate):
        def __call__(self, groups):
            assert groups.rewards.shape == groups.scored.shape == (200, size)
            np.testing.assert_allclose(groups.rewards.mean(axis=1), groups.mean, atol=1e-12)
            np.testing.assert_allclose(groups.rewards.var(axis=1), groups.variance, atol=1e-12)
            np.testing.assert_allclose(groups.mean, self.table["reward_mean"][groups.prompts], rtol=1e-6)
            return groups.part(None)[2] == size

    assert fill_cost(curriculum.table, Own(), size).share == 1.0


def test_nothing_admitted_is_infinite_and_nothing_seen_is_not_known():
    cost = fill_cost(seen(groups([0, 4, 4], 4)).table, "signal", 4)
    assert (cost.rollouts, cost.high, cost.share) == (np.inf, np.inf, 0.0)
    assert cost.low == pytest.approx(4 / wilson(0, 3)[1])
    cost = fill_cost(Curriculum("uniform", 3).table, "signal", 4)
    assert np.isnan([cost.rollouts, cost.share]).all()
    assert (cost.low, cost.high, cost.seen) == (4, np.inf, 0)


def test_many_prompts_are_taken_in_parts():
    curriculum = Curriculum("uniform", 200_000)
    curriculum.table["visits"][:] = 1
    curriculum.table["reward_mean"][:] = np.arange(200_000) % 4 / 4
    curriculum.table["reward_variance"][:] = 0.1
    assert fill_cost(curriculum.table, "band:0,1", 8).share == 0.75


def test_a_gate_on_a_named_reward_is_refused():
    table = seen(groups([1], 4)).table
    with pytest.raises(ConfigError, match=r"'accuracy'.*remembers the training reward alone"):
        fill_cost(table, "band:0,1,reward=accuracy", 4)
    with pytest.raises(ConfigError, match="at least 1 rollout"):
        fill_cost(table, "band:0,1", 0)


def test_the_gate_of_a_curriculum_stays_as_it_is():
    one, other = seen(groups([1], 4), admission="signal"), seen(groups([0], 4))
    assert fill_cost(other.table, one.admission, 4).share == 0.0
    assert one.admission.table is one.table


def test_wilson_against_scipy():
    stats = pytest.importorskip("scipy.stats")
    for successes, trials in [(0, 1), (1, 1), (0, 50), (3, 7), (999, 1000), (500, 1000)]:
        expected = stats.binomtest(successes, trials).proportion_ci(method="wilson")
        assert wilson(successes / trials, trials) == pytest.approx((expected.low, expected.high), abs=1e-12)
