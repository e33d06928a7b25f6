"""Every recipe for TRL trains, by its own commands.

Half of the trained weights have to move at the recipe's own learning rate, as far as they do in float32:
weights in bfloat16 lose a step of 1e-6.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import yaml
from tests.recipes.harness import (
    PAPER,
    SMALL,
    answers_for,
    changed,
    commands_of,
    launch,
    measure,
    prepared_folder,
    train,
    train_split,
)
from tests.recipes.small_data import ANSWERS, write_tiny_model
from transformers import AutoTokenizer, GenerationConfig

from curro.rollout.engines.models import load_model
from curro.runs.folder import RunFolder


@pytest.fixture
def tiny_model(made_once):
    """Writes the tiny model of a recipe, or finds it."""

    def write(path: Path) -> Path:
        kind = answers_for(path)
        return made_once(f"recipes-{kind}", lambda folder: write_tiny_model(folder, ANSWERS[kind]))

    return write


OF_EACH_KIND = {"prioritized_replay_guru", "pspo_7b", "difficulty_filtering_sft"}
"""One recipe that trains all weights, one that trains adapters, one on worked answers."""


@pytest.mark.parametrize("path", PAPER, ids=lambda path: path.stem)
def test_a_recipes_header_runs_as_it_stands(path, tmp_path, tiny_model):
    """Prepare, train and measure; what the paper's table has is printed under its name."""
    model = tiny_model(path)
    with prepared_folder(path, tmp_path):
        own = train(path, model, None)
        assert own.share > 0.5
        if path.stem.endswith("_sft"):  # RL's rollouts end where the chat template ends a turn
            tokenizer = AutoTokenizer.from_pretrained("runs/difficulty-filtering-sft")
            ends = GenerationConfig.from_pretrained("runs/difficulty-filtering-sft").eos_token_id
            assert tokenizer.eos_token == "<|im_end|>"
            assert tokenizer.eos_token_id in ends
        if path.stem == "difficulty_filtering":
            for folder in ("runs/difficulty-filtering-sft", "Qwen/Qwen2.5-7B-Instruct"):
                shutil.copytree(model, folder)
        printed = measure(path)
        evaluated = [text for text in printed if "pass@1" in text]
        suites = re.findall(r"--suite ([\w-]+)", path.read_text())
        assert all(any(suite in text for text in evaluated) for suite in suites)
        assert bool(suites) is not path.stem.endswith("_sft")
        if path.stem in OF_EACH_KIND:
            first = {
                "max_steps": "1",
                "warmup_steps": "0",
            }  # Adam's first step is as long whatever was sampled
            own = train(path, model, "own", **first)
            exact = train(path, model, "exact", bf16="false", dtype="float32", **first)
            assert own.norm == pytest.approx(exact.norm, rel=0.1)


@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.stem)
def test_a_small_recipes_header_runs_as_it_stands(path, tmp_path):
    settings = yaml.safe_load(path.read_text())
    (words,) = commands_of(path)
    with prepared_folder(path, tmp_path):
        launch(words)
        metrics = RunFolder.open(settings["output_dir"]).metrics()[-1]
        before, after = (
            load_model(model)[0].state_dict()
            for model in (settings["model_name_or_path"], settings["output_dir"])
        )
    assert changed(before, after)[0] > 0.5
    generations = settings["max_steps"] // settings.get("steps_per_generation", 1)
    assert metrics["observed"] >= generations
    if path.stem.startswith("metis"):
        assert metrics["judge/judgments"] > 0
    if path.stem == "difficulty_filtering":
        assert metrics["admitted"] >= 4 * settings["max_steps"]


def test_every_recipe_of_more_weights_than_a_gpu_has_memory_for_splits_them():
    """Float32 weights, gradients and AdamW's moments are 16 bytes a weight; METIS asks for them whole."""
    names = {path.stem for path in PAPER if "launch --config_file recipes/trl/fsdp.yaml" in path.read_text()}
    assert names == {"prioritized_replay_guru", "difficulty_filtering", "metis_dapo", "metis_code"}


def test_a_recipe_trains_with_its_weights_split(tmp_path, tiny_model):
    """In two processes under FSDP2, by the recipes' own configuration; METIS judges there too."""
    (path,) = [path for path in PAPER if path.stem == "metis_dapo"]
    model = tiny_model(path)
    with prepared_folder(path, tmp_path):
        trained = train_split(path, model, "own")
        lines = RunFolder.open("own").metrics()
    assert trained.share > 0.5
    assert max(line.get("judge/judgments", 0) for line in lines) > 0


def test_the_reference_model_is_reset_at_each_iteration(tmp_path, tiny_model):
    """Line 12 of algorithm 1 of difficulty filtering, by the options that its header proposes."""
    (path,) = [path for path in PAPER if path.stem == "difficulty_filtering"]
    options = dict(re.findall(r"--(beta|sync_ref_model|ref_model\w+) (\S*\w)", path.read_text()))
    assert len(options) == 4
    model = tiny_model(path)
    with prepared_folder(path, tmp_path):
        assert train(path, model, "own", **options).share > 0.5


def test_weights_in_bfloat16_would_not_train(tmp_path, tiny_model):
    (path,) = [path for path in PAPER if path.stem == "prioritized_replay_guru"]
    model = tiny_model(path)
    with prepared_folder(path, Path(tmp_path)):
        assert train(path, model, "coarse", dtype="bfloat16").share < 0.05
