"""A curriculum that is saved at the end of each step, and its run folder; killed and started again."""

from __future__ import annotations

import numpy as np
import pytest

from curro import Curriculum
from curro.contrib.serve.saved import SHIFT, STATE, SavedCurriculum
from curro.core.checkpoint import load_state, save_state
from curro.core.errors import CheckpointError, ConfigError, ExhaustedError, TicketError
from curro.runs.folder import RunFolder
from curro.runs.lock import LockedError


def opened(folder, *, seed=1, run=True, **options):
    curriculum = Curriculum("prioritized-replay", 20, seed=seed, **options)
    return SavedCurriculum(curriculum, folder / "live", run_folder=folder / "run" if run else None)


def kill(saved):
    """What the operating system does for a process that is killed: it lets go of the lock."""
    saved._opened.close()
    if saved._writer is not None:
        saved._writer._kept = None


def train(saved, step, rewards):
    """A step whose first prompt is dropped; returns the prompts that were trained on."""
    draw = saved.select(len(rewards) + 1, step)
    saved.drop(draw.tickets[:1])
    saved.observe(draw.tickets[1:], np.array(rewards, float))
    return draw.prompts[1:].tolist()


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
    verdict = saved.observe(both, np.array([[1, 1], [1, 0], [0, 0]]))
    assert verdict.admitted.tolist() == [False, True, True]
    with pytest.raises(TicketError):
        saved.observe(new.tickets, np.ones((2, 2)))
    with pytest.raises(LockedError):
        opened(tmp_path)
    saved.close()


@pytest.mark.parametrize("ends", [SavedCurriculum.close, kill])
def test_the_lines_after_a_restart_continue_those_before(tmp_path, ends):
    saved = opened(tmp_path)
    prompts = train(saved, 0, [[1, 0]])
    saved.select(1, 1)
    ends(saved)
    saved = opened(tmp_path)
    prompts += train(saved, 1, [[0, 1]])
    saved.close()
    run = RunFolder.open(tmp_path / "run")
    assert [row["prompt"] for row in run.groups()] == prompts
    assert [row["rollouts"] for row in run.metrics()] == [2, 4]
    assert not (tmp_path / "run" / "curro-1").exists()


def test_rewards_have_the_sizes_that_were_drawn(tmp_path):
    """A row ends in NaN where its last rollouts were not scored, and where its group is a smaller one."""
    saved, none = opened(tmp_path, allocation="knapsack"), np.nan
    draw = saved.select(3, 0, rollouts=12)
    assert draw.rollouts.tolist() == [4, 4, 4]
    rewards = np.array([[1, 0, none, none, none], [1, 0, 1, 0, 1], [none] * 5])
    saved.observe(draw.tickets, rewards)
    saved.close()
    run = RunFolder.open(tmp_path / "run")
    assert [row["rollouts"] for row in run.groups()] == [4, 5, 4]
    assert [row["rollouts"] for row in run.metrics()] == [13]


def test_a_checkpoint_that_is_loaded_takes_later_lines_back(tmp_path):
    saved = opened(tmp_path)
    kept = train(saved, 0, [[1, 0]])
    saved.save("one")
    for step in (1, 2):
        train(saved, step, [[1, 0]])
    saved.load("one")
    kept += train(saved, 1, [[0, 0]])
    saved.close()
    run = RunFolder.open(tmp_path / "run")
    assert [row["prompt"] for row in run.groups()] == kept
    assert [row["step"] for row in run.metrics()] == [1, 2]


def test_checkpoints_in_the_middle_of_a_step_have_a_line_for_each_group(tmp_path):
    """What is loaded has observed some of a step's groups, and has none of those that came after it."""
    saved = opened(tmp_path)
    observed = []
    for _ in range(3):
        draw = saved.select(4, 0)
        saved.observe(draw.tickets[:2], np.array([[1.0, 0.0], [0.0, 0.0]]))
        observed += (draw.tickets[:2] & ((1 << SHIFT) - 1)).tolist()
        saved.save("middle")
        saved.observe(draw.tickets[2:], np.array([[1.0, 0.0], [0.0, 0.0]]))
        saved.load("middle")
        assert [line["ticket"] for line in RunFolder(tmp_path / "run" / "curro").groups()] == observed
    assert saved.curriculum.ledger.observed == len(observed)
    saved.close()


def test_a_refused_draw_begins_no_step(tmp_path):
    saved = opened(tmp_path)
    draw = saved.select(4, 0)
    for step, refused, wanted in ((1, ExhaustedError, 17), (0, ConfigError, 0), (3, ConfigError, 1.5)):
        before = (tmp_path / "live" / STATE).read_bytes()
        with pytest.raises(refused):
            saved.select(wanted, step)
        assert (tmp_path / "live" / STATE).read_bytes() == before
    saved.observe(draw.tickets, np.array([[1.0, 0.0]] * 4))
    saved.close()
    assert {line["step"] for line in RunFolder(tmp_path / "run" / "curro").groups()} == {1}


def test_what_a_killed_writer_left_is_removed_and_another_curriculum_is_refused(tmp_path):
    opened(tmp_path, run=False).close()
    (tmp_path / "live" / f".{STATE}.99.part").write_bytes(b"half")
    with pytest.raises(CheckpointError):
        opened(tmp_path, seed=2, run=False)
    opened(tmp_path, run=False).close()
    assert {path.name for path in (tmp_path / "live").iterdir()} == {STATE, ".lock"}


@pytest.mark.parametrize("start", [-1, 1 << 30, 10**400, 0.5, "x", None])
def test_a_forged_number_of_starts_is_refused(tmp_path, start):
    """From 2**31 on, no ticket would have a number."""
    opened(tmp_path, run=False).close()
    path = tmp_path / "live" / STATE
    save_state(path, load_state(path) | {"start": start})
    with pytest.raises(CheckpointError, match="is not the state of a service"):
        opened(tmp_path, run=False)
