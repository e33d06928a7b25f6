"""Runs in processes of their own: what is said of one that ended."""

import multiprocessing as mp
import os
import signal

from curro.cli.side_by_side import TrainingRun


def ended(tmp_path, target, *arguments):
    run = TrainingRun("uniform seed 0", tmp_path / "run", [])
    run.process = mp.get_context("spawn").Process(target=target, args=arguments)
    run.process.start()
    run.process.join()
    return run


def kill_oneself():
    os.kill(os.getpid(), signal.SIGKILL)


def fail(log):
    with open(log, "w") as file:
        file.write("run folder run\nthe reward is NaN\n\n")
    raise SystemExit(2)


def test_a_run_that_was_killed(tmp_path):
    words = ended(tmp_path, kill_oneself).last_words()
    assert words == "uniform seed 0: killed by SIGKILL; the same command goes on with it"


def test_a_run_that_failed(tmp_path):
    words = ended(tmp_path, fail, str(tmp_path / "run.log")).last_words()
    assert words == f"uniform seed 0: the reward is NaN (see {tmp_path / 'run.log'})"
