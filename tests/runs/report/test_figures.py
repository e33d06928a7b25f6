"""The numbers of pictures, worked out by hand, and what a page is sent of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curro.runs.folder import RunFolder
from curro.runs.reader import read_history
from curro.runs.report import figures
from curro.runs.report import sections as by_source


@pytest.fixture
def history(tmp_path):
    """Four prompts of five, two visited twice; 4 rollouts a group."""
    run = RunFolder.create(tmp_path / "run", {})
    run.append_metrics({"step": 4, "rollouts": 24, "table/unseen": 1.0})
    groups = [
        (1, 0, 0.5, "a"),
        (1, 1, 0.0, "b"),
        (2, 2, 1.0, "a"),
        (3, 0, 1.0, "a"),
        (3, 3, 0.25, "b"),
        (4, 1, 0.5, "b"),
    ]
    run.append_groups(
        {"step": step, "prompt": prompt, "key": "k", "reason": 5, "mean": mean, "variance": mean * (1 - mean),
         "admitted": step != 3, "rollouts": 4, "tokens": 100, "source": source}
        for step, prompt, mean, source in groups
    )  # fmt: skip
    return read_history(run)


def by_name(chart):
    return {one.name: one.y.tolist() for one in chart.series}


def test_outcomes_are_shares_of_each_step(history):
    found = by_name(figures.outcomes(history))
    assert found["mixed: these teach"] == [0.5, 0, 0.5, 1]
    assert found["all right"] == [0, 1, 0.5, 0]
    assert found["all wrong"] == [0.5, 0, 0, 0]


def test_evaluations_are_drawn_as_means_of_three_beside_themselves(tmp_path):
    run = RunFolder.create(tmp_path / "run", {})
    for step, rate in enumerate((0.0, 0.3, 0.6, 0.0)):
        run.append_metrics({"step": step, "rollouts": 8 * step, "eval/pass@1": rate})
    drawn = [one.y.tolist() for one in figures.held_out(read_history(run), "step").series]
    assert drawn == [[0.0, 0.3, 0.6, 0.0], pytest.approx([0.0, 0.15, 0.3, 0.3])]
    (exact,) = figures.held_out(read_history(run), "rollouts").series
    assert exact.y.tolist() == [0.0, 0.3, 0.6, 0.0]


def test_waste_and_what_uniform_sampling_would_have_wasted(history):
    found = by_name(figures.without_gradient(history))
    assert found["this curriculum"] == [4, 8, 12, 12]
    assert set(found) == {"this curriculum"}  # nothing is known of uniform sampling
    assert by_name(figures.tokens_without_gradient(history))["this curriculum"] == [100, 200, 300, 300]


def test_coverage_and_visits_are_of_all_prompts(history):
    found = by_name(figures.coverage(history))
    assert found["at least once"] == [0.4, 0.6, 0.8, 0.8]
    assert found["at least twice"] == [0, 0, 0.2, 0.4]
    assert figures.visits(history).series[0].y.tolist() == [0.2, 0.4, 0.4, 0, 0, 0, 0, 0]


def test_the_pool_is_each_prompt_s_latest_group(history):
    rows = [one.y.tolist() for one in figures.known_rates(history).series]
    assert rows[0] == pytest.approx([1 / 2, 1 / 3, 1 / 4, 0])
    assert rows[4] == pytest.approx([1 / 2, 1 / 3, 0, 1 / 4])
    assert rows[8] == pytest.approx([0, 1 / 3, 1 / 2, 1 / 2])
    np.testing.assert_allclose(np.sum(rows, axis=0), 1)


def test_sources_staleness_and_rejects(history):
    assert by_name(by_source.drawn_sources(history)) == {"a": [0.5, 1, 0.5, 0], "b": [0.5, 0, 0.5, 1]}
    assert by_name(by_source.source_rates(history)) == {"a": [0.5, 1, 1], "b": [0, 0.25, 0.5]}
    assert by_name(figures.returns(history)) == {"median": [2, 3], "90%": [2, 3]}
    assert figures.rejected(history).series[0].y.tolist() == [0, 0, 1, 0]


def test_reward_streaks_are_the_longest_of_each_step(tmp_path):
    run = RunFolder.create(tmp_path / "run", {})
    run.append_metrics({"step": 4, "rollouts": 1})
    outcomes = {"math": [0, 0, 0.5, 0, 0, 0], "code": [0, 0, 0, 0, 0.25, 0]}
    run.append_groups(
        {"step": 1 + i // 2, "prompt": i, "key": "k", "reason": 5, "mean": means[i], "source": source}
        for i in range(6)
        for source, means in outcomes.items()
    )
    found = by_name(by_source.reward_streaks(read_history(run)))
    assert found == {"math": [2, 1, 3], "code": [2, 4, 1]}


@given(st.lists(st.booleans()))
def test_a_streak_counts_up_and_starts_again(happened):
    count, expected = 0, []
    for one in happened:
        count = count + 1 if one else 0
        expected.append(count)
    assert by_source.streaks(np.array(happened, bool)).tolist() == expected


def test_waste_beside_the_estimate_for_uniform_sampling(tmp_path):
    run = RunFolder.create(tmp_path / "run", {"settings": {"rollouts_per_prompt": 4}})
    for step, share in ((1, None), (2, 0.5), (3, 0.25)):
        estimate = {} if share is None else {"signal/uniform_share": share}
        run.append_metrics({"step": step, "rollouts": 8 * step, "seconds": 1.0, **estimate})
    run.append_groups(
        {"step": step, "prompt": step, "key": "k", "reason": 5, "mean": 0.5, "variance": 0.25,
         "admitted": True, "rollouts": 4}
        for step in (1, 2, 3)
    )  # fmt: skip
    found = by_name(figures.without_gradient(read_history(run)))
    assert found["this curriculum"] == [0, 0, 0]
    # before the first estimate, that one
    np.testing.assert_allclose(found["uniform sampling, estimated"], np.cumsum([4 * 0.5, 4 * 0.5, 4 * 0.75]))
