"""What `curro train` is told: wrong values are refused, and old runs' settings are read."""

from __future__ import annotations

import json
import math

import pytest

from curro import ConfigError
from curro.hosts.trl.settings import MAX_SEED, TrainSettings


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
    ],
)
def test_a_wrong_value_is_named(name, value):
    with pytest.raises(ConfigError, match=f"{name} is a .*, not {value}"):
        TrainSettings("lab:chains", **{name: value})


@pytest.mark.parametrize(
    "options", [{"seed": MAX_SEED}, {"seed": 0}, {"eval_every": 0}, {"temperature": 1e-3}]
)
def test_the_ends_are_allowed(options):
    TrainSettings("lab:chains", **options)


def test_settings_survive_the_run_folder():
    settings = TrainSettings("lab:chains", reward_range=(-1.0, 1.0), columns={"prompt_column": "q"})
    assert TrainSettings.from_dict(json.loads(json.dumps(settings.as_dict()))) == settings


def test_settings_of_before_there_was_a_reward_range():
    old = TrainSettings("lab:chains").as_dict()
    del old["reward_range"]
    assert TrainSettings.from_dict(old).reward_range == (0.0, 1.0)


@pytest.mark.parametrize("change", [{"speed": 1}, {"data": None}])
def test_settings_of_another_version_are_refused(change):
    values = TrainSettings("lab:chains").as_dict() | change
    values = {name: value for name, value in values.items() if name != "data" or value}
    with pytest.raises(ConfigError, match=f"its settings differ in {next(iter(change))}"):
        TrainSettings.from_dict(values)
