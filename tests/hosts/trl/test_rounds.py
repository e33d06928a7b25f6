"""The fill in rounds, without a model; `tests/simulation` has rounds that break off, and kills."""

from __future__ import annotations

import pytest
from tests.simulation.rounds import Process

import curro
from curro.core.errors import FillError
from curro.rollout.fill_settings import FillSettings


def owner_of(curriculum, settings=FillSettings(), *, processes=1, outcomes=(), pass_rate=None):  # noqa: B008
    """The main process; prompts are numbered as they come, and their rollouts succeed as `outcomes` say."""
    numbers, marks = {}, [iter(text) for text in outcomes]

    def reward(prompt):
        number = numbers.setdefault(prompt, len(numbers))
        return pass_rate if pass_rate is not None else float(next(marks[number]).replace("x", "nan"))

    owner = Process(curriculum, settings, reward, processes=processes)
    owner.number = lambda ticket: numbers[owner.prompts[ticket]]
    return owner


def numbered(owner):
    """The rounds by the numbers of their prompts."""
    return [{owner.number(ticket): size for ticket, size in tickets.items()} for tickets in owner.rounds]


def prompts(owner, batch):
    return [owner.number(ticket) for ticket, _ in batch]


def test_a_round_generates_what_is_missing_rounded_up_to_the_processes():
    """2 of 4 are admitted: 4 groups, then 2; then 2 on two processes where one is missing."""
    curriculum = curro.Curriculum("least-visited", 40, admission="band:0.4,0.6")
    outcomes = ["1100", "1100", "1100", "0000", "0000", "1100", "1100", "1100"]
    owner = owner_of(curriculum, processes=2, outcomes=outcomes)
    batch = owner.step(16, 0)
    assert [len(tickets) for tickets in owner.rounds] == [4, 2]
    assert prompts(owner, batch) == [0, 1, 2, 5]
    assert owner.fill.batch_counts.draws == 2
    batch = owner.step(8, 1)
    assert prompts(owner, batch) == [6, 7]  # nothing was left over


def test_a_round_looks_first_and_then_spends_where_rewards_differ():
    """8 rows: 2 prompts are looked at, and prompt 1 gets the other 4; the next round fills the rest."""
    curriculum = curro.Curriculum("least-visited", 40, allocation="probe:first=2,most=6", admission="signal")
    owner = owner_of(curriculum, outcomes=["00", "100000", "01"])
    batch = owner.step(8, 0)
    assert numbered(owner) == [{0: 2, 1: 2}, {1: 4}, {2: 2}]
    assert [(owner.number(ticket), len(rollouts)) for ticket, rollouts in batch] == [(1, 6), (2, 2)]


def test_a_group_without_any_reward_has_failed_and_was_not_rejected():
    curriculum = curro.Curriculum("least-visited", 40, admission="signal")
    owner = owner_of(curriculum, outcomes=["xxxx", "1100", "1111", "xx10"])
    batch = owner.step(8, 0)
    assert prompts(owner, batch) == [1, 3]
    counts = owner.fill.batch_counts
    assert (counts.failed, counts.rejected, counts.rejected_reward) == (1, 1, 1.0)
    assert (curriculum.ledger.observed, curriculum.ledger.dropped) == (3, 1)


def test_the_rows_of_a_group_that_failed_count_towards_the_limit():
    """8 rows of 2 groups are the limit of one batch, though one of them has failed."""
    curriculum = curro.Curriculum("least-visited", 40, admission="signal")
    owner = owner_of(curriculum, FillSettings(1.0, "error"), outcomes=["xxxx", "1100"])
    with pytest.raises(FillError, match=r"limit of 1 batches was reached, .* \(1 failed\): look for the err"):
        owner.step(8, 0)
    assert len(owner.rounds) == 1


def test_prompts_that_others_have_in_flight_run_out_too():
    curriculum = curro.Curriculum("uniform", 6, admission="band:0.4,0.6")
    curriculum.select(4, step=0)
    owner = owner_of(curriculum, FillSettings(when_short="error"), pass_rate=0.0)
    with pytest.raises(FillError, match="all 6 prompts were tried or are in flight, and 0 of 8"):
        owner.step(8, 0)
