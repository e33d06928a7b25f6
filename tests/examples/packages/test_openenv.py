"""An environment on a server of OpenEnv: games apart, failures as missing rewards, training in TRL."""

from __future__ import annotations

import runpy
import socket
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pydantic import ValidationError
from websockets.exceptions import ConnectionClosed

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))
import openenv_game
from openenv_game import RemoteGame, serving


def test_games_are_apart_and_a_server_that_dies_gives_missing_rewards():
    with serving() as url:
        first, second = RemoteGame(url), RemoteGame(url)
        first.reset(secret=2, top=5, prompt="a column of the row")
        second.reset(secret=0, top=5)
        assert [first.guess(1), second.guess(1), first.guess(2)] == ["higher", "lower", "right"]
        assert first.turn_rewards == pytest.approx([0.1, 1.1])
        assert (first.solved, second.solved) == (True, False)
        with pytest.raises(ValidationError):
            second.guess("high")
        assert second.get_reward() == pytest.approx(0.1)  # the model's mistake, not the server's
        second.reset(secret=3, top=5)
        assert second.get_reward() == 0
    with pytest.raises((OSError, ConnectionClosed)):
        second.guess(3)
    assert second.get_reward() is None
    assert second.guess(3) == "over"
    assert first.get_reward() == pytest.approx(1.2)
    second.reset(secret=3, top=5)
    assert second.get_reward() is None
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((urlsplit(url).hostname, urlsplit(url).port))


def test_trl_trains_on_a_servers_games(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "argv", ["openenv_game.py", "--max-steps", "1", "--output-dir", str(tmp_path)])
    runpy.run_path(openenv_game.__file__, run_name="__main__")
    printed = capsys.readouterr().out
    assert "'rewards/RemoteGame/mean': '0." in printed
    assert "'curriculum/table/unseen'" in printed
