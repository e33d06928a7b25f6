"""The fill: what it counts, keeps and draws, when it gives up and what it says then."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import curro
from curro.core.bases import Reason
from curro.core.errors import ConfigError, ExhaustedError, FillError
from curro.core.verdicts import Draw
from curro.rollout.fill import Fill, InFlight, select_unseen
from curro.rollout.fill_settings import FillSettings


def draw_of(prompts, first_ticket, step=0):
    size = len(prompts)
    return Draw(
        np.array(prompts), np.zeros(size, np.uint8), np.full(size, np.nan), np.ones(size),
        np.arange(first_ticket, first_ticket + size), np.zeros(size, np.int64), step,
    )  # fmt: skip


def fill_of(size=20, **options):
    options = {"when_short": "error"} | options
    return Fill(FillSettings(**options), size=size)


def begun(n, prompts, **options):
    """A fill of n groups that has given out these prompts, with tickets from 0 on."""
    fill = fill_of(**options)
    fill.begin(n, 0)
    fill.give_out(draw_of(prompts, 0))
    return fill


def drop_held(fill, curriculum):
    """Settle the tickets that the fill has held."""
    if held := fill.release():
        curriculum.drop(np.array(held))


def test_a_batch_is_the_admitted_groups_in_the_order_in_which_they_ended():
    fill = fill_of()
    fill.begin(2, 5)
    fill.give_out(draw_of([7, 3, 9], 0))
    assert (fill.missing, fill.untried, fill.reason) == (2, 17, "")
    fill.admit(2, "nine")
    fill.reject(0, "seven", informativeness=0.0, reward=1.0)
    fill.admit(1, "three")
    assert fill.missing == 0
    assert fill.take() == ["nine", "three"]
    assert fill.batch_counts.metrics() == {
        "fill/draws": 1, "fill/given_out": 3, "fill/repeats": 0, "fill/admitted": 2, "fill/rejected": 1,
        "fill/failed": 0, "fill/stale": 0, "fill/cancelled": 0, "fill/filtered": 0, "fill/expired": 0,
        "fill/topped_up": 0, "fill/rejected_reward": 1,
    }  # fmt: skip


def test_what_a_batch_leaves_over_comes_into_the_next():
    fill = begun(1, [0, 1, 2])
    fill.admit(0, "a")
    fill.admit(1, "b")
    assert fill.take() == ["a"]
    fill.begin(1, 1)
    assert fill.missing == 0
    # prompt 0 is free again; 1 is in the batch already and 2 still in flight
    assert fill.has_had([0, 1, 2]).tolist() == [False, True, True]
    assert fill.older_than(0) == [2]
    assert fill.older_than(1) == []
    assert fill.take() == ["b"]
    assert fill.batch_counts.given_out == 0


def test_a_host_may_say_which_groups_still_wait():
    fill = begun(1, [0, 1, 2])
    fill.admit(0, "a")
    fill.admit(1, "b")
    fill.begin(1, 1, waiting={1, 2})
    assert (list(fill.admitted), list(fill.in_flight)) == ([1], [2])
    assert fill.has_had([0, 1, 2]).tolist() == [False, True, True]


def test_a_saved_run_goes_on_with_its_groups():
    fill = fill_of()
    fill.restore({4: InFlight(8, 3)}, {5: (9, "nine")})
    fill.begin(2, 4)
    assert (fill.missing, fill.has_had([8, 9, 10]).tolist()) == (1, [True, True, False])
    fill.admit(4, "eight")
    assert fill.take() == ["nine", "eight"]


def test_the_most_informative_rejected_groups_top_up_and_of_equal_ones_the_first_drawn():
    fill = begun(3, range(6), when_short="top-up")
    for ticket, variance in [(5, 0.1), (4, 0.2), (3, 0.2), (2, 0.05), (1, 0.2)]:
        fill.reject(ticket, ticket, informativeness=variance, reward=0.5)
    fill.admit(0, 0)
    assert fill.take() == [0, 1, 3]
    assert fill.batch_counts.topped_up == 2
    fill.begin(3, 1)
    with pytest.raises(FillError, match="0 of 3"):
        fill.take()  # rejected groups of an earlier batch do not count


def test_the_limit_counts_groups_that_ended_not_those_in_flight():
    fill = fill_of(limit=1.5)
    assert fill.reason == ""  # before the first batch
    fill.begin(2, 0)
    fill.give_out(draw_of(range(8), 0))
    for ticket in (0, 1):
        fill.reject(ticket, None, informativeness=0.0, reward=0.0)
        assert fill.reason == ""
    fill.mark_failed(2, "failed")
    assert fill.reason == "limit"
    fill.begin(2, 1)
    assert fill.reason == ""


def test_groups_of_an_earlier_batch_that_end_in_this_one_were_given_out():
    fill = fill_of(limit=1)
    fill.begin(2, 0)
    fill.give_out(draw_of(range(4), 0))
    fill.begin(2, 1)
    for ticket in (0, 1):
        fill.reject(ticket, None, informativeness=0.0, reward=0.0)
    assert "4 groups were given out (2 rejected by the gate)" in fill.explain()


def test_cancelled_groups_did_not_end():
    fill = begun(1, [0, 1], limit=1)
    fill.mark_failed(0, "cancelled")
    assert (fill.reason, fill.batch_counts.ended, fill.batch_counts.dropped) == ("", 0, 1)


@pytest.mark.parametrize(
    ("lost", "limit", "words"),
    [
        (
            {"rejected": 5, "stale": 2}, 1,
            "the limit of 1 batches was reached, and 1 of 8 groups are admitted. 8 groups were given out "
            "(5 rejected by the gate, 2 too old): widen the gate, or raise the limit of the fill, or "
            "choose another `when_short`",
        ),
        (
            {"failed": 2, "filtered": 3}, 9,
            "no more groups could be had, and 1 of 8 groups are admitted. 6 groups were given out (3 removed "
            "by the trainer's own filter, 2 failed): turn it off, or choose another `when_short`",
        ),
        ({}, 9, "no more groups could be had, and 1 of 8"),
    ],
)  # fmt: skip
def test_the_largest_cause_comes_first_and_says_what_to_do(lost, limit, words):
    settings = FillSettings(limit=limit, when_short="error")
    fill = Fill(settings, size=99, advice={"filtered": "turn it off"})
    fill.begin(8, 7)
    number = sum(lost.values()) + 1
    fill.give_out(draw_of(range(number), 0))
    fill.admit(0, None)
    ticket = 1
    for why, times in lost.items():
        for _ in range(times):
            if why == "rejected":
                fill.reject(ticket, None, informativeness=0.0, reward=0.0)
            elif why == "filtered":
                fill.admit(ticket, None)
                fill.withdraw(ticket, why)
            else:
                fill.mark_failed(ticket, why)
            ticket += 1
    with pytest.raises(FillError) as caught:
        fill.take()
    assert str(caught.value).startswith("step 8 cannot be filled: ")
    assert words in str(caught.value)
    assert list(fill.admitted) == [0]


def test_when_prompts_run_out_it_says_how_many_there_are():
    fill = fill_of(size=4)
    fill.begin(3, 0)
    fill.exhausted = True
    assert "all 4 prompts were tried or are in flight, and 0 of 3 groups" in fill.explain()
    assert "take more data or smaller batches" in fill.explain()


def test_an_admitted_group_may_be_withdrawn_before_a_batch_takes_it():
    fill = begun(1, [0, 1])
    fill.admit(0, "a")
    fill.withdraw(0, "expired")
    assert (fill.missing, fill.batch_counts.admitted, fill.batch_counts.expired) == (1, 1, 1)
    fill.admit(1, "b")
    assert fill.take() == ["b"]


def test_a_short_batch_may_be_finished_as_it_is():
    fill = begun(3, [0], when_short="finish")
    fill.admit(0, "a")
    assert fill.take() == ["a"]
    fill.begin(3, 1)
    assert fill.take() == []


def test_a_group_ends_once():
    fill = begun(1, [0])
    fill.mark_failed(0, "failed")
    with pytest.raises(KeyError, match="a group ends once"):
        fill.admit(0, "a")


def test_settings_that_cannot_be_are_refused():
    for options, words in (
        ({"limit": 0.5}, "a number of batches from 1, not 0.5"),
        ({"limit": "ten"}, "not 'ten'"),
        ({"limit": float("nan")}, "not nan"),
        ({"when_short": "stop"}, "one of error, finish, top-up, not 'stop'"),
    ):
        with pytest.raises(ConfigError, match=words):
            FillSettings(**options)


METHODS = ["uniform", "prioritized-replay", "prioritized-replay:variant=published", "pspo", "frontier"]


def fill_for(curriculum):
    return fill_of(curriculum.table.size, when_short="top-up")


def observe(curriculum, fill, draw, rng):
    rewards_PG = rng.integers(0, 2, (len(draw), 4)).astype(float)
    verdict = curriculum.observe(draw.tickets, rewards_PG)
    for ticket in draw.tickets.tolist():
        fill.admit(ticket, None)
    return verdict


def in_flight(curriculum):
    return set(curriculum.ledger.prompts.tolist())


@pytest.mark.parametrize("method", METHODS)
@given(
    st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=4), min_size=1, max_size=5), st.integers(0, 9)
)
@settings(max_examples=15, deadline=None)
def test_no_prompt_comes_twice_for_a_batch_and_no_ticket_is_left(method, batches, seed):
    curriculum, rng = curro.Curriculum(method, 20, seed=seed), np.random.default_rng(seed)
    fill = fill_for(curriculum)
    for step, draws in enumerate(batches):
        fill.begin(sum(draws), step)
        had: list[int] = []
        for n in draws:
            draw = select_unseen(curriculum, fill, n, step=step)
            assert len(draw) == n
            assert draw.step == step
            np.testing.assert_array_equal(np.sort(draw.tickets), draw.tickets)
            had += draw.prompts.tolist()
            observe(curriculum, fill, draw, rng)
        assert len(set(had)) == len(had)
        assert in_flight(curriculum) <= set(had)
        drop_held(fill, curriculum)
        assert len(curriculum.ledger) == 0
        fill.take()
    metrics = curriculum.metrics()
    assert metrics["observed"] == sum(map(sum, batches))
    assert metrics["selected"] == metrics["observed"] + metrics["dropped"]
    assert metrics["dropped"] == fill.counts.repeats


def test_published_replay_would_draw_the_same_prompts_again():
    """What it is for: without it most draws of a filled batch are of prompts that are in it."""
    rng = np.random.default_rng(0)
    curriculum = curro.Curriculum("prioritized-replay:variant=published", 40, seed=0)
    fill = fill_for(curriculum)
    for step in range(8):
        fill.begin(20, step)
        for _ in range(4):
            observe(curriculum, fill, select_unseen(curriculum, fill, 5, step=step), rng)
        drop_held(fill, curriculum)
        fill.take()
    assert fill.counts.repeats > 40


def test_a_prompt_that_was_only_estimated_may_be_trained_on_in_the_same_batch():
    """ADCL estimates all 4 prompts, and then trains on the easiest of them."""
    curriculum = curro.Curriculum("adcl:chunks=1", 4, admission="everything", seed=0)
    fill = fill_for(curriculum)
    fill.begin(2, 0)
    estimates = select_unseen(curriculum, fill, 4, step=0)
    assert fill.untried == 0
    rewards_PG = np.array([[0, 0], [0, 1], [1, 1], [0, 0]], float)
    verdict = curriculum.observe(estimates.tickets, rewards_PG)
    assert not verdict.admitted.any()
    for ticket in estimates.tickets.tolist():
        fill.reject(ticket, None, informativeness=0.0, reward=0.0)
    assert fill.untried == 4
    trained = select_unseen(curriculum, fill, 2, step=0)
    assert trained.prompts.tolist() == estimates.prompts[[2, 1]].tolist()
    assert fill.untried == 2
    assert fill.held == []


def test_when_the_prompts_run_out_nothing_is_given_out():
    curriculum, rng = curro.Curriculum("uniform", 10, seed=0), np.random.default_rng(0)
    fill = fill_for(curriculum)
    fill.begin(10, 0)
    observe(curriculum, fill, select_unseen(curriculum, fill, 8, step=0), rng)
    with pytest.raises(curro.ExhaustedError):
        select_unseen(curriculum, fill, 3, step=0)
    assert fill.reason == "prompts"
    assert in_flight(curriculum) <= set(fill.prompts_given_out.values())  # what is held, and no more
    observe(curriculum, fill, select_unseen(curriculum, fill, 2, step=0), rng)
    assert fill.untried == 0
    drop_held(fill, curriculum)
    fill.take()
    fill.begin(10, 1)
    assert len(curriculum.ledger) == 0
    assert len(select_unseen(curriculum, fill, 10, step=1)) == 10


def test_a_batch_has_a_prompt_once_though_its_estimate_was_rejected_too():
    """Prompt 3 is estimated, is drawn again and rejected again: only its last group can top up."""
    fill = fill_of(when_short="top-up")
    fill.begin(2, 0)
    estimate = draw_of([3, 4], 0)
    fill.give_out(replace(estimate, reasons=np.full(2, Reason.ESTIMATE, np.uint8)))
    fill.reject(0, "estimate of 3", informativeness=0.25, reward=0.5)
    fill.reject(1, "estimate of 4", informativeness=0.1, reward=0.5)
    fill.give_out(draw_of([3], 2))
    fill.reject(2, "group of 3", informativeness=0.2, reward=0.5)
    assert fill.take() == ["group of 3", "estimate of 4"]


class Script:
    """A port that gives these draws, and then none."""

    def __init__(self, *draws):
        self.draws, self.budgets, self.dropped = list(draws), [], []

    def select(self, n, *, step, rollouts=None):
        self.budgets.append(rollouts)
        if not self.draws:
            raise ExhaustedError("none is free")
        return self.draws.pop(0)

    def drop(self, tickets, cause):
        self.dropped += tickets


def test_what_replaces_a_prompt_that_came_again_has_its_rollouts():
    """Prompt 0, which the batch has had, would get 5 of 8 rollouts: another prompt gets those 5."""
    fill = begun(3, [0])
    port = Script(
        replace(draw_of([0, 1], 1), rollouts=np.array([5, 3])),
        replace(draw_of([2], 3), rollouts=np.array([5])),
    )
    draw = select_unseen(port, fill, 2, step=0, rollouts=8)
    assert (port.budgets, draw.prompts.tolist(), draw.rollouts.tolist()) == ([8, 5], [1, 2], [3, 5])


def test_a_draw_that_breaks_off_gives_back_what_it_has():
    """Prompt 0 came again and is held, prompt 1 is given back, and nothing is in flight."""
    fill = begun(3, [0])
    port = Script(draw_of([0, 1], 1))
    with pytest.raises(ExhaustedError):
        select_unseen(port, fill, 2, step=0)
    assert (port.dropped, fill.held, list(fill.in_flight), fill.reason) == ([2], [1], [0], "prompts")


def test_an_estimate_that_may_be_replaced_takes_no_place_of_another_group():
    """Prompt 3 fills the batch alone; those of 1 and 2 are needed once it is drawn again."""
    fill = Fill(FillSettings(when_short="top-up"), size=20, weigh=len)
    fill.begin(6, 0)
    fill.give_out(replace(draw_of([3], 0), reasons=np.full(1, Reason.ESTIMATE, np.uint8)))
    fill.give_out(draw_of([1, 2], 1))
    fill.reject(0, "estimate", informativeness=0.25, reward=0.5)
    fill.reject(1, "one", informativeness=0.1, reward=0.5)
    fill.reject(2, "two", informativeness=0.2, reward=0.5)
    fill.give_out(draw_of([3], 3))
    fill.reject(3, "3", informativeness=0.0, reward=0.0)
    assert fill.take() == ["two", "one"]
