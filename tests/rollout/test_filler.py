"""What a filler does with groups, by hand: verdicts, carried groups, groups of several sizes that go on.

That batches are full and distinct, slots are kept to, and nothing goes on behind a fill that was cancelled or
has failed, `tests/simulation/asynchronous.py` asserts in every run.
"""

import asyncio
import inspect
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from benchmarks.common import run
from tests.rollout.filler_setup import EASY, GOOD, HARD, InOrder, by_text, make, rollouts, settled

from curro import Allocation, ConfigError, Curriculum
from curro.core.errors import FillError
from curro.core.policy import AuxiliarySamples, PolicyUse
from curro.rollout.filler import Filler


def test_a_batch_is_what_the_curriculum_said_of_the_groups():
    filler, _, curriculum = make(lambda i, n: (i, [GOOD, EASY, "1 x0", HARD, "0111"][i % 5]))
    batch = run(filler.fill(3, step=7))
    assert batch.prompts.tolist() == [0, 2, 4]
    assert batch.tickets.tolist() == [0, 2, 4]
    assert batch.steps.tolist() == [7, 7, 7]
    np.testing.assert_array_equal(batch.rewards, [[1, 1, 0, 0], [1, 0, np.nan, 0], [0, 1, 1, 1]])
    third = 1 / 3
    np.testing.assert_allclose(
        batch.advantages, [[0.5, 0.5, -0.5, -0.5], [2 * third, -third, 0, -third], [-0.75, 0.25, 0.25, 0.25]]
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


def test_slots_are_never_empty_before_the_batch_is_full():
    async def seconds():
        began = asyncio.get_running_loop().time()
        await filler.fill(12, step=0)
        return asyncio.get_running_loop().time() - began

    filler, engine, _ = make(lambda i, n: (1 + i % 7, GOOD if i % 5 == 0 else HARD), prompts=100)
    elapsed = run(seconds())
    assert engine.busy == 4 * elapsed > 0


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

    policy_use = PolicyUse.TRAINED

    def observe(self, outcome):
        told = tuple((int(prompt),) for prompt in outcome.prompts)
        return AuxiliarySamples(told, told, np.ones(len(told)), 0.1)


def test_what_the_policy_is_to_learn_comes_with_the_batch_after_rejected_groups_too():
    curriculum = Curriculum(Teaches(), 20, admission="band:0,1")
    filler, _, _ = make(lambda i, n: (i, [GOOD, EASY, HARD][i % 3]), curriculum=curriculum, max_in_flight=1)
    first, second = run(filler.fill(2, step=0)), run(filler.fill(1, step=1))
    assert [part.prompt_ids for part in first.auxiliary_samples] == [((0,),), ((1,),), ((2,),), ((3,),)]
    assert [part.prompt_ids for part in second.auxiliary_samples] == [((4,),), ((5,),), ((6,),)]


@pytest.mark.parametrize(
    "options",
    [
        {"rollouts_per_prompt": 0},
        {"rollouts_per_prompt": 2.5},
        {"max_in_flight": 0},
        {"max_staleness": -1},
        {"limit": 0.5},
        {"when_short": "wait"},
        {
            "rollouts_per_prompt": 1,
            "curriculum": Curriculum(InOrder(), 20, allocation="probe:first=2,most=6"),
        },
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


@pytest.mark.parametrize("how", ["limit", "prompts"])
def test_what_runs_out_is_named_and_what_is_admitted_is_kept(how):
    options, said, kept = {
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


class TwoOrSix(Allocation):
    """2 and 6 rollouts in turn."""

    def __call__(self, prompts, budget, step):
        return np.resize([2, 6], len(prompts))


def test_groups_have_the_sizes_that_the_allocation_gave_them():
    marks = {0: "10", 1: "111000", 2: "11", 3: "x11000", 4: "01", 5: "100000"}
    curriculum = Curriculum(
        InOrder(), 20, allocation=TwoOrSix(), admission="band:0,1", advantage="leave-one-out"
    )
    filler, engine, _ = make(
        lambda i, n: (1.0 + i, marks.get(i, "0" * n)),
        curriculum=curriculum,
        max_in_flight=6,
        rollouts_per_prompt=4,
    )
    batch = run(filler.fill(4, step=0))
    assert engine.calls[:4] == [("0", 2), ("1", 6), ("2", 2), ("3", 6)]
    assert batch.prompts.tolist() == [0, 1, 3, 4]
    assert [len(rollouts) for rollouts in batch.rollouts] == [2, 6, 6, 2]
    assert np.isfinite(batch.rewards).sum(axis=1).tolist() == [2, 6, 5, 2]
    np.testing.assert_array_equal(batch.rewards[0], [1, 0] + [np.nan] * 4)
    np.testing.assert_allclose(batch.credit[0], [1, -1, 0, 0, 0, 0])
    np.testing.assert_allclose(batch.credit[2], [0, 0.75, 0.75, -0.5, -0.5, -0.5])
    counts = settled(filler, curriculum)
    assert (counts.given_out, counts.cancelled, counts.draws) == (12, 7, 3)
    assert counts.rollouts == 5 * (2 + 6)  # 10 were started
    failing, _, _ = make(lambda i, n: (1.0, "0" * n), curriculum=curriculum, max_in_flight=3, limit=99)
    with pytest.raises(FillError, match="all 20 prompts were tried"):
        run(failing.fill(2, step=1))
    assert len(curriculum.ledger) == 0


def probing(plan, **options):
    """A filler that looks first; `plan[prompt]` are the marks of first and of further rollouts."""
    curriculum = Curriculum(InOrder(), 20, allocation="probe:first=2,most=6", admission="signal",
                            advantage="leave-one-out")  # fmt: skip
    asked = Counter()

    def marks(prompt, n):
        asked[prompt] += 1
        return 1.0, plan.get(prompt, ["00"])[min(asked[prompt], 2) - 1]

    filler, engine, _ = make(marks, curriculum=curriculum, **options)
    return filler, engine, curriculum


def test_a_filler_looks_first_and_then_spends_where_rewards_differ():
    """3 prompts, 12 rollouts: 6 are looked at, and prompt 1 gets 4 of the others, up to `most`."""
    filler, engine, curriculum = probing({1: ["10", "1x01"], 4: ["01", "0001"], 5: ["10", "11"]})
    batch = run(filler.fill(3, step=0))
    assert engine.calls[:4] == [("0", 2), ("1", 2), ("2", 2), ("1", 4)]
    # then the 2 that are missing: prompt 3 does not differ, and prompt 4 gets what both have left
    assert batch.prompts.tolist() == [1, 4, 5]
    np.testing.assert_array_equal(batch.rewards[0], [1, 0, 1, np.nan, 0, 1])
    assert [len(rollouts) for rollouts in batch.rollouts] == [6, 6, 4]
    settled(filler, curriculum)


def test_a_probed_group_whose_further_rollouts_fail_ends_as_it_is():
    filler, engine, curriculum = probing({0: ["10", "xx"]})
    batch = run(filler.fill(1, step=0))
    assert batch.rewards.tolist() == [[1, 0]]
    assert engine.calls == [("0", 2)] * 2
    assert settled(filler, curriculum).wasted_rollouts == 2


def test_a_group_without_the_part_that_is_the_signal_has_failed():
    """The port has dropped it, so it is neither rejected nor counted with its other rewards."""

    async def score(prompt, completions):
        math = [None] * 4 if int(prompt) == 0 else await by_text(prompt, completions)
        return {"math": math, "form": [1.0, 0.0, 1.0, 0.0]}

    curriculum = Curriculum(InOrder(), 20, signal="math")
    filler, _, _ = make(
        lambda i, n: (i, GOOD), curriculum=curriculum, score=score, weights={"form": 1.0}, max_in_flight=1
    )
    batch = run(filler.fill(2, step=0))
    assert batch.prompts.tolist() == [1, 2]
    counts = settled(filler, curriculum)
    assert (counts.failed, counts.rejected, counts.admitted) == (1, 0, 2)
