"""The recipes for TRL: read by TRL's own parser, with the papers' sizes; and what their headers make."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file
from tests.recipes.harness import COMMAND, SMALL
from torch.testing import assert_close
from trl import GRPOConfig, ModelConfig, SFTConfig, TrlParser
from trl.scripts.utils import DatasetMixtureConfig, ScriptArguments

from curro import Curriculum
from curro.core.registry import parse_curriculum
from curro.reward import resolve_reward
from curro.training.evaluation.suites import SUITES
from curro.training.settings import TrainSettings, read_settings

RECIPES = Path(__file__).parents[2] / "recipes"
spec = importlib.util.spec_from_file_location("recipes_train", RECIPES / "trl" / "train.py")
assert spec is not None
assert spec.loader is not None
recipes_train = importlib.util.module_from_spec(spec)
sys.modules["recipes_train"] = recipes_train  # dataclasses look their module up
spec.loader.exec_module(recipes_train)

PAPER = sorted(path for path in (RECIPES / "trl").glob("*.yaml") if not path.stem.endswith(("_sft", "fsdp")))
REPLAY_AND_FILTERING = {"prioritized_replay_guru", "difficulty_filtering"}
ON_CPU = ["--bf16", "false", "--use_cpu", "true"]


@pytest.fixture(autouse=True)
def folder(monkeypatch):
    monkeypatch.chdir(RECIPES.parent)
    monkeypatch.syspath_prepend(RECIPES)


def weights_of(checkpoint):
    return load_file(checkpoint / "model.safetensors")["model.norm.weight"]


def parsed(path, *more):
    return recipes_train.parser().parse_args_and_config(["--config", str(path), *more])


@pytest.mark.parametrize(
    "path",
    sorted(RECIPES.glob("*/*.[yt][ao]ml")) + sorted(RECIPES.glob("small/verl/*.yaml")),
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)
def test_every_file_of_data_that_a_recipe_names_is_made_by_its_header(path):
    text = path.read_text()
    header = text.partition("\n\n")[0]
    made = set(re.findall(r"(?:--out|--held-out) (data/\S+)", header))
    assert set(re.findall(r"data/[\w.-]+\.(?:parquet|jsonl)", text[len(header) :])) <= made


@pytest.mark.parametrize("path", PAPER, ids=lambda path: path.stem)
def test_a_recipe_at_paper_size_is_read_whole(path):
    """Its sizes and rates are in the tables of recipes/README.md, which test_tables.py compares."""
    arguments, _, model = parsed(path, *ON_CPU)
    spec = parse_curriculum(arguments.curriculum)
    curriculum = Curriculum.from_config(spec, 10_000)
    reward = resolve_reward(arguments.reward)
    is_cosine = "cosine" in arguments.reward
    by_signal = sum(reward.weights.get(name, 0) for name in curriculum.signal_parts)
    assert arguments.largest_reward == (by_signal or sum(reward.weights.values()))
    assert arguments.lowest_reward == (-0.5 * reward.weights["cosine"] if is_cosine else 0)
    names = {"difficulty_filtering": "runs/difficulty-filtering-sft", "pspo": "Qwen/Qwen2.5-Math-1.5B"}
    assert model.dtype == ("bfloat16" if model.use_peft else "float32")
    assert str(model.model_name_or_path).startswith(names.get(path.stem, "Qwen/Qwen"))
    assert curriculum.has_advantage is path.stem.startswith("pspo")
    assert curriculum.has_admission is (path.stem == "difficulty_filtering")


def test_the_cold_start_is_read_by_trls_sft_script():
    parser = TrlParser((ScriptArguments, SFTConfig, ModelConfig, DatasetMixtureConfig))
    path = RECIPES / "trl" / "difficulty_filtering_sft.yaml"
    _, config, model, _ = parser.parse_args_and_config(["--config", str(path), *ON_CPU])
    assert (config.learning_rate, config.num_train_epochs, config.warmup_steps) == (5e-6, 5, 25)
    assert config.per_device_train_batch_size * 3 == 21
    assert model.model_name_or_path == "Qwen/Qwen2.5-3B"


@pytest.mark.parametrize(
    ("place", "expected"), [("trl", (64, 8, 32, 1e-6, 4096)), ("small", (1, 4, None, 1e-3, 1024))]
)
def test_the_recipe_for_function_calls_is_read_by_curro_train(place, expected):
    """`make bfcl` trains by their headers."""
    path = RECIPES / place / "metis_bfcl.toml"
    settings = TrainSettings.of(read_settings(path), str(path))
    sizes = (settings.prompts_per_step, settings.rollouts_per_prompt, settings.device_batch)
    assert (*sizes, settings.learning_rate, settings.max_completion_length) == expected
    assert Curriculum.from_config(settings.curriculum_config, 1000).config["selection"]["name"] == "metis"


def test_every_paper_has_a_recipe_in_both_sizes_and_for_both_hosts():
    for_verl = {path.stem for path in (RECIPES / "verl").glob("*.yaml")}
    assert {path.stem for path in PAPER} | {"metis_bfcl"} == for_verl | {"pspo_7b"}
    assert for_verl == {"pspo", "metis_dapo", "metis_code", "metis_bfcl", *REPLAY_AND_FILTERING}
    small = {"prioritized_replay", "metis", "metis_code", "pspo", "difficulty_filtering"}
    assert {path.stem for path in SMALL} == small


def test_the_checkpoint_that_is_best_in_validation_stays(tmp_path):
    """As the recipes of METIS at paper size keep it, in small."""
    options = {
        "eval_prompts": "8", "eval_strategy": "steps", "eval_steps": "1", "num_generations_eval": "1",
        "per_device_eval_batch_size": "8", "save_strategy": "best", "load_best_model_at_end": "true",
        "metric_for_best_model": "eval_mean_reward", "save_total_limit": "1", "output_dir": str(tmp_path),
    }  # fmt: skip
    for recipe, files in (("metis_dapo", 4), ("metis_code", 1)):
        arguments, config, _ = parsed(RECIPES / "trl" / f"{recipe}.yaml", *ON_CPU)
        assert (config.save_strategy, config.load_best_model_at_end) == ("best", True)
        assert config.metric_for_best_model == ("eval_mean_reward" if files > 1 else "eval_reward")
        assert len(arguments.eval_data) == files
    words = [part for name, value in options.items() for part in (f"--{name}", value)]
    words += ["--eval_data", "lab:chains_judge", "lab:chains"]
    trainer = recipes_train.trainer_of(*parsed(RECIPES / "small" / "metis.yaml", *words))
    trainer.train()
    history = trainer.state.log_history
    means = [entry["eval_mean_reward"] for entry in history if "eval_mean_reward" in entry]
    assert len(means) == 4
    each = [entry["eval_reward"] for entry in history if "eval_reward" in entry]
    assert means == [sum(each[2 * step : 2 * step + 2]) / 2 for step in range(4)]
    (checkpoint,) = tmp_path.glob("checkpoint-*")
    assert checkpoint.name == f"checkpoint-{1 + means.index(max(means))}"
    assert_close(trainer.model.state_dict()["model.norm.weight"].cpu(), weights_of(checkpoint))


def test_what_metis_shows_of_a_programming_problem():
    import statements

    text = "Given two numbers.\nAdd them.\n\nInput\n\nTwo integers.\n\nExamples\n1 2 -> 3"
    assert statements.prose(text) == "Given two numbers.\nAdd them."
    assert statements.prose("## Constraints\nn < 10") == ""
    for prose in ("Read the input carefully.", "Note that n is small.\nInput numbers are whole.\nAdd them."):
        assert statements.prose(prose) == prose
        for heading in ("Notes", "**Input**", "-----Output-----", "Sample Input 1", "Constraints: n < 10"):
            assert statements.prose(f"{prose}\n\n{heading}\n1 2") == prose


@pytest.mark.parametrize("path", PAPER, ids=lambda path: path.stem)
def test_every_option_that_a_header_proposes_is_one(path):
    """Other rows of the paper's tables: `--loss_type grpo` behind the launch command."""
    header = COMMAND.sub("", path.read_text().partition("\n\n")[0])
    words = re.findall(r"--([a-z_]+) (?!recipes/)([\w./-]*\w)", header)
    kinds = (recipes_train.CurriculumArguments, GRPOConfig, ModelConfig)
    assert words
    assert {name for name, _ in words} <= {field.name for kind in kinds for field in dataclasses.fields(kind)}
    parsed(path, *ON_CPU, *(part for name, value in words for part in (f"--{name}", value)))


@pytest.mark.parametrize(
    ("name", "problems", "batch"), [("metis_dapo", 17_398, 256), ("metis_code", 4_432, 128)]
)
def test_adcl_may_estimate_every_problem_before_the_first_update(name, problems, batch):
    for host in ("trl", "verl"):
        (limit,) = re.findall(r"fill_limit[ =](\d+)", (RECIPES / host / f"{name}.yaml").read_text())
        assert int(limit) * batch > problems + batch


def test_the_commands_of_the_recipes_name_suites_that_there_are():
    texts = [path.read_text() for path in RECIPES.rglob("*") if path.suffix in (".yaml", ".toml")]
    named = {name for text in texts for name in re.findall(r"--suite ([\w-]+)", text)}
    assert named >= {"AIME24", "HumanEval"}
    assert named <= set(SUITES)
