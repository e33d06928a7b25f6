"""An environment as TRL's `environment_factory` takes it, played turn by turn outside TRL's trainer too."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from typing import Any

from curro.core.errors import ConfigError
from curro.data.raw import Row

_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)


class ToolEnvironment:
    """A `curro.reward.environments.Environment` of a class with `reset`, tools and `get_reward`.

    An action is what the model writes in a turn. Its calls stand in `<tool_call>` tags as JSON with a `name`
    and `arguments`, the form of Qwen and Hermes, and the observation is what the tools return, a line each. A
    tool that raises answers with the error, as in TRL. A turn without a call ends the episode.

    Args:
        make: gives a new instance, whose public methods but `reset` and `get_reward` are the tools.
        turns: turns of an episode, at most.
        turn_tokens: tokens of a turn, at most.
    """

    def __init__(self, make: Callable[[], Any], turns: int = 8, turn_tokens: int = 512) -> None:
        self.make, self.turns, self.turn_tokens = make, turns, turn_tokens
        kind = type(make())
        self.name = kind.__name__
        methods = dict(inspect.getmembers(kind, predicate=inspect.isfunction))
        for needed in ("reset", "get_reward"):
            if needed not in methods:
                raise ConfigError(f"environment {self.name}: it has no method {needed}")
        waiting = [name for name, method in methods.items() if inspect.iscoroutinefunction(method)]
        if waiting:
            raise ConfigError(
                f"environment {self.name}: {', '.join(waiting)} is asynchronous: only TRL plays it"
            )
        self.tools = [name for name in methods if name not in ("reset", "get_reward") and name[0] != "_"]

    def start(self, row: Row, seed: int) -> ToolEpisode:
        """An episode of the prompt `row`; as in TRL, the row decides how it starts, and not the seed."""
        instance = self.make()
        if instance.reset(**row) is not None:
            raise ConfigError(
                f"environment {self.name}: its reset returns text, which TRL adds to the prompt: write it "
                "into the prompts of the data set, and return None"
            )
        return ToolEpisode(instance, self.tools)


class ToolEpisode:
    """One rollout's instance."""

    def __init__(self, instance: Any, tools: list[str]) -> None:
        self.instance, self.tools = instance, tools

    def step(self, action: str) -> str | None:
        """Call the tools that the action names; None where it names none."""
        results = [self._called(text) for text in _CALL.findall(action)]
        return "\n".join(results) if results else None

    def reward(self) -> float | None:
        return self.instance.get_reward()

    def _called(self, text: str) -> str:
        try:
            call = json.loads(text)
            if call["name"] not in self.tools:
                raise ValueError(f"Tool {call['name']} not found.")
            return str(getattr(self.instance, call["name"])(**call["arguments"]))
        except Exception as error:  # the model's text is no call, or the tool refuses it
            return json.dumps({"error": str(error)})
