"""The small recipe, and `curro evaluate`, on BFCL: from the prompts to the pages, with a tiny model."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tiny_model import save_tiny_model
from transformers import AutoModelForCausalLM

from curro.cli import main
from curro.data import load_prompts
from curro.runs.estimate_folder import EstimateFolder
from curro.runs.folder import RunFolder

RECIPE = Path(__file__).parents[3] / "recipes" / "small" / "metis_bfcl.toml"
PLAYED = ["--environment", "bfcl:partial=true,turns=4,turn_tokens=8", "--max-completion-length", "512"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bfcl") / "model"
    save_tiny_model(folder, load_prompts("bfcl:miss_func", limit=4))
    return str(folder)


@pytest.fixture
def curro(monkeypatch, capsys, tmp_path):
    """Run `curro ARGUMENTS` in an empty folder; returns what it printed."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["curro", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        said = capsys.readouterr()
        assert not stop.value.code, said
        return said.out

    return run


def test_training(curro, tmp_path, model):
    """A turn whose function is held back is right if nothing is called: some rollouts earn a share."""
    curro("train", "--config", str(RECIPE), "--model", model, "--out", "run")
    folder = RunFolder.open(tmp_path / "run")
    lines = folder.metrics()
    assert lines[-1]["rollouts"] == 12
    assert any(line.get("signal_share") for line in lines)
    assert lines[-1]["judge/judgments"] == 6
    means = [group["mean"] for group in folder.groups()]
    assert len(means) == 3
    assert 0 < max(means) < 1, means
    start, trained = (AutoModelForCausalLM.from_pretrained(path) for path in (model, folder.model))
    assert not all((a == b).all() for a, b in zip(start.parameters(), trained.parameters(), strict=True))
    assert (tmp_path / "run" / "report.html").is_file()


def test_evaluation(curro, tmp_path, model):
    said = curro("evaluate", model, "--suite", "bfcl:miss_func", "--limit", "2", "-k", "2", *PLAYED)
    assert "bfcl:miss_func" in said
    (path,) = (tmp_path / "evaluations").glob("bfcl*")
    table = EstimateFolder.open(path).table()
    keys = [row["key"] for row in load_prompts("bfcl:miss_func", split="test", limit=2)]
    assert table["key"].to_pylist() == keys
    assert all(0 <= mean < 1 for mean in table["mean"].to_pylist())
    assert any(table["mean"].to_pylist())
