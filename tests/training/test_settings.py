"""The settings of `curro train`, from options, TOML files and run folders: wrong values are refused."""

from __future__ import annotations

import math

import pytest

from curro import ConfigError
from curro.core.errors import RunError
from curro.runs.folder import RunFolder
from curro.training.declared import flags_of
from curro.training.settings import MAX_SEED, TrainSettings, known_settings, read_settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 0.0),
        ("temperature", -1.0),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("learning_rate", math.inf),
        ("learning_rate", math.nan),
        ("learning_rate", -1.0),
        ("seed", -1),
        ("seed", MAX_SEED + 1),
        ("eval_every", -1),
        ("save_every", 0),
        ("threads", 1025),
        ("learning_rate", 10**19),
    ],
)
def test_a_wrong_value_is_named(name, value):
    with pytest.raises(ConfigError, match=f"{name} must be .*, not {value}"):
        TrainSettings("lab:chains", **{name: value})


@pytest.mark.parametrize(
    "options", [{"seed": MAX_SEED}, {"seed": 0}, {"eval_every": 0}, {"temperature": 1e-3}]
)
def test_the_ends_are_allowed(options):
    TrainSettings("lab:chains", **options)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"promts_per_step": 4}, "run has no setting 'promts_per_step' .did you mean 'prompts_per_step'"),
        ({"rollouts": "many"}, "run: rollouts must be a whole number, not 'many'"),
        ({"rollouts": 2.5}, "run: rollouts must be a whole number, not 2.5"),
        ({"rollouts": True}, "run: rollouts must be a whole number, not True"),
        ({"rollouts": None}, "run: rollouts must be a whole number, not None"),
        ({"temperature": "hot"}, "run: temperature must be a number, not 'hot'"),
        ({"data": 3}, "run: data must be text, not 3"),
        ({"loss_type": "drgrpo"}, "run: loss_type must be one of dr_grpo, dapo"),
        ({"reward_range": [1]}, "run: reward_range must be two numbers, LOW,HIGH, not .1."),
    ],
)
def test_values_of_a_file_are_checked(values, sentence):
    with pytest.raises(ConfigError, match=f"^{sentence}"):
        TrainSettings.of(values, "run")


def test_the_parts_of_a_curriculum_can_be_given_apart_or_together():
    together = TrainSettings(curriculum="pspo advantage=smoothed:alpha=0.5 admission=band:0.3,0.7")
    apart = TrainSettings(curriculum="pspo", advantage="smoothed:alpha=0.5", admission="band:0.3,0.7")
    assert together.curriculum_config == apart.curriculum_config
    assert apart.curriculum_config["admission"] == {"name": "band", "": [0.3, 0.7]}
    allocated = TrainSettings(curriculum="pspo", allocation="knapsack:least=1").curriculum_config
    assert allocated["allocation"] == {"name": "knapsack", "least": 1}
    assert allocated["advantage"] == {"name": "leave-one-out"}
    mixed = TrainSettings(curriculum="pspo", source_weights="my math=2,code=1").curriculum_config
    assert mixed["source_weights"] == "my math=2,code=1"
    with pytest.raises(ConfigError, match=r"source_weights is in the curriculum's text and in a setting"):
        _ = TrainSettings(curriculum="pspo source_weights=a=1", source_weights="a=1").curriculum_config
    both = TrainSettings(curriculum="pspo allocation=knapsack", advantage="group").curriculum_config
    assert both["advantage"] == {"name": "group"}
    twice = TrainSettings(curriculum="pspo advantage=smoothed", advantage="group")
    with pytest.raises(ConfigError, match=r"'advantage=group' in .* is not a part of a curriculum"):
        _ = twice.curriculum_config


def test_options_of_a_class_of_ones_own_are_text():
    config = TrainSettings(curriculum="longest_ago:LongestAgo:window=3,decay=0.5").curriculum_config
    assert config["selection"] == {"name": "longest_ago:LongestAgo", "window": 3, "decay": 0.5}


def test_the_whole_step_goes_through_the_model_at_once_whatever_its_size():
    """Complete settings can be fed back with another step, so nothing that follows from it is kept."""
    done = TrainSettings("lab:chains").complete(100)
    assert done.device_batch is None
    assert (done.model, done.eval_data) == ("lab:chains", "lab:chains")
    with pytest.raises(ConfigError, match="device_batch 5 does not divide the step's 4 x 8 completions"):
        TrainSettings("lab:chains", prompts_per_step=4, device_batch=5).complete(100)


def test_by_default_a_step_takes_no_more_prompts_than_there_are():
    assert TrainSettings("lab:chains").complete(3).prompts_per_step == 3
    with pytest.raises(ConfigError, match="a step takes 8 prompts and lab:chains has 5"):
        TrainSettings("lab:chains", prompts_per_step=8).complete(5)
    with pytest.raises(ConfigError, match="4 x 4000000000 completions, more than 1,048,576"):
        TrainSettings("lab:chains", prompts_per_step=4, rollouts_per_prompt=4_000_000_000).complete(5)


def test_every_setting_has_a_help_text_that_ends_in_a_full_stop():
    for name, item in known_settings().items():
        assert item.help.endswith("."), name
        assert getattr(TrainSettings, name) is not None or item.otherwise, name


def test_the_keys_are_the_names_of_the_options(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('data = "lab:chains"\nprompts-per-step = 4\neval_every = 0\nreward-range = [-1, 1]\n')
    values = read_settings(path)
    assert values == {"data": "lab:chains", "prompts_per_step": 4, "eval_every": 0, "reward_range": [-1, 1]}
    assert TrainSettings.of(values, str(path)).reward_range == (-1.0, 1.0)


def test_the_settings_of_a_run_can_be_used_again(tmp_path):
    settings = TrainSettings("lab:chains", reward_range=(-1.0, 1.0), prompt_column="q", admission="signal")
    RunFolder.create(tmp_path / "run", {"settings": settings.as_dict()})
    for path in (tmp_path / "run", tmp_path / "run" / "config.json"):
        assert TrainSettings.of(read_settings(path), "run") == settings


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("data =", "is no TOML"),
        ("data = " + "{a = " * 3000, "is no TOML"),
        ("seed = 1\nseed = 2", "is no TOML"),
        ("save-every = 1\nsave_every = 2", "a setting stands twice in"),
    ],
)
def test_mistakes_in_a_file(tmp_path, text, sentence):
    (tmp_path / "run.toml").write_text(text)
    with pytest.raises(ConfigError, match=sentence):
        read_settings(tmp_path / "run.toml")


def test_a_file_that_begins_with_a_byte_order_mark(tmp_path):
    (tmp_path / "run.toml").write_text("seed = 1", encoding="utf-8-sig")
    assert read_settings(tmp_path / "run.toml") == {"seed": 1}


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(ConfigError, match="toml cannot be read: No such file or directory"):
        read_settings(tmp_path / "run.toml")
    with pytest.raises(RunError, match="holds no run"):
        read_settings(tmp_path)
    RunFolder.create(tmp_path / "other", {"by": "a script"})
    with pytest.raises(RunError, match="has no settings: the run was not started by `curro train`"):
        read_settings(tmp_path / "other")


def test_settings_as_options():
    values = {"data": "a b.jsonl", "log": None, "reward_range": [0.0, 2.0], "keep_best": True, "vllm": False}
    assert flags_of(values) == ["--data=a b.jsonl", "--reward-range=0.0,2.0", "--keep-best", "--no-vllm"]
