"""Fixtures that the tests of several folders share."""

from __future__ import annotations

import functools
import gc
import importlib.metadata
import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, settings

# how long an example takes depends on what else the machine does; new examples, of which one may fail, are
# tried by benchmarks/reliability/suite.py, not whenever something else is to land
settings.register_profile(
    "known", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.register_profile("new", settings.get_profile("known"), derandomize=False, print_blob=True)
settings.load_profile("known")

_number = itertools.count()


def pytest_configure(config: pytest.Config) -> None:
    """Tests run in random order, and none finds the global generators as it would always be: by default
    pytest-randomly seeds them before each test, which would hide that one depends on them."""
    if config.pluginmanager.hasplugin("randomly"):
        config.option.randomly_reset_seed = False


def pytest_collection_finish() -> None:
    """Leave what was imported for the tests out of the search for garbage, and read metadata once.

    Every training run asks for that search, and among so many objects it takes a third of a second;
    accelerate reads a package's metadata several times a step.
    """
    importlib.metadata.metadata = functools.cache(importlib.metadata.metadata)
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def made_once(tmp_path_factory) -> Callable[[str, Callable[[Path], object]], Path]:
    """Makes a folder of a name once for all workers of the test run, by calling a function with it."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def make(name: str, fill: Callable[[Path], object]) -> Path:
        folder, done = shared / name, shared / f"{name}.done"
        with FileLock(shared / f"{name}.lock"):
            if not done.exists():
                folder.mkdir()
                fill(folder)
                done.touch()
        return folder

    return make


INTERRUPTING = """
import importlib, os, signal, time

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what runs in its background without
calls, first = 0, int(os.environ.setdefault("INTERRUPTED", str(os.getpid())))

def interrupt():
    "Ctrl-C for the command, which passes it on to a run of its: wait for it, as a person does not."
    before, came = signal.getsignal(signal.SIGINT), []

    def handler(*arguments):
        came.append(arguments)
        signal.signal(signal.SIGINT, before)
        before(*arguments)

    signal.signal(signal.SIGINT, handler)
    os.kill(first, signal.SIGINT)
    while not came:
        time.sleep(0.01)

def counted(*arguments, **named):
    global calls
    plain(*arguments, **named)
    calls += 1
    if calls == CALLS:
        interrupt()

writer = getattr(importlib.import_module("MODULE"), "WRITER")
plain = writer.METHOD
writer.METHOD = counted
"""


@pytest.fixture(scope="session")
def interrupting(tmp_path_factory) -> Callable[[str, int], dict[str, str]]:
    """The environment of a command that gets a Ctrl-C after a call of `module:Writer.method`, by its number.

    A test that waited for a file to grow and then sent the signal would now and then come after the end.
    """

    def environment(method: str, calls: int) -> dict[str, str]:
        folder = tmp_path_factory.mktemp("interrupting")
        module, _, place = method.partition(":")
        text = INTERRUPTING.replace("MODULE", module).replace("CALLS", str(calls))
        writer, _, name = place.partition(".")
        (folder / "sitecustomize.py").write_text(text.replace("WRITER", writer).replace("METHOD", name))
        path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
        return os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}

    return environment


@pytest.fixture
def hangs_end_by_themselves(tmp_path, monkeypatch):
    """What a worker has a limit for takes too long as soon as it hangs, whatever the clock says.

    What hangs first makes a file named as its process in the folder `HANGS`; a start has no limit.
    """
    from curro.reward.workers.pool import _Worker

    plain, folder = _Worker._reply, tmp_path / "hangs"
    folder.mkdir()
    monkeypatch.setenv("HANGS", str(folder))

    def reply(worker, seconds):
        hangs = folder / str(worker._process.pid)
        if seconds is None:
            line = plain(worker, None)
            hangs.unlink(missing_ok=True)
            return line
        while (line := plain(worker, 0.01)) is None and not hangs.exists():
            pass
        return line

    monkeypatch.setattr(_Worker, "_reply", reply)


@pytest.fixture
def no_pictures(monkeypatch):
    """Runs without pictures: drawing the report takes longer than training a few steps."""
    from curro.runs import report

    def write(folder, out=None):
        (folder.path / "report.html").write_text("")

    monkeypatch.setattr(report, "write_report", write, raising=False)


@pytest.fixture
def user_module(tmp_path, monkeypatch):
    """Writes a module with a name of its own into a working directory of its own; returns the name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(text: str) -> str:
        name = f"user_module_{next(_number)}"
        (tmp_path / f"{name}.py").write_text(text)
        return name

    return write
