"""Outcomes of sessions put together into groups: property tests."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from curro.core.errors import RewardError
from curro.hosts.verl.auxiliary import _dealt
from curro.hosts.verl.replay import (
    KnownNumbers,
    ReportingBuffer,
    parts_of,
    ticket_of,
    uid_of,
)

ROLLOUTS = st.dictionaries(
    st.tuples(st.integers(0, 5), st.integers(0, 6)),
    st.one_of(st.floats(-2, 2), st.just(float("nan"))),
    min_size=1,
)


def finished(sessions, size=1, named=("acc",)):
    """What a buffer reads of verl's queue with these sessions: (ticket, session) to (reward, info, index)."""
    rows = list(sessions.values())
    stored = {
        "rm_scores": [torch.tensor([0.0, reward], dtype=torch.float64) for reward, _, _ in rows],
        "extra_fields": [{"reward_extra_info": info} for _, info, _ in rows],
        "index": [index for _, _, index in rows],
    }
    buffer = object.__new__(ReportingBuffer)
    keys = [f"{uid_of(ticket)}_{session}_0" for ticket, session in sessions]
    buffer.partitions = {"train": {key: {"response_len": 2} for key in keys}}
    buffer.longest, buffer.largest, buffer.named = 9, 1e15, named
    with mock.patch("curro.hosts.verl.replay.tq.kv_batch_get", return_value=stored):
        return buffer.finished_groups({uid_of(ticket) for ticket, _ in sessions}, size)


@given(ROLLOUTS, st.integers(1, 8), st.randoms())
def test_every_reward_stands_in_its_place_whatever_the_order(rewards, size, random):
    order = list(rewards)
    random.shuffle(order)
    groups = finished({
        place: (rewards[place], {"acc": rewards[place], "said": "x", "ok": True}, 7) for place in order
    }, size)  # fmt: skip
    tickets = sorted({ticket for ticket, _ in rewards})
    assert groups.feedback.tickets.tolist() == tickets == [ticket_of(uid) for uid in groups.uids]
    expected_PG = np.full((len(tickets), max(size, 1 + max(session for _, session in rewards))), np.nan)
    for (ticket, session), reward in rewards.items():
        row = tickets.index(ticket)
        expected_PG[row, session] = reward
        assert groups.keys[row][session] == f"{uid_of(ticket)}_{session}_0"
    np.testing.assert_array_equal(groups.feedback.rewards, expected_PG)
    np.testing.assert_array_equal(groups.feedback.named["acc"], expected_PG)
    assert set(groups.feedback.named) == {"acc"}
    generated = sum(completion is not None for group in groups.completions for completion in group)
    assert generated == len(rewards)


def test_what_is_no_number_of_a_sensible_size_is_missing():
    values = [1.0, True, np.float32(0.5), 1e20, -1e20, 10**400, np.inf, np.nan, "1", None, np.bool_(False)]
    sessions = {(0, i): (0.0, {"acc": value}, 7) for i, value in enumerate(values)} | {(0, 11): (0.0, {}, 7)}
    (part_G,) = finished(sessions).feedback.named["acc"]
    np.testing.assert_array_equal(part_G, [1, 1, 0.5, *[np.nan] * 7, 0, np.nan])


def test_a_session_that_a_reward_could_not_score_has_no_reward_and_no_number():
    """verl's score of it is 0, and so is that of a wrong answer; `curro_scored` tells them apart."""
    infos = [{"acc": 0.0, "curro_scored": 1.0}, {"acc": 0.0, "curro_scored": 0.0}, {"acc": 0.0}]
    feedback = finished({(0, i): (0.0, info, 7) for i, info in enumerate(infos)}).feedback
    np.testing.assert_array_equal(feedback.rewards, [[0.0, np.nan, 0.0]])
    np.testing.assert_array_equal(feedback.named["acc"], [[0.0, np.nan, 0.0]])


def test_a_number_that_no_rollout_of_a_batch_has_is_named_with_what_there_is():
    wrong = finished({(0, 0): (1.0, {"score": 1.0, "pred": "x"}, 7)})
    failed = finished({(1, 0): (np.nan, {}, 7)})
    right = finished({(2, 0): (1.0, {"acc": 1.0}, 7)})
    named = ["acc"]
    with pytest.raises(RewardError, match=r"decides by 'acc', .* it has: pred, score"):
        KnownNumbers().check(wrong, named, batch=1)
    numbers = KnownNumbers()
    numbers.check(failed, named, batch=2)  # one group is not a batch yet
    with pytest.raises(RewardError, match="it has: nothing"):
        numbers.check(failed, named, batch=2)
    numbers = KnownNumbers()
    numbers.check(right, named, batch=1)
    for _ in range(3):
        numbers.check(failed, named, batch=1)  # it was there, and may come again


def test_one_of_several_numbers_may_come_late(caplog):
    """It may be that of a source of the data which is seldom drawn."""
    numbers, named = KnownNumbers(), ["math", "acc"]
    for _ in range(2):
        numbers.check(finished({(2, 0): (1.0, {"math": 1.0}, 7)}), named, batch=1)
    assert [record.message for record in caplog.records] == [
        "the curriculum decides by 'math' + 'acc', and reward_extra_info has no 'acc'; it has: math"
    ]


def test_a_group_of_different_prompts_is_refused():
    sessions = {(3, session): (1.0, {}, index) for session, index in enumerate("447")}
    with pytest.raises(RewardError, match=r"group 'ticket-3' are of different prompts .*is 4 and 7\)"):
        finished(sessions)


@given(st.integers(0, 2**53), st.integers(0, 99), st.integers(0, 9))
def test_a_ticket_is_found_again_in_a_key(ticket, session, output):
    uid, *rest = parts_of(f"{uid_of(ticket)}_{session}_{output}")
    assert (ticket_of(uid), rest) == (ticket, [session, output])
    assert "_" not in uid


class Meta:
    """What `_dealt` reads of verl's meta data of a batch."""

    partition_id, fields, extra_info = "train", None, None

    def __init__(self, keys):
        self.keys, self.tags = keys, [{"key": key} for key in keys]

    def __len__(self):
        return len(self.keys)


@given(st.integers(1, 8), st.integers(1, 4), st.integers(1, 5))
def test_auxiliary_samples_are_dealt_out_evenly_and_tags_go_with_their_keys(places, size, share):
    batch = Meta([f"r{i}" for i in range(places * size)])
    keys = [f"l{j}" for j in range(places * share)]
    made = _dealt(batch, keys, [{"key": key} for key in keys], places)
    assert [tag["key"] for tag in made.tags] == made.keys
    assert [key for key in made.keys if key[0] == "r"] == batch.keys
    for place in range(places):
        part = made.keys[place * (size + share) : (place + 1) * (size + share)]
        assert [key[0] for key in part] == ["r"] * size + ["l"] * share
        assert [int(key[1:]) % places for key in part[size:]] == [place] * share
