"""Scorers under a filler: what they return, where they run, what they may do to it."""

import asyncio
import threading
import time

import numpy as np
import pytest
from benchmarks.common import run
from tests.rollout.filler_setup import GOOD, HARD, InOrder, by_text, make, settled

from curro import ConfigError, Curriculum, RewardError
from curro.core.errors import FillError
from curro.rollout.engines.engine import Rollout


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ([1, 0, float("nan"), 1], "rollout 2 of prompt '0' the reward nan"),
        ([1, 0, 1, float("inf")], "rollout 3 of prompt '0' the reward inf"),
        ([1, 0, 1], "3 scores as reward of prompt '0'.*each of the 4"),
        ("1100", "scores as reward of prompt '0'"),
        (0.5, "the scorer gave 0.5 as reward"),
        (np.array(0.5), "the scorer gave array"),
        ([1, 0, "right", 1], "the reward 'right'"),
        ({"accuracy": [1, 0, 1, "?"]}, "the reward 'accuracy' '\\?'"),
        ({"format": [1, 0, 1, 1]}, "no reward 'accuracy'"),
    ],
)
def test_scores_that_are_no_rewards_are_one_clear_error(scores, said):
    async def score(prompt, completions):
        return scores if prompt == 0 else [1.0] * len(completions)

    weights = {"accuracy": 1.0} if isinstance(scores, dict) else None
    filler, engine, curriculum = make(lambda i, n: (1.0, GOOD), score=score, weights=weights)
    with pytest.raises(RewardError, match=said):
        run(filler.fill(2, step=0))
    assert filler.in_flight == engine.running == 0
    settled(filler, curriculum)


def test_rewards_by_name_are_summed_and_a_gate_may_use_one():
    async def score(prompt, completions):
        return {
            "accuracy": [float(rollout.text == "1") for rollout in completions],
            "format": [None] + [1.0] * (len(completions) - 1),
            "length": [None] * len(completions),
        }

    filler, _, _ = make(
        lambda i, n: (1.0, ["110x", HARD][i % 2]), score=score, weights={"accuracy": 1.0, "format": 0.5},
        curriculum=Curriculum(InOrder(), 20, admission="band:0,1", signal="accuracy"),
    )  # fmt: skip
    batch = run(filler.fill(2, step=0))
    assert batch.prompts.tolist() == [0, 2]
    np.testing.assert_array_equal(batch.rewards[0], [np.nan, 1.5, 0.5, np.nan])
    np.testing.assert_array_equal(batch.named["accuracy"][0], [1, 1, 0, np.nan])
    assert np.isnan(batch.named["length"]).all()


def test_a_signal_that_the_scorer_does_not_give_is_one_clear_error():
    filler, _, curriculum = make(
        lambda i, n: (1.0, GOOD), curriculum=Curriculum("uniform", 9, signal="accuracy")
    )
    with pytest.raises(RewardError, match="no reward named 'accuracy'"):
        run(filler.fill(2, step=0))
    settled(filler, curriculum)


def test_a_scorer_that_always_fails_is_named():
    async def score(prompt, completions):
        raise KeyError("answer")

    filler, _, curriculum = make(lambda i, n: (1.0, GOOD), score=score, prompts=40)
    with pytest.raises(FillError, match=r"32 groups in a row failed; .*the scorer raised KeyError: 'answer'"):
        run(filler.fill(4, step=0))
    assert settled(filler, curriculum).failed == 32


@pytest.mark.parametrize(("prompts", "n"), [(40, 1), (3, 4)])
def test_a_short_batch_says_why_its_last_group_failed(prompts, n):
    filler, _, _ = make(lambda i, n: (1.0, "1"), prompts=prompts)
    with pytest.raises(
        FillError, match=r"look for the errors.*; the last that failed, prompt '\d+': 1 of 4 ro"
    ):
        run(filler.fill(n, step=0))


@pytest.mark.parametrize("weights", [{}, ["a"], {"a": float("nan")}, {"a": "2"}])
def test_weights_are_finite_numbers_by_name(weights):
    with pytest.raises(ConfigError, match=r"^weights are finite numbers by the names of rewards, not "):
        make(lambda i, n: (1.0, GOOD), weights=weights)


def test_weights_want_named_rewards():
    filler, _, curriculum = make(lambda i, n: (1.0, GOOD), weights={"accuracy": 2.0})
    with pytest.raises(RewardError, match="rewards without names, and `weights` names accuracy: give a dict"):
        run(filler.fill(2, step=0))
    settled(filler, curriculum)


def test_a_slow_scorer_does_not_hold_up_the_event_loop():
    """It waits for what the loop does meanwhile: held up, the loop would never do it."""
    begun, done, seen = threading.Event(), threading.Event(), []

    def score(prompt, completions):
        begun.set()
        seen.append(done.wait(600))
        return [float(rollout.text == "1") for rollout in completions]

    async def main():
        filler, _, curriculum = make(lambda i, n: (0.0, GOOD), score=score, max_in_flight=1)
        async with filler:
            fill = asyncio.create_task(filler.fill(2, step=0))
            while not begun.is_set():
                await asyncio.sleep(0.001)
            done.set()
            await fill
        settled(filler, curriculum)

    asyncio.run(main())
    assert seen == [True] * len(seen) != []


@pytest.mark.parametrize("how", [StopIteration, SystemExit, asyncio.CancelledError, KeyboardInterrupt])
def test_what_a_scorer_raises_in_a_thread_ends_no_more_than_its_group(how):
    async def main():
        def score(prompt, completions):
            if prompt == 0:
                raise how
            while not filler.counts.failed:
                time.sleep(0.001)
            return [float(rollout.text == "1") for rollout in completions]

        filler, _, curriculum = make(lambda i, n: (0.0, GOOD), score=score)
        async with filler:
            assert 0 not in (await filler.fill(2, step=0)).prompts
        assert settled(filler, curriculum).failed == 1

    asyncio.run(main())


def test_texts_and_cut_rollouts_reach_the_scorer():
    seen = []

    async def score(prompt, completions):
        seen.extend(completions)
        return await by_text(prompt, completions)

    filler, _, _ = make(lambda i, n: (1.0, "1 0x"), score=score, prompts=1)
    run(filler.fill(1, step=0))
    assert seen == [Rollout(text, finish="length") for text in ("1", "", "0")]
