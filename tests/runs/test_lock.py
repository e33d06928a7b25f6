"""One process at a time: the second is told who the first is, and a dead one's lock is free."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys

import pytest

from curro.runs.lock import LockedError, keep_out_others, only_process

HOLDER = r"""
import os, sys, time
from pathlib import Path
from curro.runs.lock import only_process

with only_process(Path(sys.argv[1])):
    if sys.argv[2] == "fork" and os.fork() == 0:
        os.write(1, f"child {os.getpid()}\n".encode())
        time.sleep(3600)
        os._exit(0)
    os.write(1, b"held\n")
    time.sleep(3600)
"""


def holder(folder, how="alone"):
    """A process that holds the lock. It writes each line with one call, so that a child's line and its
    own never mix, also where PYTHONUNBUFFERED makes `print` write word by word."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder), how], stdout=subprocess.PIPE, text=True
    )


def test_who_holds_the_lock_removes_what_ended_processes_left_half_written(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True
    )
    (tmp_path / "best").mkdir()
    left = [tmp_path / f".a.json.{ended.stdout.strip()}.part", tmp_path / "best" / ".b.4194303.part"]
    stay = [tmp_path / f".a.json.{os.getpid()}.part", tmp_path / ".part", tmp_path / ".notes.x.part"]
    for path in (*left, *stay):
        path.write_text("")
    with only_process(tmp_path):
        assert [path.exists() for path in left] == [False, False]
        assert all(path.exists() for path in stay)


def test_the_second_process_is_told_of_the_first(tmp_path):
    first = holder(tmp_path)
    assert first.stdout.readline() == "held\n"
    expected = f"{tmp_path} is in use by process {first.pid} on {socket.gethostname()}: wait until it ends"
    with pytest.raises(LockedError, match=expected), only_process(tmp_path):
        pass
    first.send_signal(signal.SIGKILL)
    first.communicate()
    with only_process(tmp_path):
        assert (tmp_path / ".lock").read_text() == f"process {os.getpid()} on {socket.gethostname()}"
    assert (tmp_path / ".lock").read_text() == ""


def test_a_child_does_not_keep_the_lock_of_its_dead_parent(tmp_path):
    first = holder(tmp_path, "fork")
    said = sorted(first.stdout.readline() for _ in range(2))
    first.send_signal(signal.SIGKILL)
    first.wait()
    with only_process(tmp_path):
        pass
    os.kill(int(said[0].removeprefix("child ")), signal.SIGKILL)
    first.stdout.close()


def test_the_lock_is_free_after_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError), only_process(tmp_path):
        _ = 1 / 0
    with only_process(tmp_path):
        pass


def test_writers_of_one_process_share_a_kept_folder(tmp_path):
    (tmp_path / "run").mkdir()
    kept = keep_out_others(tmp_path / "run")
    again = keep_out_others(tmp_path / "run")
    del kept
    gc.collect()
    (tmp_path / "run").rename(tmp_path / "renamed")
    with pytest.raises(LockedError), only_process(tmp_path / "renamed"):
        pass
    assert keep_out_others(tmp_path / "renamed") is again
    del again
    gc.collect()
    with only_process(tmp_path / "renamed"):
        pass
