"""A state that is loaded with rows added, removed, moved or changed: every row keeps what is known of it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.test_port_machine import SELECTIONS
from tests.methods.prediction.judging import Scripted

from curro import CheckpointError, Choice, Curriculum, Reason, Selection
from curro.core.renumbering import Renumbering, match_rows

SOURCES = ("math", "code", "logic")
SPECS = [
    *SELECTIONS,
    "greso",
    "ucb",
    "progress",
    "target:column=level,by_source=true",
    "posterior:known=rate",
    "adcl:chunks=3,column=rate",
]
PASSES = ("uniform", "scheduled", "greso")
"""Selections that remember where they are in the rows' order, which ends with other rows."""


def row(number, *, keyed=True, text=None):
    return {
        "prompt": f"What is {number} plus {number}?" if text is None else text,
        "answer": str(2 * number),
        "source": SOURCES[number % 3],
        "level": float(number),
        "rate": number % 5 / 4,
    } | ({"key": f"row-{number}"} if keyed else {})


def trained(spec, numbers, *, seed, steps=4, **options):
    """A curriculum over the rows of these numbers that has learnt, with groups in flight."""
    curriculum = Curriculum(spec, [row(number) for number in numbers], seed=3, **options)
    train(curriculum, seed, range(steps))
    return curriculum


def train(curriculum, seed, steps):
    rng = np.random.default_rng(seed)
    for step in steps:
        if curriculum.free < 3:
            curriculum.drop(curriculum.ledger.tickets)
        draw = curriculum.select(3, step=step, rollouts=12 if curriculum.has_allocation else None)
        settled = rng.random(len(draw)) < 0.7
        if settled.any():
            rewards = rng.integers(0, 2, (int(settled.sum()), 4)).astype(float)
            curriculum.observe(draw.tickets[settled], rewards)
        if len(curriculum.ledger) > 3:
            curriculum.drop(curriculum.ledger.tickets[:1])


def loaded(saved, numbers, **options):
    """A new curriculum over the rows of these numbers, with the state of another; and its warnings."""
    curriculum = Curriculum(saved.config["selection"], [row(number) for number in numbers], seed=3, **options)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        curriculum.load_state_dict(saved.state_dict())
    return curriculum, [str(warning.message) for warning in told]


@pytest.mark.filterwarnings("ignore:sec has no column")
@pytest.mark.parametrize("spec", SPECS)
@settings(max_examples=15, deadline=None)
@given(
    before=st.lists(st.integers(0, 15), min_size=7, max_size=12, unique=True),
    kept=st.lists(st.booleans(), min_size=12, max_size=12),
    added=st.lists(st.integers(16, 25), max_size=4, unique=True),
    seed=st.integers(0, 2**16),
)
def test_every_row_that_is_left_keeps_what_is_known_of_it(spec, before, kept, added, seed):
    options = {"advantage": "smoothed:alpha=0.5", "allocation": "knapsack"}
    saved = trained(spec, before, seed=seed, **options)
    left = [number for number, is_kept in zip(before, kept, strict=False) if is_kept] or before[:1]
    now = np.random.default_rng(seed).permutation([*left, *added, 30, 31, 32]).tolist()
    here, (told,) = loaded(saved, now, **options)
    counts = f"{len(left)} rows are known, 0 of them changed, {3 + len(added)} are new and "
    assert counts + f"{len(before) - len(left)} are gone" in told
    unseen = trained(spec, now, seed=seed, steps=0, **options)
    # a category is that of the new data, and new rows join the chunk that comes next
    for name in here.table.columns.keys() - {"sec_category", "adcl_chunk", "adcl_due"}:
        expected = [
            saved.table[name][before.index(number)] if number in before else unseen.table[name][prompt]
            for prompt, number in enumerate(now)
        ]
        np.testing.assert_equal(here.table[name], np.array(expected), err_msg=name)
    in_flight = [before[prompt] for prompt in saved.ledger.prompts.tolist()]
    assert [now[prompt] for prompt in here.ledger.prompts.tolist()] == [n for n in in_flight if n in now]
    metrics = here.metrics()
    assert metrics["selected"] == metrics["observed"] + metrics["dropped"] + metrics["in_flight"]
    assert metrics["observed"] == saved.metrics()["observed"]
    # it goes on, and so does a resume of it
    again, nothing = loaded(here, now, **options)
    assert nothing == []
    for curriculum in (here, again):
        train(curriculum, seed, range(4, 12))
    np.testing.assert_equal(again.state_dict(), here.state_dict())


