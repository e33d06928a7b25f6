"""The recipes' headers, and `curro evaluate`, on BFCL: from the prompts to the pages, with a tiny model."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.recipes.harness import commands_of
from tiny_model import save_tiny_model
from transformers import AutoModelForCausalLM

from curro.cli import main
from curro.data import load_prompts
from curro.runs.estimate_folder import EstimateFolder
from curro.runs.folder import RunFolder

RECIPES = Path(__file__).parents[3] / "recipes"
EPISODES = ["--environment", "bfcl:partial=true,turns=4,turn_tokens=8"]
PLAYED = [*EPISODES, "--max-completion-length", "512"]
AS_SMALL = {
    "limit": "16", "prompts-per-step": "1", "rollouts-per-prompt": "4", "device-batch": "4", "rollouts": "12",
    "eval-prompts": "1", "eval-samples": "1", "eval-every": "3",
}  # fmt: skip
"""Sizes that the small recipe has by itself."""


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


@pytest.mark.parametrize(("size", "judgments"), [("small", 6), ("trl", 24)])
def test_a_recipes_header_runs_as_it_stands(curro, tmp_path, model, size, judgments):
    """A turn whose function is held back is right if nothing is called: some rollouts earn a share."""
    (tmp_path / "recipes").symlink_to(RECIPES)
    (words,) = commands_of(RECIPES / size / "metis_bfcl.toml")
    more = [part for name, value in AS_SMALL.items() for part in (f"--{name}", value)]
    curro(*words[1:], "--model", model, *([] if size == "small" else [*more, *EPISODES]))
    folder = RunFolder.open(tmp_path / words[-1])
    lines = folder.metrics()
    assert lines[-1]["rollouts"] == 12
    assert lines[-1]["judge/judgments"] == judgments
    means = [group["mean"] for group in folder.groups()]
    assert len(means) == 3
    if size == "small":
        assert any(line.get("signal_share") for line in lines)
        assert 0 < max(means) < 1, means
        start, trained = (AutoModelForCausalLM.from_pretrained(path) for path in (model, folder.model))
        assert not all((a == b).all() for a, b in zip(start.parameters(), trained.parameters(), strict=True))
    assert (tmp_path / words[-1] / "report.html").is_file()


def test_evaluation(curro, tmp_path, model):
    said = curro("evaluate", model, "--suite", "bfcl:miss_func", "--limit", "2", "-k", "2", *PLAYED)
    assert "bfcl:miss_func" in said
    (path,) = (tmp_path / "evaluations").glob("bfcl*")
    table = EstimateFolder.open(path).table()
    keys = [row["key"] for row in load_prompts("bfcl:miss_func", split="test", limit=2)]
    assert table["key"].to_pylist() == keys
    assert all(0 <= mean < 1 for mean in table["mean"].to_pylist())
    assert any(table["mean"].to_pylist())
