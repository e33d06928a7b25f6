"""The examples run; what docs/trl.md shows as a diff is what examples/trl_script.py has."""

import re
import runpy
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from trl.generation import vllm_generation

from curro.lab import family
from curro.runs.folder import RunFolder
from curro.runs.json_lines import read_rows

REPOSITORY = Path(__file__).parents[2]
EXAMPLES = REPOSITORY / "examples"


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a script in this process, as a process of its own would; returns what it printed."""

    def run(script: Path, *options: str) -> str:
        monkeypatch.setattr(sys, "argv", [str(script), *options])
        runpy.run_path(str(script), run_name="__main__")
        return capsys.readouterr().out

    return run


def test_the_bare_loop_trains_and_evaluates(run, monkeypatch):
    chains = type(family("chains"))
    monkeypatch.setattr(chains, "recipe", replace(chains.recipe, held_out_prompts=80))
    printed = run(EXAMPLES / "bare_grpo.py", "--steps", "3")
    scores = [float(score) for score in re.findall(r"held-out pass@1 \w+: +(\S+)", printed)]
    assert len(scores) == 2
    assert all(0 < score < 1 for score in scores)
    assert len(re.findall(r"^step ", printed, re.MULTILINE)) == 3


@pytest.mark.parametrize(("name", "most"), [("bare_grpo", 99), ("trl_script", 49)])
def test_an_example_is_short(name, most):
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= most


def test_the_form_of_unsloths_notebooks_trains_without_unsloth(run, tmp_path):
    printed = run(EXAMPLES / "unsloth_grpo.py", "--max-steps", "1", "--output-dir", str(tmp_path))
    assert "train_runtime" in printed


def test_the_page_on_trl_shows_what_its_script_has():
    page = (REPOSITORY / "docs" / "trl.md").read_text()
    script = (EXAMPLES / "trl_own_data.py").read_text()
    blocks = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    code = [block for block in blocks if not re.match(r"python |curro |\{|from unsloth", block)]
    assert len(code) == 3
    for block in code:
        assert block in script


def test_own_data_is_trained_on_and_resumed(run, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    script = EXAMPLES / "trl_own_data.py"
    run(script, "--max-steps", "10", "--lora")
    folder = RunFolder.open("runs/own-data")
    assert [line["step"] for line in folder.metrics() if "reward" in line] == list(range(1, 11))
    assert [line["step"] for line in folder.metrics() if "eval/pass@1" in line] == [0, 10]
    assert all(row["rollouts"] for row in read_rows(folder.rollouts_file))
    assert folder.table()["text"].to_pylist()[0]
    printed = run(script, "--max-steps", "11", "--resume", "--lora")
    assert "train_runtime" in printed
    assert [line["step"] for line in folder.metrics() if "reward" in line] == list(range(1, 12))
    assert sorted(path.name for path in Path("runs/own-data").iterdir()) == [
        "README.md", "checkpoint-10", "checkpoint-11", "curro", "final",
    ]  # fmt: skip


class Colocated:
    """vLLM in the trainer's process, as TRL asks it; the tokens come from the policy itself.

    Attributes:
        prompts: the tokens of every prompt that it was asked for.
        texts: what was generated.
    """

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.prompts: list[list[int]] = []
        self.texts: set[str] = set()

    def generate(self, prompts: list[Any], sampling_params: Any, use_tqdm: bool) -> list[Any]:
        asked = [prompt["prompt_token_ids"] for prompt in prompts]
        self.prompts += asked
        rows = self.tokenizer.pad({"input_ids": asked}, padding_side="left", return_tensors="pt")
        options = {"do_sample": True, "max_new_tokens": sampling_params.max_tokens}
        with torch.no_grad():
            sampled = self.model.generate(**rows, **options)[:, rows["input_ids"].shape[1] :]
        return [self._output(ids) for ids in sampled.tolist()]

    def _output(self, ids: list[int]) -> Any:
        end = self.tokenizer.eos_token_id
        ids = ids[: ids.index(end) + 1] if end in ids else ids
        self.texts.add(self.tokenizer.decode(ids, skip_special_tokens=True))
        logprobs = [{token: SimpleNamespace(rank=1, logprob=-1.0)} for token in ids]
        completion = SimpleNamespace(token_ids=ids, logprobs=logprobs)
        return SimpleNamespace(prompt_token_ids=[], outputs=[completion])


def test_own_data_is_trained_on_with_vllm_in_the_same_process(run, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    engines = []

    def start(generation: Any) -> None:
        assert generation.mode == "colocate"
        generation.llm = Colocated(generation.model, generation.processing_class)
        engines.append(generation.llm)

    monkeypatch.setattr(vllm_generation.VLLMGeneration, "_init_vllm", start)
    monkeypatch.setattr(vllm_generation.VLLMGeneration, "sync_weights", lambda generation: None)
    monkeypatch.setattr(vllm_generation, "SamplingParams", SimpleNamespace, raising=False)
    run(EXAMPLES / "trl_own_data.py", "--max-steps", "2", "--vllm")
    (engine,) = engines
    folder = RunFolder.open("runs/own-data")
    assert [line["step"] for line in folder.metrics() if "reward" in line] == [1, 2]
    kept = list(read_rows(folder.rollouts_file))
    assert kept
    for row in kept:
        assert engine.tokenizer(row["text"])["input_ids"] in engine.prompts
        assert {rollout["text"] for rollout in row["rollouts"]} <= engine.texts


def test_the_trl_script_with_and_without_a_curriculum(run, tmp_path):
    (diff,) = re.findall(r"```diff\n(.*?)```", (REPOSITORY / "docs" / "trl.md").read_text(), re.DOTALL)
    script = (EXAMPLES / "trl_script.py").read_text()
    plain = script
    for hunk in re.split(r"^\.\.\.\n", diff, flags=re.MULTILINE):
        lines = hunk.splitlines(keepends=True)
        after = "".join(line[1:] for line in lines if line[0] != "-")
        assert script.count(after) == 1
        plain = plain.replace(after, "".join(line[1:] for line in lines if line[0] != "+"))
    assert "Curriculum" not in plain
    for name, text in (("plain", plain), ("curriculum", script)):
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        printed = run(path, "--max-steps", "1", "--output-dir", str(tmp_path / name))
        assert "train_runtime" in printed
        assert ("curriculum/table/unseen" in printed) == (name == "curriculum")