@pytest.mark.filterwarnings("ignore:sec has no column")
@pytest.mark.parametrize("spec", [spec for spec in SPECS if not spec.startswith(PASSES)])
def test_rows_that_were_moved_and_moved_back_are_as_they_were(spec):
    before = list(range(12))
    moved = np.random.default_rng(1).permutation(before).tolist()
    options = {"advantage": "smoothed"}
    saved = trained(spec, before, seed=5, steps=9, **options)
    there, _ = loaded(saved, moved, **options)
    back, _ = loaded(there, before, **options)
    np.testing.assert_equal(back.state_dict(), saved.state_dict())
    # and nothing is renumbered where the rows are the same, which is not worth a warning
    same, told = loaded(saved, before, **options)
    assert told == []
    np.testing.assert_equal(same.state_dict(), saved.state_dict())


def test_a_bandit_keeps_its_values_by_the_names_of_sources():
    numbers = [0, 3, 1, 4]  # math, math, code, code
    saved = Curriculum("sec", [row(number) for number in numbers], seed=3)
    draw = saved.select(4, step=0)
    sources = [saved.table.source(prompt) for prompt in draw.prompts.tolist()]
    saved.observe(draw.tickets, [[1, 0] if source == "math" else [0, 0] for source in sources])
    saved.select(1, step=1)
    # Q = 0.5 * 1/2 of math, and 0 of code
    assert saved.metrics()["sec/value math"] == 0.25
    here, _ = loaded(saved, [2, 5, 0, 1])  # logic, logic, math, code
    values = {name: here.metrics()[f"sec/value {name}"] for name in SOURCES}
    assert values == {"math": 0.25, "code": 0.0, "logic": 0.0}


def test_a_changed_row_is_refused_unless_it_is_allowed():
    saved = trained("posterior", range(6), seed=0)
    rows = [row(number) for number in range(6)]
    rows[2] = row(2, text="What is two plus two?")
    here = Curriculum("posterior", rows, seed=3)
    with pytest.raises(CheckpointError, match=r"1 rows have another prompt or answer .* 'row-2': give"):
        here.load_state_dict(saved.state_dict())
    here = Curriculum("posterior", rows, seed=3)
    here.allows_changed_rows = True
    with pytest.warns(UserWarning, match="6 rows are known, 1 of them changed, 0 are new and 0 are gone"):
        here.load_state_dict(saved.state_dict())
    np.testing.assert_equal(here.table.state_dict(), saved.table.state_dict())


def test_rows_without_keys_are_found_by_their_content_and_equal_ones_by_their_order():
    rows = [row(number, keyed=False) for number in (4, 7, 4, 9)]
    saved = Curriculum("uniform", rows)
    saved.observe(saved.select(4, step=0).tickets, [[1, 0]] * 4)
    saved.table["last_step"][:] = [10, 11, 12, 13]  # a mark for each row
    saved.step = 20
    here = Curriculum("uniform", [row(number, keyed=False) for number in (9, 4, 5, 4)])
    with pytest.warns(UserWarning, match="3 rows are known, 0 of them changed, 1 are new and 1 are gone"):
        here.load_state_dict(saved.state_dict())
    assert here.table["last_step"].tolist() == [13, 10, -1, 12]


class Remembers(Selection):
    """Takes the first free prompts, and remembers how many."""

    count = 0

    def select(self, n, step):
        self.count += n
        return Choice.of(np.flatnonzero(~self.table["in_flight"])[:n], Reason.PRIORITY)

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]


@pytest.mark.parametrize(
    ("spec", "before", "now", "words"),
    [
        ("uniform", [row(1), row(2)], [row(3), row(4)], "is of another data set"),
        ("uniform", 3, 4, "is of another data set: it has '3 prompts', this curriculum '4 prompts'"),
        (Remembers(), ["a", "b"], ["b", "c"], "Remembers does not say what becomes of its state"),
    ],
)
@pytest.mark.filterwarnings("ignore:the data set is not the one of the checkpoint")
def test_what_cannot_be_matched_is_refused(spec, before, now, words):
    saved, here = Curriculum(spec, before), Curriculum(spec, now)
    saved.select(1, step=0)
    with pytest.raises(CheckpointError, match=words):
        here.load_state_dict(saved.state_dict())


