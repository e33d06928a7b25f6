"""METIS: what is asked, selected, earned and trained on; and the memory of outcomes that is shown."""

import inspect
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.prediction.judging import Scripted, candidate

from curro import Curriculum
from curro.methods.prediction.metis import Metis
from curro.methods.prediction.metis.predictor import judgment_reward, spread_rows
from curro.methods.prediction.value_model import ValueModel

HALF, FLAT = [1, 1, 0, 0], [0, 0, 0, 0]


def boxed(value):
    return f"I expect \\boxed{{{value}}}"


def started(say, size=6, first=2, rewards=(HALF, FLAT), **options):
    """A curriculum after its first batch: groups of variance 1/4 and 0, and failed judgments of them."""
    curriculum = Curriculum({"name": "metis", "exploration": 0.0, **options}, size, seed=0)
    policy = Scripted(lambda text: "no idea")
    curriculum.attach(policy)
    draw = curriculum.select(first, step=0)
    curriculum.observe(draw.tickets, list(rewards))
    policy.say = say
    return curriculum, policy


def test_reward_by_hand():
    # 4 (0.15 - 0.25) = -0.4, squared 0.16; 4 (0 - 0.25) = -1
    got = judgment_reward(np.array([0.15, 0.25, 0.0, 0.25]), np.array([0.25, 0.25, 0.25, 0.0]))
    np.testing.assert_allclose(got, [0.84, 1, 0, 0], rtol=1e-12)


def test_the_first_batch_is_judged_without_exemplars():
    """Algorithm 1: the memory is empty in the first iteration."""
    curriculum = Curriculum("metis:candidates=3,exploration=0", 6, seed=0)
    policy = Scripted(lambda text: boxed("0.25" if candidate(text) == 4 else "0.1"))
    curriculum.attach(policy)
    draw = curriculum.select(2, step=0)
    assert draw.prompts[0] == 4
    assert len(policy.conversations) == 6
    assert not any("Example 1" in user["content"] for _, user in policy.conversations)
    verdict = curriculum.observe(draw.tickets, [HALF, FLAT])
    np.testing.assert_allclose(verdict.auxiliary_samples.advantages, [1, 1 - 0.16], rtol=1e-12)


def test_the_highest_predictions_are_selected_and_failures_count_as_zero():
    say = {0: "0.10", 1: "0.02", 2: "7", 3: "0.25", 4: "none", 5: "0.12"}
    curriculum, policy = started(lambda text: boxed(say[candidate(text)]), candidates=3)
    draw = curriculum.select(2, step=1)
    assert policy.max_tokens == 512
    assert draw.prompts.tolist() == [3, 5]
    metrics = curriculum.metrics()
    assert metrics["judge/failure_rate"] == pytest.approx(2 / 6)
    assert metrics["judge/mean_prediction"] == pytest.approx((0.10 + 0.02 + 0.25 + 0.12) / 4)
    assert metrics["judge/std_prediction"] == pytest.approx(np.std([0.10, 0.02, 0.25, 0.12]))
    assert (metrics["judge/judgments"], metrics["judge/failures"]) == (12, 8)  # 6 at first


def test_the_exemplars_are_the_latest_pairs():
    curriculum, policy = started(lambda text: boxed("0.1"), exemplars=2)
    half, flat = (int(np.flatnonzero(curriculum.table["reward_variance"] == v)[0]) for v in (0.25, 0))
    curriculum.select(1, step=1)
    assert len(policy.conversations) == 6
    for system, user in policy.conversations:
        assert system["role"] == "system"
        assert f'prompt {half}\n"""\nVariance: 0.250' in user["content"]
        assert f'prompt {flat}\n"""\nVariance: 0.000' in user["content"]
    assert {candidate(user["content"]) for _, user in policy.conversations} == set(range(6))


def test_auxiliary_samples_by_hand():
    curriculum, _ = started(lambda text: boxed("0.15"), candidates=1, weight=0.5)
    first = curriculum.select(2, step=1)
    verdict = curriculum.observe(first.tickets, [HALF, FLAT])
    # R = 1 - (4 * 0.1)^2 = 0.84 and 1 - (4 * 0.15)^2 = 0.64; the baseline is 0 still
    np.testing.assert_allclose(verdict.auxiliary_samples.advantages, [0.84, 0.64], rtol=1e-12)
    assert verdict.auxiliary_samples.weight == 0.5
    assert curriculum.metrics()["judge/reward"] == pytest.approx(0.74)
    samples = verdict.auxiliary_samples
    for prompt, asked, answered in zip(
        first.prompts, samples.prompt_ids, samples.completion_ids, strict=True
    ):
        assert candidate(bytes(asked).decode()) == prompt
        assert bytes(answered).decode() == boxed("0.15")
    # one step later the baseline has moved by 0.05 of the step's mean, 0.74
    second = curriculum.select(1, step=2)
    assert curriculum.metrics()["judge/baseline"] == pytest.approx(0.037)
    verdict = curriculum.observe(second.tickets, [HALF])
    np.testing.assert_allclose(verdict.auxiliary_samples.advantages, [0.84 - 0.037], rtol=1e-12)
    curriculum.select(1, step=3)
    assert curriculum.metrics()["judge/baseline"] == pytest.approx(0.95 * 0.037 + 0.05 * 0.84)


