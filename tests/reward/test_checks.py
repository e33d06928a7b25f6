"""The processes that checks run in: limits, crashes, mistakes, and no way back but a number."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace

import pytest

from curro.core.errors import RewardError
from curro.reward.checks import CHECK_LIMITS, Checks

CHECK = """
    import os, sys, time
    from curro.core.errors import RewardError

    def check(job):
        if job == "refuse":
            raise RewardError("not this one")
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
            time.sleep(3600)
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
def make(tmp_path_factory):
    """Checks of the sample in two workers, with limits of the caller's."""
    folder = tmp_path_factory.mktemp("checks")
    (folder / "sample_check.py").write_text(textwrap.dedent(CHECK))
    made = []

    def make(**limits):
        wanted = {"workers": 2, "seconds": 600.0, "cpu_seconds": 0.5, **limits}
        made.append(Checks("sample_check", replace(CHECK_LIMITS, **wanted)))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        yield make
        for checks in made:
            checks.close()


@pytest.fixture(scope="module")
def checks(make):
    return make()


def test_results_come_in_the_order_of_jobs_whatever_the_checks_print(checks):
    jobs = ["x" * n for n in range(50)]
    assert checks.scores(jobs) == [float(n) for n in range(50)]
    assert checks.scores([]) == []


def test_text_crosses_as_it_is(checks):
    assert checks.scores(["\ud800\0\n\u2028é"]) == [5.0]


@pytest.mark.parametrize("job", ["eat", "recurse", "1/0;", "os._exit(0);", "sys.exit();", "nan", "inf"])
def test_a_check_that_breaks_gives_zero_and_the_next_one_is_served(checks, job):
    assert checks.scores(["ab", job, "abc"]) == [2.0, 0.0, 3.0]


def test_a_check_that_does_not_end_is_interrupted(make):
    checks = make(seconds=600.0)  # the processor's time ends it, however busy
    [pid] = checks.scores(["pid before"])
    assert checks.scores(["loop"]) == [0.0]
    assert checks.scores(["pid after"]) == [pid]


def test_a_check_that_cannot_be_interrupted_is_ended(checks):
    assert checks.scores(["swallow", "loop in C", "abc"], seconds=600.0) == [0.0, 0.0, 3.0]


def test_a_worker_killed_between_jobs_is_started_again(checks):
    [pid] = checks.scores(["pid of the killed"])
    assert pid > 1
    os.kill(int(pid), signal.SIGKILL)
    os.waitid(os.P_PID, int(pid), os.WEXITED | os.WNOWAIT)
    assert checks.scores(["six"]) == [3.0]


def test_equal_jobs_of_a_batch_are_done_once_and_those_after_a_close_elsewhere(checks):
    [pid, same] = checks.scores(["random", "random"])
    assert pid == same
    [before] = checks.scores(["pid x"])
    checks.close()
    assert checks.scores(["pid x"]) != [before]


NOT_CHECKED = r"^{} answers were not checked in time, .*: such completions are not scored$"


def test_a_check_that_only_waits_is_ended_by_the_clock_and_says_nothing_of_the_answer(make):
    checks, started = make(seconds=0.5), time.monotonic()
    with pytest.warns(RuntimeWarning, match=NOT_CHECKED.format("1 of 1")):
        assert checks.scores(["sleep", "sleep", "sleep"]) == [None] * 3
    assert time.monotonic() - started < 600


def test_a_check_whose_process_somebody_killed_is_done_again(make, tmp_path):
    checks, begun = make(workers=1, seconds=600.0), tmp_path / "begun"
    [pid] = checks.scores(["pid of the killed one"])
    assert pid > 1
    job = f"os.path.exists({str(begun)!r}) or (open({str(begun)!r}, 'w'), time.sleep(3600));"

    def kill() -> None:
        while not begun.exists():
            time.sleep(0.01)
        os.kill(int(pid), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.warns(RuntimeWarning, match=NOT_CHECKED.format("1 of 1")):
        assert checks.scores([job]) == [None]
    killer.join()
    assert checks.scores([job]) == [float(len(job))]


def test_jobs_that_a_batch_has_no_time_for_are_neither_right_nor_wrong(make):
    checks = make()
    with pytest.warns(RuntimeWarning, match=NOT_CHECKED.format("2 of 2")):
        assert checks.scores(["late 1", "late 2"], seconds=-1) == [None] * 2
    assert checks.scores(["late 1"]) == [6.0]


def test_ctrl_c_is_left_to_the_trainer(checks):
    [pid] = checks.scores(["pid of the interrupted"])
    assert pid > 1
    os.kill(int(pid), signal.SIGINT)
    assert checks.scores(["pid of the same"]) == [pid]


def test_what_the_user_got_wrong_is_an_error(checks):
    with pytest.raises(RewardError, match=r"^not this one$"):
        checks.scores(["a", "refuse", "a"])
    with pytest.raises(
        RewardError, match=r"^no_such_check cannot run: No module named 'no_such_check': install"
    ):
        Checks("no_such_check").scores(["a"])


def test_the_working_directory_lends_no_modules(checks, tmp_path, monkeypatch):
    (tmp_path / "random.py").write_text("raise RuntimeError('the wrong random')")
    monkeypatch.chdir(tmp_path)
    checks.close()
    [number] = checks.scores(["random"])
    assert 0 <= number < 1


FORKED = """
    import os, sys, warnings
    from dataclasses import replace
    from curro.reward.checks import CHECK_LIMITS, Checks

    warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
    checks = Checks("sample_check", replace(CHECK_LIMITS, workers=1))
    [before] = checks.scores(["pid before"])
    reader, writer = os.pipe()
    forked = os.fork()
    if forked == 0:
        os.write(writer, b"%d" % checks.scores(["pid in the forked one"])[0])
        sys.exit()
    os.waitpid(forked, 0)
    [after] = checks.scores(["pid after"])
    print(before == after, before == int(os.read(reader, 100)))
"""


def test_a_process_that_is_forked_has_workers_of_its_own(make):
    """With those of its parent each would read scores of the other's answers, and it would end them."""
    command = [sys.executable, "-X", "dev", "-c", textwrap.dedent(FORKED)]
    done = subprocess.run(command, text=True, capture_output=True, timeout=900)
    assert (done.stdout, done.stderr) == ("True False\n", "")


PROCESS = """
    from curro.reward import resolve_reward
    resolve_reward("math").score(["\\\\boxed{0.5}"], [{"answer": "1/2"}])
    print("scored", flush=True)
"""


# a worker holds its parent's standard error, which therefore ends only once both have


def test_no_worker_outlives_its_process_and_python_has_nothing_to_warn_of():
    command = [sys.executable, "-X", "dev", "-W", "error::ResourceWarning", "-c", textwrap.dedent(PROCESS)]
    done = subprocess.run(command, text=True, capture_output=True, timeout=900)
    assert (done.stdout, done.stderr) == ("scored\n", "")


def test_no_worker_outlives_a_process_that_is_killed():
    command = [sys.executable, "-c", textwrap.dedent(PROCESS) + "import signal; signal.pause()"]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == "scored\n"
        process.kill()
        assert process.communicate(timeout=900) == ("", "")