def test_a_curriculum_that_has_selected_takes_no_other_rows():
    saved, here = Curriculum("uniform", ["a", "b"]), Curriculum("uniform", ["b", "c"])
    here.select(1, step=0)
    with pytest.raises(CheckpointError, match="load it into a new one, before its first select"):
        here.load_state_dict(saved.state_dict())


def test_matching_by_hand():
    def digests(keys, contents):
        return np.array([keys, contents], np.uint64).T

    rows, changed = match_rows(digests([5, 6, 7], [1, 2, 3]), digests([7, 8, 6, 5], [3, 9, 4, 1]))
    assert rows.saved_N.tolist() == [2, -1, 1, 0]
    assert rows.now_M.tolist() == [3, 2, 0]
    assert changed.tolist() == [2]
    # without keys on one side equal contents are told apart by their order
    rows, changed = match_rows(digests([0, 0, 0], [1, 1, 3]), digests([7, 8, 6, 5], [1, 1, 1, 2]))
    assert rows.saved_N.tolist() == [0, 1, -1, -1]
    assert rows.now_M.tolist() == [0, 1, -1]
    assert changed.tolist() == []
    with pytest.raises(CheckpointError, match="neither keys nor texts"):
        match_rows(digests([1], [0]), digests([0], [2]))


def test_a_heap_and_groups_by_hand():
    rows = Renumbering(np.array([2, -1, 0]), np.array([2, -1, 0]))
    saved = {"kind": "MaxHeap", "size": 3, "seed": 1, "ids": np.array([0, 1], np.int32),
             "priorities": np.array([0.5, 0.7]), "pushes": np.array([3, 4, 5], np.uint32)}  # fmt: skip
    heap = rows.heap(saved, new_priority=0.25)
    assert (heap["ids"].tolist(), heap["priorities"].tolist()) == ([1, 2], [0.25, 0.5])
    assert (heap["pushes"].tolist(), heap["size"]) == ([5, 1, 3], 3)
    groups = np.array([[0.0, 1.0, 2.0], [0.1, 0.2, 0.3]])
    assert rows.groups(groups, "groups").tolist() == [[2.0, 0.0], [0.1, 0.3]]
    with pytest.raises(CheckpointError, match="groups are not of the table"):
        rows.groups(np.array([[3.0]]), "groups")


def test_metis_keeps_the_judgments_and_the_memory_of_the_rows_that_are_left():
    def with_policy(numbers):
        curriculum = Curriculum("metis:candidates=1,exemplars=4", [row(number) for number in numbers])
        policy = Scripted(lambda text: "\\boxed{0.1}", lambda prompt: f"prompt {numbers[prompt]} ")
        curriculum.attach(policy)
        return curriculum, policy

    saved, policy = with_policy([1, 2, 3, 4, 5])
    draw = saved.select(2, step=0)
    saved.observe(draw.tickets, [[1, 0], [1, 1]])
    flying = saved.select(3, step=1)
    known = [saved.table.key(prompt) for prompt in draw.prompts.tolist()]
    gone = int(saved.table.key(int(flying.prompts[0])).removeprefix("row-"))
    left = [number for number in (5, 4, 3, 2, 1) if number != gone]
    here, policy = with_policy([*left, 9])
    with pytest.warns(UserWarning, match="4 rows are known, 0 of them changed, 1 are new and 1 are gone"):
        here.load_state_dict(saved.state_dict())
    pending = here.selection.predictor.pending.state_dict()["prompts"].tolist()
    judged = [here.table.key(prompt) for prompt in pending]
    assert sorted(judged) == sorted(saved.table.key(prompt) for prompt in flying.prompts[1:].tolist())
    # a judgment of .1 earns 1 - (4 * .15)^2 = .64 for v = 1/4 and 1 - .4^2 = .84 for v = 0, so that the
    # baseline is .05 * (.64 + .84) / 2 = .037 after the first step
    verdict = here.observe(here.ledger.tickets, [[1, 0]] * 2)
    np.testing.assert_allclose(verdict.auxiliary_samples.advantages, [0.64 - 0.037] * 2, rtol=1e-12)
    here.select(1, step=2)
    shown = policy.conversations[0][-1]["content"]
    assert all(f"prompt {key.removeprefix('row-')} " in shown for key in known)
