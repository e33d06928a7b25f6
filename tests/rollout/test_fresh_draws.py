"""Batches that are filled in several goes have every prompt once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import curro
from curro.rollout.fill import Fill, draw_fresh
from curro.rollout.fill_settings import FillSettings

METHODS = ["uniform", "prioritized-replay", "prioritized-replay:variant=published", "pspo", "frontier"]


def fill_of(curriculum):
    repeats = curriculum.selection.repeats
    return Fill(FillSettings(), size=curriculum.table.size, may_repeat=repeats)


def observe(curriculum, fill, draw, rng):
    rewards_PG = rng.integers(0, 2, (len(draw), 4)).astype(float)
    verdict = curriculum.observe(draw.tickets, rewards_PG)
    for ticket in draw.tickets.tolist():
        fill.admit(ticket, None)
    return verdict


def release(curriculum, fill):
    if held := fill.release():
        curriculum.drop(held)


def in_flight(curriculum):
    return set(curriculum.ledger.prompts.tolist())


@pytest.mark.parametrize("method", METHODS)
@given(
    st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=4), min_size=1, max_size=5), st.integers(0, 9)
)
@settings(max_examples=15, deadline=None)
def test_no_prompt_comes_twice_for_a_batch_and_no_ticket_is_left(method, batches, seed):
    curriculum, rng = curro.Curriculum(method, 20, seed=seed), np.random.default_rng(seed)
    fill = fill_of(curriculum)
    for step, draws in enumerate(batches):
        fill.begin(sum(draws), step)
        had: list[int] = []
        for n in draws:
            draw = draw_fresh(curriculum, fill, n, step=step)
            assert len(draw) == n
            assert draw.step == step
            np.testing.assert_array_equal(np.sort(draw.tickets), draw.tickets)
            had += draw.prompts.tolist()
            observe(curriculum, fill, draw, rng)
        assert len(set(had)) == len(had)
        assert in_flight(curriculum) <= set(had)
        release(curriculum, fill)
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
    fill = fill_of(curriculum)
    for step in range(8):
        fill.begin(20, step)
        for _ in range(4):
            observe(curriculum, fill, draw_fresh(curriculum, fill, 5, step=step), rng)
        release(curriculum, fill)
        fill.take()
    assert fill.counts.repeats > 40


def test_a_selection_that_repeats_prompts_is_left_alone():
    curriculum = curro.Curriculum("pspo:replacement=true", 3, seed=0)
    fill = fill_of(curriculum)
    fill.begin(8, 0)
    draw = draw_fresh(curriculum, fill, 8, step=0)
    assert len(set(draw.prompts.tolist())) <= 3
    assert (fill.held, fill.untried) == ([], np.inf)


def test_a_prompt_that_was_only_estimated_may_be_trained_on_in_the_same_batch():
    """ADCL estimates all 4 prompts, and then trains on the easiest of them."""
    curriculum = curro.Curriculum("adcl:chunks=1", 4, admission="everything", seed=0)
    fill = fill_of(curriculum)
    fill.begin(2, 0)
    estimates = draw_fresh(curriculum, fill, 4, step=0)
    assert fill.untried == 0
    rewards_PG = np.array([[0, 0], [0, 1], [1, 1], [0, 0]], float)
    verdict = curriculum.observe(estimates.tickets, rewards_PG)
    assert not verdict.admitted.any()
    for ticket in estimates.tickets.tolist():
        fill.reject(ticket, None, informativeness=0.0, reward=0.0)
    assert fill.untried == 4
    trained = draw_fresh(curriculum, fill, 2, step=0)
    assert trained.prompts.tolist() == estimates.prompts[[2, 1]].tolist()
    assert fill.untried == 2
    assert fill.held == []


def test_when_the_prompts_run_out_nothing_is_given_out():
    curriculum, rng = curro.Curriculum("uniform", 10, seed=0), np.random.default_rng(0)
    fill = fill_of(curriculum)
    fill.begin(10, 0)
    observe(curriculum, fill, draw_fresh(curriculum, fill, 8, step=0), rng)
    with pytest.raises(curro.ExhaustedError):
        draw_fresh(curriculum, fill, 3, step=0)
    assert fill.reason == "prompts"
    assert in_flight(curriculum) <= set(fill.prompts_given_out.values())  # what is held, and no more
    observe(curriculum, fill, draw_fresh(curriculum, fill, 2, step=0), rng)
    assert fill.untried == 0
    release(curriculum, fill)
    fill.take()
    fill.begin(10, 1)
    assert len(curriculum.ledger) == 0
    assert len(draw_fresh(curriculum, fill, 10, step=1)) == 10


def test_prompts_that_wait_for_the_next_batch_do_not_come_into_it_twice():
    curriculum, rng = curro.Curriculum("uniform", 10, seed=0), np.random.default_rng(0)
    fill = fill_of(curriculum)
    fill.begin(8, 0)
    draw = draw_fresh(curriculum, fill, 8, step=0)
    observe(curriculum, fill, draw, rng)
    fill.begin(8, 1, waiting=set(draw.tickets[:5].tolist()))
    later = draw_fresh(curriculum, fill, 5, step=1)
    assert not set(later.prompts.tolist()) & set(draw.prompts[:5].tolist())


def test_an_error_of_the_port_is_the_ports():
    curriculum = curro.Curriculum("uniform", 4)
    other = curriculum.select(3, step=0)
    with pytest.raises(curro.ExhaustedError, match="2 prompts were asked for and 1 of 4 are free"):
        draw_fresh(curriculum, fill_of(curriculum), 2, step=0)
    curriculum.drop(other.tickets)
