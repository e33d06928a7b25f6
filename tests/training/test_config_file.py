"""Settings from TOML files and from run folders."""

from __future__ import annotations

import pytest

from curro import ConfigError
from curro.errors import RunError
from curro.runs.folder import RunFolder
from curro.training.settings import TrainSettings, read_settings


def test_the_keys_are_the_names_of_the_options(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('data = "lab:chains"\nprompts-per-step = 4\neval_every = 0\nreward-range = [-1, 1]\n')
    values = read_settings(path)
    assert values == {"data": "lab:chains", "prompts_per_step": 4, "eval_every": 0, "reward_range": [-1, 1]}
    assert TrainSettings.of(values, str(path)).reward_range == (-1.0, 1.0)


def test_the_settings_of_a_run_can_be_used_again(tmp_path):
    settings = TrainSettings("lab:chains", seed=3, admission="signal")
    RunFolder.create(tmp_path / "run", {"settings": settings.as_dict()})
    for path in (tmp_path / "run", tmp_path / "run" / "config.json"):
        assert TrainSettings.of(read_settings(path), "run") == settings


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("data =", "is no TOML"),
        ("seed = 1\nseed = 2", "is no TOML"),
        ("save-every = 1\nsave_every = 2", "a setting stands twice in"),
    ],
)
def test_mistakes_in_a_file(tmp_path, text, sentence):
    (tmp_path / "run.toml").write_text(text)
    with pytest.raises(ConfigError, match=sentence):
        read_settings(tmp_path / "run.toml")


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(ConfigError, match="toml cannot be read: No such file or directory"):
        read_settings(tmp_path / "run.toml")
    with pytest.raises(RunError, match="holds no run"):
        read_settings(tmp_path)
    RunFolder.create(tmp_path / "other", {"by": "a script"})
    with pytest.raises(RunError, match="has no settings: the run was not started by `curro train`"):
        read_settings(tmp_path / "other")
