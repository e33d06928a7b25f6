"""The command that serves the live page says what it follows, and refuses what holds no run."""

import os
from pathlib import Path

import pytest
from tests.in_process import run_command

from curro import Curriculum
from curro.contrib.watch.command import run_names
from curro.contrib.watch.server import WatchedRun, WatchServer
from curro.runs.folder import RunFolder


@pytest.fixture
def watch(tmp_path, monkeypatch):
    """Run `curro watch` until its page is served; what it said."""

    def interrupted(server):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "nice", lambda more: 0)
    monkeypatch.setattr(WatchServer, "serve_forever", interrupted)

    def run(*paths, port=0, status=0):
        return run_command("watch", *paths, "--port", str(port), folder=tmp_path, status=status)

    return run


def test_a_run_that_is_not_there_yet_is_named(watch, tmp_path):
    (tmp_path / "here").mkdir()
    said = watch("here", "misspelt")
    assert "there is no folder misspelt yet" in said
    assert "no folder here" not in said
    assert "watching 2 runs: http://127.0.0.1:" in said


@pytest.mark.parametrize("arguments", [("demo",), ("demo/a", "demo/a.log", "demo/b", "demo/report.html")])
def test_a_folder_of_runs_shows_its_runs_and_files_are_none(watch, arguments):
    for name in "ba":
        RunFolder.create(f"demo/{name}", {})
        Path(f"demo/{name}.log").write_text("done")
    Path("demo/report.html").write_text("")
    assert "watching 2 runs" in watch(*arguments)


def test_runs_are_told_apart_by_what_differs_in_their_paths(watch, monkeypatch):
    names = []
    monkeypatch.setattr(
        WatchServer, "serve_forever", lambda server: names.extend(run.name for run in server.runs)
    )
    for name in "ab":
        RunFolder.create(f"{name}/deep/run", {})
    watch(str(Path("a/deep/run").resolve()), "b/deep", "later")
    assert names == ["a/deep/run", "b/deep/run", "later"]
    assert run_names([Path()]) == [Path.cwd().name]


@pytest.mark.parametrize("path", ["other", "other/notes.txt"])
def test_what_holds_no_run_is_refused(watch, path):
    Path("other").mkdir()
    Path("other/notes.txt").write_text("")
    said = watch(path, status=2)
    assert "holds no run" in said or "only files were named" in said


def test_checkpoints_of_trl_are_watched_by_the_run_beside_them(watch):
    for step in (1, 2):
        saved = Path(f"out/checkpoint-{step}/curro")
        saved.mkdir(parents=True)
        Curriculum("uniform", 3).save(saved / "curriculum.npz")
    for path in ("out", "out/checkpoint-2"):
        said = watch(path, status=2)
        assert "holds no run" in said
    run = RunFolder.create("out/curro", {})
    run.append_metrics({"step": 2, "rollouts": 8, "signal_share": 0.5})
    for path in ("out", "out/checkpoint-2"):
        assert "watching 1 run:" in watch(path)


def test_a_port_that_is_taken(watch, tmp_path):
    server = WatchServer([WatchedRun(tmp_path, "a")])
    try:
        said = watch("here", port=server.port, status=2)
    finally:
        server.server_close()
    assert said.startswith(f"curro: the page cannot have port {server.port}: Address already in use; choose")
