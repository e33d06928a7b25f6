"""A class as TRL's `environment_factory` takes it, named in `--environment` and played turn by turn."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from curro.core.errors import ConfigError, EnvironmentFailure
from curro.data import PromptSet
from curro.reward.environments import resolve_environment
from curro.reward.environments.environment import Watched
from curro.reward.environments.tools import ToolEnvironment

EXAMPLES = Path(__file__).parents[3] / "examples"
ROW = {"prompt": "5", "answer": None, "key": "k", "secret": 2, "top": 5}


@pytest.fixture
def environment(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    yield resolve_environment("higher_lower:HigherLower:turns=5", PromptSet([ROW]))
    sys.modules.pop("higher_lower", None)


def call(number: int) -> str:
    return f'<tool_call>\n{{"name": "guess", "arguments": {{"number": {number}}}}}\n</tool_call>'


def test_the_examples_game_is_played_by_calls(environment):
    assert (environment.turns, environment.turn_tokens) == (5, 512)
    episode, other = environment.start(ROW, seed=1), environment.start(ROW, seed=1)
    assert episode.step("I think " + call(4)) == "lower"
    assert episode.step(call(1) + call(2)) == "higher\nright"
    assert episode.step("That was it.") is None
    assert episode.reward() == pytest.approx(0.1 + 0.1 + 1.1)
    assert other.reward() == 0


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{"name": "reset", "arguments": {}}', "Tool reset not found."),
        ('{"name": "get_reward", "arguments": {}}', "Tool get_reward not found."),
        ('{"name": "__init__", "arguments": {}}', "Tool __init__ not found."),
        ('{"name": "guess", "arguments": {"n": 1}}', "unexpected keyword argument 'n'"),
        ('{"name": "guess", "arguments": {"number": "x"}}', "not supported between"),
        ("not JSON", "Expecting value"),
        ("[]", "list indices"),
    ],
)
def test_what_is_no_call_of_a_tool_is_answered_with_the_error(environment, text, error):
    episode = environment.start(ROW, seed=1)
    answer = episode.step(f"<tool_call>{text}</tool_call>")
    assert error in json.loads(answer)["error"]
    assert episode.step(call(2)) == "right"


def test_classes_that_only_trl_can_play_are_refused():
    class Talks:
        def reset(self, **columns):
            return "Welcome."

        def get_reward(self):
            return 1.0

    class Waits(Talks):
        async def look(self):
            return ""

    class Unrewarded:
        def reset(self, **columns): ...

    with pytest.raises(EnvironmentFailure, match="its reset returns text, which TRL adds to the prompt"):
        Watched(ToolEnvironment(Talks), ROW, seed=0)
    with pytest.raises(ConfigError, match="look is asynchronous: only TRL plays it"):
        ToolEnvironment(Waits)
    with pytest.raises(ConfigError, match="has no method get_reward"):
        ToolEnvironment(Unrewarded)
