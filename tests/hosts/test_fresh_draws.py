"""Batches that are filled in several goes have every prompt once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import curro
from curro.hosts.fresh_draws import FreshDraws

METHODS = ["uniform", "prioritized-replay", "prioritized-replay:variant=published", "pspo", "frontier"]


def fresh_of(curriculum):
    repeats = curriculum.selection.repeats
    return FreshDraws(curriculum, curriculum.table.size, may_repeat=repeats)


def observe(curriculum, draw, rng):
    rewards_PG = rng.integers(0, 2, (len(draw), 4)).astype(float)
    return curriculum.observe(draw.tickets, rewards_PG)


def in_flight(curriculum):
    return set(curriculum.ledger.prompts.tolist())


@pytest.mark.parametrize("method", METHODS)
@given(
    st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=4), min_size=1, max_size=5), st.integers(0, 9)
)
@settings(max_examples=15, deadline=None)
def test_no_prompt_comes_twice_for_a_batch_and_no_ticket_is_left(method, batches, seed):
    curriculum, rng = curro.Curriculum(method, 20, seed=seed), np.random.default_rng(seed)
    fresh = fresh_of(curriculum)
    for step, draws in enumerate(batches):
        fresh.begin()
        had: list[int] = []
        for n in draws:
            draw = fresh.select(n, step=step)
            assert len(draw) == n
            assert draw.step == step
            np.testing.assert_array_equal(np.sort(draw.tickets), draw.tickets)
            had += draw.prompts.tolist()
            observe(curriculum, draw, rng)
        assert len(set(had)) == len(had)
        assert in_flight(curriculum) <= set(had)
        fresh.end()
        assert len(curriculum.ledger) == 0
    metrics = curriculum.metrics()
    assert metrics["observed"] == sum(map(sum, batches))
    assert metrics["selected"] == metrics["observed"] + metrics["dropped"]


def test_published_replay_would_draw_the_same_prompts_again():
    """What it is for: without it most draws of a filled batch are of prompts that are in it."""
    rng = np.random.default_rng(0)
    curriculum = curro.Curriculum("prioritized-replay:variant=published", 40, seed=0)
    fresh = fresh_of(curriculum)
    for step in range(8):
        fresh.begin()
        for _ in range(4):
            observe(curriculum, fresh.select(5, step=step), rng)
    assert fresh.repeats > 5


def test_a_selection_that_repeats_prompts_is_left_alone():
    curriculum = curro.Curriculum("pspo:replacement=true", 3, seed=0)
    fresh = fresh_of(curriculum)
    fresh.begin()
    draw = fresh.select(8, step=0)
    assert len(set(draw.prompts.tolist())) <= 3
    assert (fresh.held, fresh.given) == ([], {})


def test_when_the_prompts_run_out_nothing_is_selected():
    curriculum, rng = curro.Curriculum("uniform", 10, seed=0), np.random.default_rng(0)
    fresh = fresh_of(curriculum)
    fresh.begin()
    observe(curriculum, fresh.select(8, step=0), rng)
    with pytest.raises(curro.ExhaustedError, match=r"3 prompts .* and 8 of 10 have been given out for it"):
        fresh.select(3, step=0)
    assert in_flight(curriculum) <= set(fresh.given.values())  # what is held, and no more
    last = fresh.select(2, step=0)
    assert len(fresh.given) == 10
    observe(curriculum, last, rng)
    fresh.begin()
    assert len(curriculum.ledger) == 0
    assert len(fresh.select(10, step=1)) == 10


def test_prompts_that_wait_for_the_next_batch_do_not_come_into_it_twice():
    curriculum, rng = curro.Curriculum("uniform", 10, seed=0), np.random.default_rng(0)
    fresh = fresh_of(curriculum)
    fresh.begin()
    draw = fresh.select(8, step=0)
    observe(curriculum, draw, rng)
    fresh.begin(waiting=draw.tickets[:5].tolist())
    later = fresh.select(5, step=1)
    assert not set(later.prompts.tolist()) & set(draw.prompts[:5].tolist())


def test_an_error_of_the_port_is_the_ports():
    curriculum = curro.Curriculum("uniform", 4)
    other = curriculum.select(3, step=0)
    with pytest.raises(curro.ExhaustedError, match="2 prompts were asked for and 1 of 4 are free"):
        fresh_of(curriculum).select(2, step=0)
    curriculum.drop(other.tickets)
