"""Batches that a filler makes: what is in them, how many requests run, in which order they count."""

import asyncio
import inspect
from pathlib import Path

import numpy as np
import pytest
from benchmarks.common import run
from tests.rollout.fake_engine import InOrder, by_text, rollouts
from tests.rollout.filler_setup import EASY, GOOD, HARD, make, settled

from curro import ConfigError, Curriculum
from curro.errors import FillError
from curro.policy import AuxiliarySamples
from curro.rollout.filler import Filler


def test_a_batch_is_what_the_curriculum_said_of_the_groups():
    filler, _, curriculum = make(lambda i, n: (i, [GOOD, EASY, "1 x0", HARD, "0111"][i % 5]))
    batch = run(filler.fill(3, step=7))
    assert batch.prompts.tolist() == [0, 2, 4]
    assert batch.tickets.tolist() == [0, 2, 4]
    assert batch.steps.tolist() == [7, 7, 7]
    np.testing.assert_array_equal(batch.rewards, [[1, 1, 0, 0], [1, 0, 0, 0], [0, 1, 1, 1]])
    np.testing.assert_array_equal(batch.scored, [[1, 1, 1, 1], [1, 1, 0, 1], [1, 1, 1, 1]])
    third = 1 / 3
    np.testing.assert_allclose(
        batch.advantages,
        [[0.5, 0.5, -0.5, -0.5], [2 * third, -third, 0, -third], [-0.75, 0.25, 0.25, 0.25]],
    )
    np.testing.assert_allclose(batch.informativeness, [0.25, 2 / 9, 0.1875])
    np.testing.assert_array_equal(batch.credit, batch.advantages)
    assert batch.admitted.all()
    assert [rollout.error for rollout in batch.rollouts[1]] == [None, None, "failed", None]
    counts = settled(filler, curriculum)
    assert (counts.given_out, counts.admitted, counts.rejected, counts.cancelled) == (8, 3, 2, 3)
    assert (counts.rollouts, counts.failed_rollouts, counts.wasted_rollouts) == (32, 1, 13)
    assert batch.counts == counts


def with_priorities():
    """PSPO of three prompts with P = 0.5, 0.4 and 0.1, so that w = 1 / (3 P) = 2/3, 5/6 and 10/3."""
    options = {"priority": "informativeness", "exponent": 1.0, "beta": 1.0, "epsilon": 0.0625}
    curriculum = Curriculum({"name": "pspo", **options}, 3, admission="band:0.2,0.8")
    draw = curriculum.select(3, step=0)
    rewards = np.array([[1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]])  # variances 1/4, 3/16 and 0
    curriculum.observe(draw.tickets, rewards[draw.prompts])
    return curriculum


@pytest.mark.parametrize(("marks", "expected"), [(GOOD, [0.2, 0.25, 1.0]), (HARD, [0.8, 1.0])])
def test_the_weights_are_those_of_one_draw_of_the_whole_batch(marks, expected):
    curriculum = with_priorities()
    filler, _, _ = make(lambda i, n: (1.0, marks) if i == 2 else (2.0, GOOD), curriculum=curriculum)
    batch = run(filler.fill(len(expected), step=1))
    order = np.argsort(batch.prompts)
    assert batch.prompts[order].tolist() == list(range(len(expected)))
    weights = (batch.credit / batch.advantages)[order]
    np.testing.assert_allclose(weights, np.broadcast_to(np.c_[expected], weights.shape))
    once = with_priorities()
    draw = once.select(3, step=1)
    drawn = np.isin(draw.prompts, batch.prompts)
    together = once.selection.batch_weights(draw.weights[drawn])
    np.testing.assert_allclose(weights[:, 0], together[np.argsort(draw.prompts[drawn])])


def test_no_more_than_n_where_all_end_in_the_same_instant():
    filler, _, curriculum = make(lambda i, n: (1.0, GOOD), max_in_flight=8)
    batch = run(filler.fill(3, step=0))
    assert len(batch) == 3
    counts = settled(filler, curriculum)
    assert (counts.admitted, counts.rejected, counts.cancelled) == (3, 0, 5)
    assert curriculum.table["visits"].sum() == 3


def test_never_more_than_the_slots_are_generated_or_scored():
    in_flight = []

    async def slow(prompt, completions):
        in_flight.append(len(filler._tasks.running))
        await asyncio.sleep(prompt % 3)
        return await by_text(prompt, completions)

    filler, engine, curriculum = make(
        lambda i, n: (i % 4, GOOD if i % 5 == 0 else HARD), prompts=60, score=slow
    )
    run(filler.fill(8, step=0))
    assert engine.most == 4
    assert max(in_flight) == 4
    settled(filler, curriculum)


def test_slots_are_never_empty_before_the_batch_is_full():
    filler, _, _ = make(lambda i, n: (1 + i % 7, GOOD if i % 5 == 0 else HARD), prompts=100)
    assert run(filler.fill(12, step=0)).counts.idle_share == 0
    assert filler.metrics()["fill/idle_share"] == 0


def test_what_is_cancelled_stops_in_the_engine():
    filler, engine, curriculum = make(lambda i, n: (1.0 if i < 2 else 100.0, GOOD))
    run(filler.fill(2, step=0))
    assert sorted(engine.cancelled) == ["2", "3"]
    assert engine.running == 0
    assert settled(filler, curriculum).wasted_rollouts == 8


