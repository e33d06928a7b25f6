"""The command that serves the live page says what it follows."""

import os

from curro.watch.server import WatchServer


def test_a_run_that_is_not_there_yet_is_named(curro, tmp_path, monkeypatch):
    def interrupted(server):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "nice", lambda more: 0)
    monkeypatch.setattr(WatchServer, "serve_forever", interrupted)
    (tmp_path / "here").mkdir()
    said = curro("watch", "here", "misspelt", "--port", "0")
    assert "there is no folder misspelt yet" in said
    assert "no folder here" not in said
    assert "watching 2 runs: http://127.0.0.1:" in said
