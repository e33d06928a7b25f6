"""The difficulty-filtering paper's pipeline, by the commands of its small recipe."""

from __future__ import annotations

import json
import os
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from curro.cli import main
from curro.rollout.engines.models import load_model
from curro.runs.estimate_folder import EstimateFolder
from curro.runs.folder import RunFolder

RECIPE = Path(__file__).parents[2] / "recipes" / "small" / "difficulty_filtering.sh"


@pytest.mark.usefixtures("no_pictures")
def test_the_whole_pipeline(tmp_path, monkeypatch, capsys):
    """The script says its commands with `echo` in place of curro; they run in this process, in that order."""
    sizes = {"PROMPTS": "40", "ROLLOUTS": "128", "PROBLEMS": "4"}
    environment = os.environ | sizes | {"CURRO": "echo", "PYTHON": "echo python"}
    said = subprocess.run([str(RECIPE), "out"], env=environment, capture_output=True)
    assert said.returncode == 0, said.stderr
    commands = [shlex.split(line) for line in said.stdout.decode().splitlines()]
    runs = ["online", "plain", "curated", "curated-external", "scheduled"]
    names = ["python", *["estimate"] * 2, *["curate"] * 3, *["train"] * len(runs), "evaluate"]
    assert [command[0] for command in commands] == names
    monkeypatch.chdir(tmp_path)
    (_, script, *arguments), *commands = commands
    monkeypatch.setattr(sys, "argv", [script, *arguments])
    runpy.run_path(script)
    for command in commands:
        monkeypatch.setattr(sys, "argv", ["curro", *command])
        with pytest.raises(SystemExit) as end:
            main()
        assert not end.value.code, capsys.readouterr()
    out = tmp_path / "out"
    start = load_model(str(out / "sft"))[0]
    for run in runs:
        trained = load_model(str(out / run / "model"))[0]
        assert not all((a == b).all() for a, b in zip(start.parameters(), trained.parameters(), strict=True))
    files = {name: read_lines(out / f"{name}.jsonl") for name in ("curated", "external", "scheduled")}
    assert all(0.1 < row["pass_rate"] < 0.9 for rows in files.values() for row in rows)
    rates = [row["pass_rate"] for row in files["scheduled"]]
    assert rates == sorted(rates, reverse=True)
    keys = {name: [row["key"] for row in rows] for name, rows in files.items()}
    assert sorted(keys["scheduled"]) == sorted(keys["curated"])
    models = [EstimateFolder.open(out / name).settings["model"] for name in ("initial", "external")]
    assert models == ["out/sft", "lab:chains"]
    for run, file in (("curated", "curated"), ("curated-external", "external"), ("scheduled", "scheduled")):
        groups = RunFolder.open(out / run).groups(["key", "mean", "step"])
        assert {group["key"] for group in groups} <= set(keys[file])
        assert any(group["mean"] > 0 for group in groups), "scored as the lab scores"
        if run == "scheduled":  # step by step in the file's order; within a step groups finish in any
            count = len(groups[:4])
            assert [group["step"] for group in groups[:4]] == [1] * count
            assert sorted(group["key"] for group in groups[:4]) == sorted(keys[file][:4])
    groups = RunFolder.open(out / "online").groups(["mean", "admitted"])
    assert any(group["admitted"] for group in groups)
    assert any(not group["admitted"] for group in groups)
    assert all(0.1 < group["mean"] < 0.9 for group in groups if group["admitted"])
    for name in ("sft", *(f"{run}-model" for run in runs)):
        (folder,) = (out / "evaluation").glob(f"*out-{name}")
        assert len(EstimateFolder.open(folder).table()) == 4
    assert "Accuracy" in capsys.readouterr().out


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
