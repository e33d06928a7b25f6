"""The difficulty-filtering paper's pipeline, by the five commands of its small recipe."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from curro.cli import main
from curro.evaluation.estimate_folder import EstimateFolder
from curro.rollout.engines.models import load_model
from curro.runs.folder import RunFolder

RECIPE = Path(__file__).parents[2] / "recipes" / "small" / "difficulty_filtering.sh"


def test_the_whole_pipeline(tmp_path, monkeypatch, capsys):
    """The script says its commands with `echo` in place of curro; they run in this process, in that order."""
    sizes = {"PROMPTS": "40", "ROLLOUTS": "256", "PROBLEMS": "16"}
    said = subprocess.run(
        [str(RECIPE), "out"], env=os.environ | sizes | {"CURRO": "echo"}, capture_output=True
    )
    assert said.returncode == 0, said.stderr
    commands = [shlex.split(line) for line in said.stdout.decode().splitlines()]
    assert [command[0] for command in commands] == ["sft", "estimate", "curate", "train", "evaluate"]
    monkeypatch.chdir(tmp_path)
    for command in commands:
        monkeypatch.setattr(sys, "argv", ["curro", *command])
        with pytest.raises(SystemExit) as end:
            main()
        assert not end.value.code, capsys.readouterr()
    out = tmp_path / "out"
    start, trained = (load_model(str(out / name))[0] for name in ("sft", "run/model"))
    assert not all((a == b).all() for a, b in zip(start.parameters(), trained.parameters(), strict=True))
    scheduled = [json.loads(line) for line in (out / "scheduled.jsonl").read_text().splitlines()]
    rates = [row["pass_rate"] for row in scheduled]
    assert rates == sorted(rates, reverse=True)
    assert all(0.1 < rate < 0.9 for rate in rates)
    groups = RunFolder.open(out / "run").groups(["mean", "admitted"])
    assert any(group["admitted"] for group in groups)
    assert any(not group["admitted"] for group in groups)
    assert all(0.1 < group["mean"] < 0.9 for group in groups if group["admitted"])
    for name in ("sft", "run-model"):
        (folder,) = (out / "evaluation").glob(f"*{name}")
        assert len(EstimateFolder.open(folder).table()) == 16
    assert "Accuracy" in capsys.readouterr().out
    assert (out / "evaluation" / "evaluation.html").is_file()
