"""How a fill ends that does not fill its batch: limits, short batches, cancellation, a closed filler."""

import asyncio

import numpy as np
import pytest
from benchmarks.common import run
from tests.rollout.fake_engine import InOrder
from tests.rollout.filler_setup import EASY, GOOD, HARD, make, settled

from curro import ConfigError, Curriculum
from curro.errors import FillError


@pytest.mark.parametrize("how", ["seconds", "limit", "prompts"])
def test_what_runs_out_is_named_and_what_is_admitted_is_kept(how):
    options, said, kept = {
        "seconds": ({"max_seconds": 2.5}, "the time was over, and 2 of 9", [0, 2]),
        "limit": ({"limit": 1}, "the limit of 1 batches was reached, and 5 of 9", [0, 2, 4, 6, 8]),
        "prompts": ({"prompts": 4}, "all 4 prompts were tried or are in flight, and 2 of 9", [0, 2]),
    }[how]
    filler, _, curriculum = make(lambda i, n: (1.0, [GOOD, HARD][i % 2]), max_in_flight=2, **options)
    with pytest.raises(FillError, match=said) as caught:
        run(filler.fill(9, step=0))
    assert caught.value.__notes__ == [f"{len(kept)} admitted groups are kept for the next fill"]
    assert settled(filler, curriculum).admitted == filler.kept == len(kept)
    batch = run(filler.fill(len(kept), step=0))
    assert (batch.prompts.tolist(), batch.counts.rollouts) == (kept, 0)
    assert filler.kept == 0


def test_short_batches_are_finished_smaller():
    filler, _, curriculum = make(lambda i, n: (1.0, [GOOD, HARD][i % 2]), prompts=6, when_short="finish")
    assert run(filler.fill(5, step=0)).prompts.tolist() == [0, 2, 4]
    settled(filler, curriculum)


def test_short_batches_are_topped_up_with_the_most_informative_of_the_rejected():
    marks = ["1000", "1100", HARD, "1110", EASY, "1100"]
    filler, _, curriculum = make(lambda i, n: (1.0 + i, marks[i]), prompts=6, when_short="top-up")
    curriculum.admission.low, curriculum.admission.high = 0.7, 0.8
    batch = run(filler.fill(4, step=0))
    assert batch.prompts.tolist() == [3, 1, 5, 0]
    assert batch.admitted.tolist() == [True, False, False, False]
    assert batch.rewards[1].tolist() == [1, 1, 0, 0]
    counts = settled(filler, curriculum)
    assert (counts.admitted, counts.rejected, counts.topped_up) == (1, 5, 3)
    with pytest.raises(FillError, match="and 1 of 7 groups"):
        run(filler.fill(7, step=1))
    assert filler.kept == 1


def test_the_best_groups_of_as_many_batches_as_the_limit_says():
    curriculum = Curriculum(InOrder(), 20, admission="best")
    marks = ["0000", "1000", "1111", "1100"]
    filler, _, _ = make(
        lambda i, n: (1.0 + i, marks[i % 4]),
        curriculum=curriculum,
        limit=2,
        when_short="top-up",
        max_in_flight=1,
    )
    assert sorted(run(filler.fill(2, step=0)).prompts.tolist()) == [1, 3]
    assert settled(filler, curriculum).topped_up == 2


def test_cancelling_a_fill_leaves_nothing_behind():
    async def interrupted():
        filler, engine, curriculum = make(lambda i, n: (1.0 + i, GOOD))
        fill = asyncio.create_task(filler.fill(10, step=0))
        await asyncio.sleep(2.5)
        fill.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fill
        assert (filler.kept, filler.in_flight, engine.running) == (2, 0, 0)
        settled(filler, curriculum)
        batch = await filler.fill(3, step=0)
        assert batch.prompts[:2].tolist() == [0, 1]
        settled(filler, curriculum)

    run(interrupted())


@pytest.mark.parametrize("times", [2, 3])
def test_a_fill_cancelled_again_while_it_waits_for_its_engine_returns_no_earlier(times):
    """The model of a local engine must not be trained while it still generates."""

    async def main():
        filler, engine, curriculum = make(lambda i, n: (100.0, GOOD))

        async def slow_to_stop(prompt, n):
            try:
                await asyncio.sleep(100.0)
            finally:
                await asyncio.sleep(10.0)

        engine.answer = slow_to_stop
        fill = asyncio.create_task(filler.fill(2, step=0))
        await asyncio.sleep(1.0)
        for _ in range(times):
            fill.cancel()
            await asyncio.sleep(1.0)
        assert not fill.done()
        with pytest.raises(asyncio.CancelledError):
            await fill
        assert asyncio.get_running_loop().time() == 11.0
        assert engine.running == filler.in_flight == 0
        settled(filler, curriculum)

    run(main())


def test_one_fill_at_a_time_and_none_after_the_end():
    async def twice():
        filler, _, curriculum = make(lambda i, n: (1.0, GOOD))
        async with filler:
            fill = asyncio.create_task(filler.fill(2, step=0))
            await asyncio.sleep(0.5)
            with pytest.raises(FillError, match="another fill is under way"):
                await filler.fill(2, step=0)
            with pytest.raises(FillError, match="cannot close while it fills"):
                await filler.close()
            await fill
        with pytest.raises(FillError, match="the filler is closed"):
            await filler.fill(1, step=1)
        settled(filler, curriculum)

    run(twice())


def test_every_step_may_have_an_event_loop_of_its_own():
    filler, _, curriculum = make(lambda i, n: (1.0, GOOD), max_staleness=5)
    trained = [ticket for step in range(4) for ticket in run(filler.fill(3, step=step)).tickets]
    assert len(set(trained)) == 12
    settled(filler, curriculum)
    run(filler.close())
    assert settled(filler, curriculum).admitted == 12


def test_tickets_that_others_settled_are_left_alone():
    async def main():
        filler, _, curriculum = make(lambda i, n: (1.0, GOOD), max_staleness=1)
        await filler.fill(2, step=0)
        curriculum.drop(curriculum.ledger.tickets)
        await filler.close()
        assert curriculum.metrics()["in_flight"] == 0

    run(main())


def test_a_selection_that_repeats_needs_an_end():
    def endless(**settings):
        curriculum = Curriculum("pspo:replacement=true", 4, admission="band:0.4,0.6")
        return make(lambda i, n: (1.0, HARD), curriculum=curriculum, max_in_flight=2, **settings)[0]

    with pytest.raises(ConfigError, match="set max_seconds or the fill's limit"):
        endless(limit=np.inf)
    with pytest.raises(FillError, match="the limit of 5 batches was reached, and 0 of 2 groups"):
        run(endless(limit=5).fill(2, step=0))
