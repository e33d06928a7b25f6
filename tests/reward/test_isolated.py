"""The processes that checks run in: limits, crashes, mistakes, and no way back but a number."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from curro.errors import RewardError
from curro.reward import isolated
from curro.reward.isolated import UNCHECKED, Pool

CHECK = """
    import os, sys, time
    from curro.reward.isolated import RefusedError

    def check(job):
        if job == "refuse":
            raise RefusedError("not this one")
        while job == "loop":
            pass
        if job == "swallow":
            while True:
                try:
                    sum(range(10**6))
                except:
                    pass
        if job == "loop in C":
            sum(range(10**12))
        if job == "eat":
            import mmap
            return len(mmap.mmap(-1, 6 << 30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0))
        if job == "recurse":
            return check(job)
        if job.startswith("pid"):
            return os.getpid()
        if job == "sleep":
            time.sleep(60)
        if job == "random":
            import random
            return random.random()
        if job in ("nan", "inf"):
            return float(job)
        print("noise", ascii(job))
        os.write(1, b"more noise")
        if job.endswith(";"):
            exec(job)
        return float(len(job))
"""


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checks")
    (folder / "sample_check.py").write_text(textwrap.dedent(CHECK))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        pool = Pool("sample_check", 2)
        yield pool
        pool.close()


def test_results_come_in_the_order_of_jobs_whatever_the_checks_print(pool):
    jobs = ["x" * n for n in range(50)]
    assert pool.map(jobs) == [float(n) for n in range(50)]
    assert pool.map([]) == []


def test_text_crosses_as_it_is(pool):
    assert pool.map(["\ud800\0\n\u2028é"]) == [5.0]


@pytest.mark.parametrize("job", ["eat", "recurse", "1/0;", "os._exit(0);", "sys.exit();", "nan", "inf"])
def test_a_check_that_breaks_gives_none_and_the_next_one_is_served(pool, job):
    assert pool.map(["ab", job, "abc"]) == [2.0, None, 3.0]


def test_a_check_that_does_not_end_is_interrupted(pool, monkeypatch):
    monkeypatch.setattr(isolated, "CHECK_SECONDS", 600.0)  # the processor's time ends it, however busy
    [pid] = pool.map(["pid before"])
    assert pool.map(["loop"]) == [None]
    assert pool.map(["pid after"]) == [pid]


def test_a_check_that_cannot_be_interrupted_is_ended(pool):
    assert pool.map(["swallow", "loop in C", "abc"]) == [None, None, 3.0]


def test_a_worker_killed_between_jobs_is_started_again(pool):
    [pid] = pool.map(["pid of the killed"])
    os.kill(int(pid), signal.SIGKILL)
    os.waitid(os.P_PID, int(pid), os.WEXITED | os.WNOWAIT)
    assert pool.map(["six"]) == [3.0]


def test_a_job_that_came_before_is_not_done_again(pool):
    assert pool.map(["pid x"]) == pool.map(["pid x"])
    pool.close()
    [known], [new] = pool.map(["pid x"]), pool.map(["pid y"])
    assert known != new


def test_a_check_that_only_waits_is_ended_by_the_clock(pool, monkeypatch):
    monkeypatch.setattr(isolated, "CHECK_SECONDS", 0.5)
    started = time.monotonic()
    assert pool.map(["sleep"] * 3) == [None] * 3
    assert time.monotonic() - started < 30


def test_jobs_that_a_batch_has_no_time_for_are_neither_right_nor_wrong(pool):
    assert pool.map(["late 1", "late 2"], seconds=-1) == [UNCHECKED] * 2
    assert pool.map(["late 1"]) == [6.0]


def test_ctrl_c_is_left_to_the_trainer(pool):
    [pid] = pool.map(["pid of the interrupted"])
    os.kill(int(pid), signal.SIGINT)
    assert pool.map(["pid of the same"]) == [pid]


def test_what_the_user_got_wrong_is_an_error(pool):
    with pytest.raises(RewardError, match=r"^not this one$"):
        pool.map(["a", "refuse", "a"])
    with pytest.raises(
        RewardError, match=r"^no_such_check cannot run: No module named 'no_such_check'; pip install"
    ):
        Pool("no_such_check", 1).map(["a"])


def test_the_working_directory_lends_no_modules(pool, tmp_path, monkeypatch):
    (tmp_path / "random.py").write_text("raise RuntimeError('the wrong random')")
    monkeypatch.chdir(tmp_path)
    pool.close()
    [number] = pool.map(["random"])
    assert 0 <= number < 1


PROCESS = """
    from curro.reward import resolve_reward
    resolve_reward("math").score(["\\\\boxed{0.5}"], [{"answer": "1/2"}])
    print("scored", flush=True)
"""


# a worker holds its parent's standard error, which therefore ends only once both have


def test_no_worker_outlives_its_process_and_python_has_nothing_to_warn_of():
    command = [sys.executable, "-X", "dev", "-W", "error::ResourceWarning", "-c", textwrap.dedent(PROCESS)]
    done = subprocess.run(command, text=True, capture_output=True, timeout=60)
    assert (done.stdout, done.stderr) == ("scored\n", "")


def test_no_worker_outlives_a_process_that_is_killed():
    command = [sys.executable, "-c", textwrap.dedent(PROCESS) + "import signal; signal.pause()"]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == "scored\n"
        process.kill()
        assert process.communicate(timeout=60) == ("", "")