def test_the_baseline_moves_once_a_training_step():
    """Rounds of a refill, in one step: algorithm 1 has one update an iteration."""
    curriculum, _ = started(lambda text: boxed("0.15"), candidates=1)
    for rewards in (HALF, FLAT):
        draw = curriculum.select(1, step=1)
        curriculum.observe(draw.tickets, [rewards])
        assert curriculum.metrics()["judge/baseline"] == 0
    curriculum.select(1, step=2)
    assert curriculum.metrics()["judge/baseline"] == pytest.approx(0.05 * 0.74)


@pytest.mark.parametrize(
    ("failed", "advantages"),
    # of a prompt of variance 1/4 and one of 0: 0 earns 1 - 1 and 1
    # the first batch's mean, 1/2, has moved the baseline by a twentieth
    [("lowest", [0, 0]), ("zero", [-0.025, 0.975]), ("skip", None)],
)
def test_what_a_failed_judgment_earns(failed, advantages):
    curriculum, _ = started(lambda text: "no idea", candidates=1, failed=failed)
    verdict = curriculum.observe(curriculum.select(2, step=1).tickets, [HALF, FLAT])
    if advantages is None:
        assert verdict.auxiliary_samples is None
        assert np.isnan(curriculum.metrics()["judge/reward"])
    else:
        np.testing.assert_allclose(verdict.auxiliary_samples.advantages, advantages, atol=1e-12)


def test_a_skipped_judgment_still_counts_in_the_mean_of_equation_9():
    say = iter(["no idea", boxed("0.15")])
    curriculum, _ = started(lambda text: next(say), candidates=1, failed="skip")
    draw = curriculum.select(2, step=1)
    samples = curriculum.observe(draw.tickets, [HALF, HALF]).auxiliary_samples
    # the failed one counts as 0.0 and comes second; the host divides by 2
    np.testing.assert_allclose(samples.advantages, [0.84, 0], rtol=1e-12)
    assert curriculum.metrics()["judge/reward"] == pytest.approx(0.84)


def test_only_selected_prompts_that_were_observed_are_trained_on():
    curriculum, _ = started(lambda text: boxed("0.1"), candidates=2)
    draw = curriculum.select(3, step=1)
    pending = curriculum.selection.predictor.pending
    assert len(pending) == 3
    curriculum.drop(draw.tickets[:1])
    assert len(pending) == 2
    verdict = curriculum.observe(draw.tickets[2:], [HALF])
    assert candidate(bytes(verdict.auxiliary_samples.prompt_ids[0]).decode()) == draw.prompts[2]
    assert len(pending) == 1


def test_rewards_of_another_range_are_rescaled():
    curriculum = Curriculum(
        "metis:candidates=1,exemplars=0,weight=1,exploration=0", 2, reward_range=(-1, 3), seed=0
    )
    curriculum.attach(Scripted(lambda text: boxed("0.15")))
    # the variance of -1 and 3 is 4 of 16; that of 100 and -100 is counted as the largest, 1/4
    verdict = curriculum.observe(curriculum.select(2, step=0).tickets, [[-1, 3], [100, -100]])
    np.testing.assert_allclose(verdict.auxiliary_samples.advantages, [0.84, 0.84], rtol=1e-12)


def test_defaults_are_those_of_the_paper():
    selection = Curriculum("metis", 4).selection
    predictor = selection.predictor
    assert isinstance(predictor, Metis)
    assert (selection.candidates, selection.target) == (8, None)
    assert (predictor.exemplars, predictor.weight, predictor.baseline_rate) == (3, 0.01, 0.95)


@pytest.mark.parametrize(("page", "method"), [("metis", Metis), ("pcl", ValueModel)])
def test_every_option_and_metric_is_documented(page, method):
    text = (Path(__file__).parents[3] / "docs" / f"{page}.md").read_text()
    for option in inspect.signature(method).parameters:
        assert f"`{option}`" in text
    predictor = Curriculum(page, 4).selection.predictor
    for name in predictor.metrics():
        assert f"`{name}`" in text


def test_spread_shows_low_middle_and_high():
    # the middle of 0 and 0.25 is 0.125: 0.14 is 0.015 away, 0.109 is 0.016; of the two zeros the later
    assert spread_rows(np.array([0.0, 0.25, 0.109, 0.0, 0.2, 0.14]), 3).tolist() == [3, 5, 1]


@given(st.integers(0, 9), st.lists(st.sampled_from([0.0, 0.05, 0.1875, 0.25]), max_size=70))
def test_any_variances_are_spread(k, variances):
    rows = spread_rows(np.array(variances, np.float64), k).tolist()
    assert len(rows) == len(set(rows)) == min(k, len(variances))
    values = [variances[row] for row in rows]
    assert values == sorted(values)
    if len(rows) > 1:
        assert {values[0], values[-1]} == {min(variances), max(variances)}
