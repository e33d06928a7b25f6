"""`inspect_run`: what it prints, what it exports, and that keys are no markup."""

import io

import pandas as pd
import pytest
from rich.console import Console

from curro.errors import ConfigError, RunError
from curro.report import inspect_run
from curro.runs.folder import RunFolder


def printed(run, n=5, out=None, width=120):
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    inspect_run(run, n, console, out)
    return console.file.getvalue()


@pytest.mark.parametrize("name", ["published", "default", "uniform"])
def test_it_prints_columns_rows_and_rankings(runs, name):
    text = printed(runs[name][0].path)
    for title in ("600 prompts", "The first 5 prompts", "Hardest", "Most informative", "Regressed"):
        assert title in text
    assert "reward_variance" in text
    assert "rollouts an admitted group" in text
    assert "train-0004" in text.replace("\n", "")


def test_keys_are_no_markup_and_move_no_cursor(simulated_run, tmp_path):
    run = simulated_run(tmp_path / "run", "uniform", steps=3, prompts=60, hostile=True)
    text = printed(run, width=300)
    assert '</td><script>alert("x")</script>' in text
    assert "\x1b" not in text
    assert "\u202e" not in text


@pytest.mark.parametrize(("name", "read"), [("t.csv", pd.read_csv), ("t.parquet", pd.read_parquet)])
def test_it_exports_the_whole_table(runs, tmp_path, name, read):
    text = printed(runs["default"][0], out=tmp_path / name)
    assert text.startswith("600 prompts written to")
    frame = read(tmp_path / name)
    assert len(frame) == 600
    assert frame["key"][3] == "train-0003"
    assert frame["visits"].sum() == 120 * 16


def test_wrong_input_is_said(runs, tmp_path):
    with pytest.raises(ConfigError, match=r"t\.txt is neither \.csv nor \.parquet"):
        printed(runs["default"][0], out=tmp_path / "t.txt")
    with pytest.raises(ConfigError, match="there is no folder"):
        printed(runs["default"][0], out=tmp_path / "no" / "t.csv")
    with pytest.raises(ConfigError, match="at least 1, not 0"):
        printed(runs["default"][0], n=0)
    with pytest.raises(RunError, match="no prompt table yet"):
        printed(RunFolder.create(tmp_path / "new", {}))
