"""Environments by name, their options, and what is said without the package that one needs."""

from __future__ import annotations

import sys

import pytest

from curro.contrib.bfcl import Bfcl
from curro.core.errors import ConfigError, CurroError
from curro.data import PromptSet, load_prompts
from curro.reward.environments import resolve_environment

PROMPTS = PromptSet([{"prompt": "p", "answer": None, "key": "k"}])


def test_a_built_in_one_and_its_options():
    environment = resolve_environment("bfcl:partial=true,turns=7", PROMPTS)
    assert isinstance(environment, Bfcl)
    assert (environment.partial, environment.turns) == (True, 7)


def test_one_of_the_user_s_own_with_options(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "my_world.py").write_text(
        "class World:\n    turn_tokens = 5\n    def __init__(self, turns=2): self.turns = turns\n"
        "    def start(self, row, seed): ...\n"
        "class OfTRL:\n    def reset(self, **row): ...\n    def get_reward(self): ...\n"
    )
    assert resolve_environment("my_world:World", PROMPTS).turns == 2
    assert resolve_environment("my_world:World:turns=4", PROMPTS).turns == 4
    with pytest.raises(ConfigError, match="its turns is a number from 1, not 0"):
        resolve_environment("my_world:World:turns=0", PROMPTS)
    with pytest.raises(ConfigError, match=r"no method start\(row, seed\)"):
        resolve_environment("my_world:OfTRL", PROMPTS)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("bfc", r"no environment is called 'bfc' \(did you mean 'bfcl'\?\); there is: bfcl; your own"),
        ("bfcl:part=1", "environment 'bfcl' has no option 'part'"),
    ],
)
def test_mistakes(spec, message):
    with pytest.raises(ConfigError, match=message):
        resolve_environment(spec, PROMPTS)


def test_without_bfcl_eval_its_installation_is_told(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CurroError, match="pip install --no-deps bfcl-eval mpmath"):
        load_prompts("bfcl:base")
