"""SEC: categories, Boltzmann draws, the moving average of absolute advantages."""

import numpy as np
import pytest

from curro import ConfigError, Curriculum, Reason
from curro.data import PromptSet
from curro.methods.selection.sec import SelfEvolvingCurriculum


def prompts_with(column, values):
    rows = [{"key": str(i), "prompt": f"p{i}", "answer": None, column: v} for i, v in enumerate(values)]
    return PromptSet(rows)


def outcome_of(curriculum, successes, step=0):
    """Select everything and let prompt p succeed in successes[p] of 4."""
    draw = curriculum.select(curriculum.table.size, step=step)
    curriculum.observe(draw.tickets, np.arange(4) < np.asarray(successes)[draw.prompts][:, None])


def values_of(curriculum):
    return {k.removeprefix("sec/value "): v for k, v in curriculum.metrics().items() if "sec/value" in k}


def test_values_follow_the_mean_absolute_advantage():
    curriculum = Curriculum("sec:categories=2", 4, seed=0)
    # mean |A| of p successes of 4 is 2 p/4 (1 - p/4): 0, 3/8, 1/2, 3/8
    outcome_of(curriculum, [0, 1, 2, 3])
    assert values_of(curriculum) == {"part 0": 0, "part 1": 0}  # not before the next step
    curriculum.drop(curriculum.select(1, step=1).tickets)
    # the mean of (0, 3/8), and of (1/2, 3/8), at the rate 1/2
    assert values_of(curriculum) == {"part 0": 3 / 32, "part 1": 7 / 32}
    outcome_of(curriculum, [2, 2, 0, 0], step=1)
    draw = curriculum.select(1, step=2)
    q0, q1 = 3 / 64 + 1 / 4, 7 / 64
    assert values_of(curriculum) == pytest.approx({"part 0": q0, "part 1": q1})
    chance = np.exp(q0 / 0.4) / (np.exp(q0 / 0.4) + np.exp(q1 / 0.4))
    assert curriculum.metrics()["sec/chance part 0"] == pytest.approx(chance)
    assert draw.probabilities[0] == pytest.approx((chance if draw.prompts[0] < 2 else 1 - chance) / 2)
    assert draw.reasons == [Reason.PRIORITY]


def test_a_category_without_outcomes_keeps_its_value():
    curriculum = Curriculum("sec:categories=2,rate=1.0", 4, seed=0)
    outcome_of(curriculum, [2, 2, 1, 1])
    draw = curriculum.select(4, step=1)
    first = draw.prompts < 2
    curriculum.drop(draw.tickets[first])
    curriculum.observe(draw.tickets[~first], [[0, 0]] * 2)
    curriculum.select(1, step=2)
    assert values_of(curriculum) == {"part 0": 1 / 2, "part 1": 0}


def test_outcomes_within_a_step_do_not_count_before_it_ends():
    curriculum = Curriculum("sec:categories=2,temperature=0.01", 4, seed=0)
    outcome_of(curriculum, [0, 0, 2, 2])
    assert set(curriculum.select(4, step=0).probabilities.round(3)) >= {0.25}


@pytest.mark.parametrize(
    ("rewards", "reward_range", "value"),
    [
        # deviations from 2: -2, 0, 0, 2: mean size 1, in ranges of 4
        ([0, 2, 2, 4], (0, 4), 1 / 4),
        ([7.5, 7.5, 7.5, 7.5], (0, 10), 0),
    ],
)
def test_any_rewards(rewards, reward_range, value):
    curriculum = Curriculum("sec:rate=1.0,categories=1", 1, reward_range=reward_range)
    curriculum.observe(curriculum.select(1, step=0).tickets, [rewards])
    curriculum.select(1, step=1)
    assert values_of(curriculum) == pytest.approx({"part 0": value})


