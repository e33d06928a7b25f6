"""A disk that is full or cannot be written, a clock that goes back, checkpoints that cannot be read.

One sentence each, and what was saved before stays; `benchmarks/reliability/full_disk.py` fills a real disk.
"""

from __future__ import annotations

import errno
import importlib
import os
import shutil
import signal

import pytest
from safetensors import SafetensorError

from curro import Curriculum, CurroError
from curro.core.errors import CheckpointError
from curro.runs.folder import RunFolder
from curro.training.plan import plan
from curro.training.run import train
from curro.training.settings import TrainSettings

FULL = OSError(errno.ENOSPC, "No space left on device")


def settings():
    """Four steps of two prompts, a checkpoint after each second one."""
    return TrainSettings(
        "lab:chains", limit=20, prompts_per_step=2, rollouts=64, eval_prompts=2, eval_every=0, save_every=2
    )


def trained(path):
    folder = RunFolder.create(path, {"settings": settings().as_dict()})
    assert train(plan(settings()), folder)
    return folder


def of(folder):
    """What a run has made, for comparison with another."""
    numbers = [
        {name: line[name] for name in ("step", "rollouts", "reward") if name in line}
        for line in folder.metrics()
    ]
    return repr(numbers), folder.groups(), (folder.model / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run without mishap."""
    return of(trained(tmp_path_factory.mktemp("whole") / "run"))


def fails_from(monkeypatch, owner, name, call, error):
    """Patch a function to raise from its so many-th call on, as a disk that has become full does."""
    before, calls = getattr(owner, name), []

    def patched(*args, **kwargs):
        calls.append(1)
        if len(calls) >= call:
            raise error
        return before(*args, **kwargs)

    monkeypatch.setattr(owner, name, patched)


@pytest.mark.parametrize(
    ("place", "call", "error"),
    [
        ("curro.runs.folder.append_rows", 6, FULL),  # the groups of the third step
        ("pyarrow.parquet.write_table", 3, FULL),  # the first are the rows and a checkpoint's table
        ("transformers.modeling_utils.safe_save_file", 2, SafetensorError("No space left on device")),
        ("torch.save", 6, RuntimeError("PytorchStreamWriter failed writing file\n and more")),
        ("curro.core.curriculum.Curriculum.save", 2, FULL),
    ],
    ids=lambda value: value.rpartition(".")[2] if isinstance(value, str) else "",
)
def test_a_full_disk_loses_nothing_that_was_saved(tmp_path, monkeypatch, whole, place, call, error):
    owner, _, name = place.rpartition(".")
    owner = Curriculum if owner.endswith(".Curriculum") else importlib.import_module(owner)
    folder = RunFolder.create(tmp_path / "run", {"settings": settings().as_dict()})
    with monkeypatch.context() as patch:
        fails_from(patch, owner, name, call, error)
        with pytest.raises((CurroError, OSError)) as stop:
            train(plan(settings()), folder)
        assert "\n" not in str(stop.value)
    assert train(plan(settings()), RunFolder.open(folder.path), resume=True)
    assert of(folder) == whole


def test_a_clock_that_goes_back_changes_nothing(tmp_path, monkeypatch, whole):
    """Training steps are the only time that curro decides by; seconds are for people to read."""
    hours = iter(range(10**6, 0, -1))
    for name in ("time", "perf_counter"):
        monkeypatch.setattr(f"time.{name}", lambda: 3600.0 * next(hours))
    assert of(trained(tmp_path / "run")) == whole


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    """The folder of a run that was interrupted in its third step."""

    def interrupt(line):
        if line["step"] == 3:
            os.kill(os.getpid(), signal.SIGINT)

    path = tmp_path_factory.mktemp("interrupted") / "run"
    folder = RunFolder.create(path, {"settings": settings().as_dict()})
    assert not train(plan(settings()), folder, on_step=interrupt)
    return path


@pytest.mark.parametrize(
    "name", ["optimizer.pt", "scheduler.pt", "rng_state.pth", "model.safetensors", "trainer_state.json"]
)
def test_a_checkpoint_that_cannot_be_read_is_named(tmp_path, interrupted, name):

    shutil.copytree(interrupted, tmp_path / "run")
    folder = RunFolder.open(tmp_path / "run")
    last = folder.checkpoints / "checkpoint-3"
    (last / name).write_bytes(b"damaged")
    with pytest.raises(CheckpointError, match=r"checkpoint-3 cannot be read .*remove that folder") as stop:
        train(plan(settings()), folder, resume=True)
    assert "\n" not in str(stop.value)