@pytest.mark.parametrize("answer", [GOOD, OSError("closed")])
def test_an_engine_that_swallows_the_cancellation_is_asked_and_scored_no_more(answer):
    scored = []

    async def score(prompt, completions):
        scored.append(prompt)
        return await by_text(prompt, completions)

    filler, engine, curriculum = make(lambda i, n: (1.0, GOOD), score=score, max_in_flight=2)

    async def stubborn(prompt, n):
        if prompt == "0":
            return rollouts(GOOD)
        try:
            await asyncio.sleep(100.0)
        except asyncio.CancelledError:
            if isinstance(answer, Exception):
                raise answer from None
        return rollouts(answer)

    engine.answer = stubborn
    assert run(filler.fill(1, step=0)).prompts.tolist() == [0]
    assert scored == [0]
    assert [prompt for prompt, _ in engine.calls] == ["0", "1"]
    settled(filler, curriculum)


def test_the_order_of_ends_alone_decides_what_is_drawn():
    def drawn(scale):
        filler, engine, _ = make(lambda i, n: (scale * (1 + i * 7 % 5), [GOOD, HARD][i % 2]), prompts=50)

        async def steps():
            return [(await filler.fill(4, step=step)).prompts.tolist() for step in range(5)]

        return run(steps()), engine.calls

    assert drawn(1.0) == drawn(1000.0)


def test_a_prompt_comes_once_in_a_fill():
    filler, engine, curriculum = make(lambda i, n: (1.0, GOOD if i else HARD), prompts=5)
    batch = run(filler.fill(4, step=0))
    assert sorted(batch.prompts) == [1, 2, 3, 4]
    with pytest.raises(FillError, match="all 5 prompts were tried or are in flight, and 4 of 5 groups"):
        run(filler.fill(5, step=1))
    assert len(engine.calls) == 10
    settled(filler, curriculum)
    assert filler.kept == 4


def test_carried_groups_come_into_the_next_batch_unless_they_are_stale():
    async def steps(staleness):
        filler, engine, curriculum = make(
            lambda i, n: (1.0 + 9 * (i == 1) + 99 * (i == 2), GOOD), prompts=50, max_staleness=staleness
        )
        batches = []
        for step in range(4):
            batches.append(await filler.fill(4, step=step))
            assert settled(filler, curriculum).cancelled == 0
            await asyncio.sleep(20)
        trained = np.concatenate([batch.tickets for batch in batches])
        assert len(set(trained)) == len(trained) == 16
        counts, cancelled = filler.counts, list(engine.cancelled)
        await filler.close()
        assert settled(filler, curriculum).admitted == 16
        assert engine.running == filler.in_flight == 0
        return batches, counts.stale, cancelled

    batches, stale, cancelled = run(steps(1))
    assert [batch.prompts.tolist() for batch in batches][:2] == [[0, 3, 4, 5], [1, 6, 7, 8]]
    assert [batch.steps.tolist() for batch in batches][:2] == [[0, 0, 0, 0], [0, 1, 1, 1]]
    assert (stale, cancelled) == (1, ["2"])
    batches, stale, cancelled = run(steps(9))
    assert stale == 0
    assert cancelled == []


def test_held_groups_are_observed_when_a_batch_needs_them():
    async def steps():
        filler, _, curriculum = make(lambda i, n: (1.0, GOOD), max_in_flight=8, max_staleness=1)
        await filler.fill(3, step=0)
        assert (filler.waiting, curriculum.metrics()["observed"]) == (5, 3)
        second = await filler.fill(3, step=1)
        assert (filler.waiting, second.counts.rollouts) == (2, 0)
        await filler.fill(3, step=2)
        assert filler.counts.stale == 2
        assert settled(filler, curriculum).admitted == 9
        await filler.close()

    run(steps())


class Teaches(InOrder):
    """Wants the policy trained on each prompt that was observed."""

    def observe(self, outcome):
        told = tuple((int(prompt),) for prompt in outcome.prompts)
        return AuxiliarySamples(told, told, np.ones(len(told)), 0.1)


def test_what_the_policy_is_to_learn_comes_with_the_batch_after_rejected_groups_too():
    curriculum = Curriculum(Teaches(), 20, admission="band:0,1")
    filler, _, _ = make(lambda i, n: (i, [GOOD, EASY, HARD][i % 3]), curriculum=curriculum, max_in_flight=1)
    first, second = run(filler.fill(2, step=0)), run(filler.fill(1, step=1))
    assert [part.prompt_ids for part in first.auxiliary_samples] == [
        ((0,),),
        ((1,),),
        ((2,),),
        ((3,),),
    ]
    assert [part.prompt_ids for part in second.auxiliary_samples] == [
        ((4,),),
        ((5,),),
        ((6,),),
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"rollouts_per_prompt": 0},
        {"max_in_flight": 0},
        {"max_staleness": -1},
        {"retries": -1},
        {"least_rollouts": 5},
        {"max_failures": 0},
        {"limit": 0.5},
        {"timeout": 0},
        {"max_seconds": float("nan")},
        {"when_short": "wait"},
        {"workers": -1},
        {"workers": 2},
    ],
)
def test_options_that_cannot_be_are_refused(options):
    with pytest.raises(ConfigError):
        make(lambda i, n: (1.0, GOOD), **options)
    with pytest.raises(ConfigError, match="n >= 1"):
        run(make(lambda i, n: (1.0, GOOD))[0].fill(0, step=0))


def test_every_option_and_every_count_is_documented():
    text = (Path(__file__).parents[2] / "docs" / "filling.md").read_text()
    options = [p.name for p in inspect.signature(Filler).parameters.values() if p.kind is p.KEYWORD_ONLY]
    metrics = [name.removeprefix("fill/") for name in make(lambda i, n: (1.0, GOOD))[0].metrics()]
    assert not [name for name in options + metrics if f"`{name}" not in text]
