"""A curriculum in a folder: killed at any byte, it goes on, and no call counts twice."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from curro import Curriculum
from curro.core.errors import CheckpointError, ConfigError, ExhaustedError, TicketError
from curro.core.policy import Reply
from curro.durable import DurableCurriculum, unpack
from curro.durable.durable_curriculum import LatestReplies
from curro.durable.frames import decode, encode
from curro.durable.journal import Journal
from curro.runs.lock import LockedError

SIZE = 9


def durable(folder, selection="prioritized-replay", size=SIZE, **options):
    return DurableCurriculum(Curriculum(selection, size, seed=4), folder, **options)


def rewards(prompts):
    return np.array([[float((prompt + place) % 3 == 0) for place in range(2)] for prompt in prompts.tolist()])


def ask(port, number, name, client="one", **given):
    return unpack(decode(port.call(client, number, name, given)))


def play(port, calls):
    """Carry out the calls; each is a step of a host that keeps its draws."""
    draws = {}
    for number in calls:
        match number % 3:
            case 0:
                draws[number] = ask(port, number, "select", n=2, step=number)
            case 1:
                draw = ask(port, number - 1, "select", n=2, step=number - 1)
                ask(
                    port, number, "observe", client="two", tickets=draw.tickets, rewards=rewards(draw.prompts)
                )
            case 2:
                draw = ask(port, number, "select", client="three", n=1, step=number)
                ask(port, number, "drop", client="four", tickets=draw.tickets)
    return draws


def state(port):
    return {name: value for name, value in port.curriculum.state_dict().items() if name != "table"} | {
        "table": {name: column.tobytes() for name, column in port.curriculum.table.state_dict().items()}
    }


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "durable"


def abandon(port):
    """What a kill leaves: files are closed by the system, and nothing more is written."""
    port._opened.close()


def test_a_new_process_goes_on_with_the_same_draws(folder):
    port, twin = durable(folder), Curriculum("prioritized-replay", SIZE, seed=4)
    for step in range(12):
        draw, expected = ask(port, step, "select", n=3, step=step), twin.select(3, step=step)
        np.testing.assert_array_equal(draw.prompts, expected.prompts)
        if step % 2:
            abandon(port)
            port = durable(folder)
        ours = ask(port, step, "observe", "two", tickets=draw.tickets, rewards=rewards(draw.prompts))
        theirs = twin.observe(expected.tickets, rewards(expected.prompts))
        np.testing.assert_array_equal(ours.advantages, theirs.advantages)
    assert port.curriculum.metrics() == pytest.approx(twin.metrics(), nan_ok=True)
    port.close()


def test_cut_at_every_byte_nothing_is_lost_and_nothing_counts_twice(folder, tmp_path):
    """Whatever was written of the journal, clients repeat what was not answered, and all comes out even."""
    steady = durable(folder)
    ends = [steady._journal.size]
    for number in range(3):
        play(steady, [number])
        ends.append(steady._journal.size)
    abandon(steady)
    journal = folder / "00000000.journal"
    whole = journal.read_bytes()
    assert len(whole) == ends[-1]
    for cut in range(len(whole) + 1):
        copy = tmp_path / "copy"
        copy.mkdir()
        (copy / journal.name).write_bytes(whole[:cut])
        resumed = durable(copy)
        answered = sum(end <= cut for end in ends[1:])
        assert resumed.curriculum.ledger.selected >= (0, 2, 2, 3)[answered]
        play(resumed, range(answered, 3))
        assert state(resumed)["table"] == state(steady)["table"], cut
        assert resumed.curriculum.metrics() == pytest.approx(steady.curriculum.metrics(), nan_ok=True)
        abandon(resumed)
        shutil.rmtree(copy)


def test_a_repeated_call_gets_the_same_reply_also_from_a_new_process(folder):
    port = durable(folder)
    first = port.call("one", 7, "select", {"n": 4, "step": 0})
    assert port.call("one", 7, "select", {"n": 4, "step": 0}) == first
    abandon(port)
    port = durable(folder)
    assert port.call("one", 7, "select", {"n": 4, "step": 0}) == first
    port.close()  # with a snapshot
    port = durable(folder)
    assert port.call("one", 7, "select", {"n": 4, "step": 0}) == first
    assert port.curriculum.ledger.selected == 4
    port.close()


def test_a_number_that_is_used_for_another_call_is_refused(folder):
    port = durable(folder)
    ask(port, 5, "select", n=1, step=0)
    for number, n in ((5, 2), (4, 1)):
        with pytest.raises(ConfigError, match=f"call {number} of the client 'one' was another one"):
            port.call("one", number, "select", {"n": n, "step": 0})
    assert port.curriculum.ledger.selected == 1
    port.close()


def test_errors_are_remembered_as_replies(folder):
    port = durable(folder)
    with pytest.raises(ExhaustedError, match="10 prompts were asked for and 9 of 9 are free"):
        ask(port, 1, "select", n=10, step=0)
    with pytest.raises(TicketError, match="never given out"):
        ask(port, 2, "drop", tickets=np.array([3]))
    abandon(port)
    port = durable(folder)
    with pytest.raises(TicketError, match="never given out"):
        ask(port, 2, "drop", tickets=np.array([3]))
    port.close()


def test_a_journal_as_long_as_the_snapshot_is_replaced_by_one(folder):
    port = durable(folder, snapshot_after=2_000)
    twin = Curriculum("prioritized-replay", SIZE, seed=4)
    for step in range(60):
        draw, expected = ask(port, step, "select", n=2, step=step), twin.select(2, step=step)
        np.testing.assert_array_equal(draw.prompts, expected.prompts)
        ask(port, step, "observe", "two", tickets=draw.tickets, rewards=rewards(draw.prompts))
        twin.observe(expected.tickets, rewards(expected.prompts))
        if step % 7 == 0:
            abandon(port)
            port = durable(folder, snapshot_after=2_000)
    names = sorted(path.name for path in folder.iterdir() if path.name != ".lock")
    assert len(names) == 2
    assert names[0].endswith(".journal")
    assert names[1].endswith(".snapshot.npz")
    assert int(names[0][:8]) == int(names[1][:8]) >= 1
    port.close()


def test_a_kill_between_snapshot_and_journal_loses_nothing(folder):
    port = durable(folder)
    draw = ask(port, 0, "select", n=2, step=0)
    old = (folder / "00000000.journal").read_bytes()
    port.snapshot()
    abandon(port)
    (folder / "00000000.journal").write_bytes(old)  # not removed yet
    (folder / "00000001.journal").unlink()  # not made yet
    port = durable(folder)
    np.testing.assert_array_equal(ask(port, 0, "select", n=2, step=0).prompts, draw.prompts)
    assert port.curriculum.ledger.selected == 2
    assert not (folder / "00000000.journal").exists()
    port.close()


def test_a_call_that_cannot_be_written_is_not_answered(folder):
    port = durable(folder)
    ask(port, 0, "select", n=2, step=0)
    file, port._journal._file = port._journal._file, FullDisk()
    with pytest.raises(OSError, match="No space"):
        ask(port, 1, "select", n=2, step=1)
    port._journal._file = file
    with pytest.raises(CheckpointError, match="ahead of it: open the folder anew"):
        ask(port, 1, "select", n=2, step=1)
    port.close()
    port = durable(folder)
    assert port.curriculum.ledger.selected == 2
    ask(port, 1, "select", n=2, step=1)
    port.close()


class FullDisk:
    def write(self, data):
        raise OSError(28, "No space left on device")

    def truncate(self, size):
        pass


def test_another_curriculum_is_refused_in_one_sentence(folder):
    port = durable(folder)
    ask(port, 0, "select", n=1, step=0)
    with pytest.raises(LockedError, match="in use by process"):
        durable(folder)
    abandon(port)
    for other in ({"selection": "uniform"}, {"size": SIZE + 1}):
        with pytest.raises(CheckpointError, match="of another data set or configuration"):
            durable(folder, **other)
    durable(folder).close()
    with pytest.raises(CheckpointError, match="of another"):
        durable(folder, selection="uniform")


def test_other_draws_than_those_that_were_made_are_noticed(folder, monkeypatch):
    port = durable(folder, "uniform")
    ask(port, 0, "select", n=3, step=0)
    abandon(port)
    plain = Curriculum.select
    monkeypatch.setattr(Curriculum, "select", lambda self, n, **given: plain(self, n - 1, **given))
    with pytest.raises(CheckpointError, match="call 0 of 'one' gives something else now"):
        durable(folder, "uniform")


class Judge:
    """A policy that answers another number each time, and fails once."""

    def __init__(self, fails_at=-1):
        self.asked, self.fails_at = 0, fails_at

    def answer(self, conversations, max_tokens):
        self.asked += 1
        if self.asked == self.fails_at:
            raise OSError("the server is gone")
        text = f"<answer>0.{self.asked % 25}</answer>"
        return [Reply(text, (1, 2), (3, self.asked)) for _ in conversations]

    def prompt(self, number):
        return f"What is {number} + {number}?"


def test_what_the_policy_answered_is_replayed_without_a_policy(folder):
    port = durable(folder, "metis:candidates=2")
    with pytest.raises(ConfigError, match="asks the policy"):
        ask(port, 0, "select", n=2, step=0)
    port.attach(Judge(fails_at=3))
    with_error = []
    for step in range(1, 6):
        try:
            draw = ask(port, step, "select", n=2, step=step)
        except RuntimeError as error:
            with_error.append(str(error))
            continue
        ask(port, step, "observe", "two", tickets=draw.tickets, rewards=rewards(draw.prompts))
    assert with_error == ["OSError: the server is gone"]
    before = port.curriculum.metrics()
    abandon(port)
    port = durable(folder, "metis:candidates=2")
    assert port.curriculum.metrics() == pytest.approx(before, nan_ok=True)
    with pytest.raises(ConfigError, match="no host has lent it"):
        ask(port, 9, "select", n=2, step=9)
    port.attach(Judge())
    assert len(ask(port, 10, "select", n=2, step=10)) == 2
    port.close()
    port = durable(folder, "metis:candidates=2")
    port.attach(Judge())
    assert len(ask(port, 11, "select", n=2, step=11)) == 2
    port.close()


def test_named_rewards_may_have_any_name(folder):
    port = durable(folder)
    draw = ask(port, 0, "select", n=2, step=0)
    given = {"tickets": draw.tickets, "rewards": rewards(draw.prompts), "named": {"a/b": np.zeros((2, 2))}}
    ask(port, 1, "observe", **given)
    abandon(port)
    port = durable(folder)
    assert port.curriculum.ledger.observed == 2
    port.close()


def test_a_journal_without_its_snapshot_is_refused(folder):
    port = durable(folder)
    play(port, range(4))
    port.snapshot()
    abandon(port)
    next(folder.glob("*.snapshot.npz")).unlink()
    with pytest.raises(CheckpointError, match="the snapshot from which it goes on is missing"):
        durable(folder)


@pytest.mark.parametrize(
    "record",
    [
        {"number": 1},
        {"asked": "text", "answers": {}, "client": "a", "number": 1, "check": 0},
        {"asked": np.frombuffer(encode({"name": "no such call", "given": {}}), np.uint8), "answers": {}},
        {"asked": np.frombuffer(encode({"name": "select", "given": 3}), np.uint8), "answers": []},
        {"asked": np.zeros(3, np.uint8), "answers": {}},
    ],
)
def test_a_forged_record_is_one_error_of_curro_s(folder, record):
    port = durable(folder)
    port._journal.append(encode(record))
    abandon(port)
    with pytest.raises(CheckpointError):
        durable(folder)


@pytest.mark.parametrize("changed", [{"client": 3}, {"number": np.array(2)}, {"number": "2"}], ids=str)
def test_a_forged_caller_is_damage(folder, changed):
    """It was found when the next snapshot could not be written."""
    port = durable(folder)
    ask(port, 1, "select", n=1, step=0)
    abandon(port)
    journal = Journal(folder / "00000000.journal")
    first, call = map(decode, journal.replay())
    journal.close()
    (folder / "00000000.journal").unlink()
    journal = Journal(folder / "00000000.journal")
    assert not list(journal.replay())
    for record in (first, call | changed):
        journal.append(encode(record))
    journal.close()
    with pytest.raises(CheckpointError, match="is damaged: what it has is no call"):
        durable(folder)


def test_replies_of_silent_clients_are_forgotten_beyond_a_number_of_bytes(monkeypatch):
    """40 bytes each where 100 are kept: the third reply forgets the first, and a large one all others."""
    monkeypatch.setattr("curro.durable.durable_curriculum.KEPT_BYTES", 100)
    replies = LatestReplies()
    for client in ("a", "b", "c", "b"):
        replies.keep(client, replies.has(client, 1) + 1, b"asked", b"x" * 40)
    restored = LatestReplies()
    restored.load_state_dict(replies.state_dict())
    for kept in (replies, restored):
        assert [client for client in "abc" if kept.has(client, 1)] == ["b", "c"]
        kept.keep("d", 1, b"asked", b"x" * 200)
        assert [client for client in "abcd" if kept.has(client, 1)] == ["d"]
        assert kept.repeated("d", 1, b"asked") == b"x" * 200


def test_a_checkpoint_of_other_rows_is_refused(folder, tmp_path):
    Curriculum("posterior", ["a", "b", "c"], seed=4).save(tmp_path / "checkpoint.npz")
    port = DurableCurriculum(Curriculum("posterior", ["c", "d", "a"], seed=4), folder)
    with pytest.raises(CheckpointError, match="--known RUN"):
        port.load(tmp_path / "checkpoint.npz")
    port.close()