def test_draws_follow_the_probabilities():
    curriculum = Curriculum("sec:categories=3,rate=1.0,temperature=0.25", 9, seed=5)
    outcome_of(curriculum, [0, 0, 0, 1, 1, 1, 2, 2, 2])
    weight = np.exp(np.array([0, 3 / 8, 1 / 2]) / 0.25)
    count = np.zeros(9)
    for _ in range(3000):
        draw = curriculum.select(1, step=1)
        assert draw.probabilities[0] == pytest.approx(weight[draw.prompts[0] // 3] / weight.sum() / 3)
        count[draw.prompts] += 1
        curriculum.drop(draw.tickets)
    np.testing.assert_allclose(count / 3000, np.repeat(weight / weight.sum() / 3, 3), atol=0.02)


def test_a_category_whose_prompts_are_all_in_flight_is_passed_over():
    curriculum = Curriculum("sec:categories=2", 6, seed=1)
    draw = curriculum.select(6, step=0)
    assert sorted(draw.prompts.tolist()) == list(range(6))
    last = draw.prompts[-1] // 3
    left = sum(p // 3 == last for p in draw.prompts[3:])
    assert draw.probabilities[-1] == 1  # one prompt was left
    assert left >= 1
    curriculum.drop(draw.tickets[draw.prompts == 4])
    assert curriculum.select(1, step=0).prompts.tolist() == [4]


def test_values_far_apart_leave_something_to_draw():
    curriculum = Curriculum("sec:categories=2,rate=1.0,temperature=1e-9", 4, seed=0)
    outcome_of(curriculum, [2, 2, 0, 0])
    assert sorted(curriculum.select(4, step=1).prompts.tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("values", "names", "categories"),
    [
        (["b", "a", "b", "c"], ["a", "b", "c"], [1, 0, 1, 2]),
        ([3, 1, 2, 1], ["1", "2", "3"], [2, 0, 1, 0]),
        ([True, False, True], ["False", "True"], [1, 0, 1]),
        # more numbers than categories: three parts of about equal size, equal values in one
        ([0.0, 0.9, 0.1, 0.2, 0.5, 0.6, 0.0], ["part 0", "part 1", "part 2"], [0, 2, 0, 1, 1, 2, 0]),
        ([0.0] * 6 + [0.3, 0.9, 1.0], ["part 0", "part 1"], [0] * 6 + [1] * 3),
    ],
)
def test_categories_from_a_column(values, names, categories):
    curriculum = Curriculum("sec:column=level,categories=3", prompts_with("level", values))
    assert curriculum.selection.names == names
    assert curriculum.table["sec_category"].tolist() == categories


def test_categories_in_the_order_of_the_data():
    curriculum = Curriculum("sec", 25)
    np.testing.assert_array_equal(np.bincount(curriculum.table["sec_category"]), [3, 2] * 5)
    assert np.diff(curriculum.table["sec_category"]).min() == 0
    assert len(Curriculum("sec", 4).selection.names) == 4


def test_a_checkpoint_brings_its_own_categories():
    saved = Curriculum("sec:column=level", prompts_with("level", "aabb"), seed=1)
    other = Curriculum("sec:column=level", prompts_with("level", "abca"), seed=1)
    outcome_of(saved, [0, 0, 2, 2])
    other.load_state_dict(saved.state_dict())
    for step in range(1, 4):
        one, two = saved.select(3, step=step), other.select(3, step=step)
        np.testing.assert_equal(vars(one), vars(two))
        saved.drop(one.tickets)
        other.drop(two.tickets)


def test_wrong_columns():
    with pytest.raises(ConfigError, match="prompt '0' has no 'topic': all rows need one"):
        Curriculum("sec:column=topic", prompts_with("level", [1, 2]))
    with pytest.raises(ConfigError, match="the column 'key' has 1001 values"):
        Curriculum(SelfEvolvingCurriculum(column="key"), prompts_with("level", range(1001)))


@pytest.mark.parametrize("method", ["sec", "ucb", "progress"])
def test_sources_are_the_categories_where_there_are_several(method):
    prompts = prompts_with("source", ["math", "code", "math", None])
    selection = Curriculum(method, prompts).selection
    assert selection.names == ["code", "math", "other"]
    assert selection.category_N.tolist() == [1, 0, 1, 2]


@pytest.mark.parametrize("column", ["source", "topic"])
def test_it_warns_where_it_cuts_rows_by_their_order(column):
    with pytest.warns(
        UserWarning, match="sec has no column and the data set has no two sources: it is cut into 2"
    ):
        curriculum = Curriculum("sec:categories=2", prompts_with(column, ["math"] * 4))
    assert curriculum.selection.names == ["part 0", "part 1"]
