"""A curriculum that is saved at the end of each step; killed and started again."""

from __future__ import annotations

import numpy as np
import pytest

from curro import Curriculum
from curro.contrib.serve.saved import SHIFT, STATE, SavedCurriculum
from curro.core.checkpoint import load_state, save_state
from curro.core.errors import CheckpointError, ConfigError, CurroError, ExhaustedError, TicketError
from curro.runs.lock import LockedError


def opened(folder, *, seed=1):
    return SavedCurriculum(Curriculum("prioritized-replay", 20, seed=seed), folder / "live")


def kill(saved):
    """What the operating system does for a process that is killed: it lets go of the lock."""
    saved._opened.close()


def test_groups_of_an_earlier_start_teach_nothing(tmp_path):
    saved = opened(tmp_path)
    old = saved.select(3, 0)
    kill(saved)
    saved = opened(tmp_path)
    before = saved.curriculum.metrics()
    verdict = saved.observe(old.tickets, np.ones((3, 4)), named={"math": np.ones((3, 4))})
    assert not verdict.admitted.any()
    assert verdict.dropped.all()
    assert verdict.advantages.shape == (3, 4)
    saved.drop(old.tickets)
    assert saved.curriculum.metrics() == pytest.approx(before, nan_ok=True)
    new = saved.select(2, 0)
    assert new.tickets.tolist() == [1 << SHIFT, (1 << SHIFT) + 1]
    both = np.concatenate([old.tickets[:1], new.tickets])
    with pytest.raises(CurroError):
        saved.observe(both, np.ones((4, 2)))
    verdict = saved.observe(both, np.array([[1, 1], [1, 0], [0, 0]]))
    assert verdict.admitted.tolist() == [False, True, True]
    with pytest.raises(TicketError):
        saved.observe(new.tickets, np.ones((2, 2)))
    with pytest.raises(LockedError):
        opened(tmp_path)
    saved.close()


def test_a_start_goes_on_from_the_last_complete_step(tmp_path):
    saved = opened(tmp_path)
    drawn = saved.select(2, 0)
    saved.observe(drawn.tickets, np.array([[1.0, 0.0], [0.0, 0.0]]))
    saved.select(3, 1)
    kill(saved)
    saved = opened(tmp_path)
    ledger = saved.curriculum.ledger
    assert (saved.curriculum.step, ledger.selected, ledger.observed, ledger.dropped) == (0, 2, 2, 0)
    saved.close()


def test_a_refused_draw_begins_no_step(tmp_path):
    saved = opened(tmp_path)
    saved.select(4, 0)
    for step, refused, wanted in ((1, ExhaustedError, 17), (0, ConfigError, 0), (3, ConfigError, 1.5)):
        before = (tmp_path / "live" / STATE).read_bytes()
        with pytest.raises(refused):
            saved.select(wanted, step)
        assert (tmp_path / "live" / STATE).read_bytes() == before
    saved.close()


def test_what_a_killed_writer_left_is_removed_and_another_curriculum_is_refused(tmp_path):
    opened(tmp_path).close()
    (tmp_path / "live" / f".{STATE}.4194303.part").write_bytes(b"half")
    with pytest.raises(CheckpointError):
        opened(tmp_path, seed=2)
    opened(tmp_path).close()
    assert {path.name for path in (tmp_path / "live").iterdir()} == {STATE, ".lock"}


@pytest.mark.parametrize("start", [-1, 1 << 30, 10**400, 0.5, "x", None])
def test_a_forged_number_of_starts_is_refused(tmp_path, start):
    """From 2**31 on, no ticket would have a number."""
    opened(tmp_path).close()
    path = tmp_path / "live" / STATE
    save_state(path, load_state(path) | {"start": start})
    with pytest.raises(CheckpointError, match="is not the state of a service"):
        opened(tmp_path)


def test_a_load_whose_start_cannot_be_written_changes_nothing(tmp_path, monkeypatch):
    def full(path, state):
        raise OSError("the disk is full")

    saved = opened(tmp_path)
    saved.save("kept")
    drawn = saved.select(2, 0)
    with monkeypatch.context() as patches:
        patches.setattr("curro.core.checkpoint.save_state", full)
        with pytest.raises(OSError, match="full"):
            saved.load("kept")
    assert load_state(tmp_path / "live" / STATE)["start"] == saved.start == 0
    saved.observe(drawn.tickets, np.array([[1.0, 0.0], [0.0, 0.0]]))
    saved.load("kept")
    assert (saved.select(2, 0).tickets >> SHIFT).tolist() == [1, 1]
    saved.close()
