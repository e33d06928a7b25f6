"""The interface of environments, and a wrapper whose errors name the environment and the prompt."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from curro.core.errors import ConfigError, EnvironmentFailure
from curro.core.loading import load_callable, load_object, provider
from curro.core.registry import construct, parse_options
from curro.core.text import did_you_mean
from curro.data.prompt_set import PromptSet
from curro.data.raw import Row
from curro.reward.reward import Reward, Score, key

EPISODE_REWARD = "episode_reward"
"""The column in which an episode's reward reaches the reward function."""

T = TypeVar("T")


class Episode(Protocol):
    """One rollout of a prompt, with a state of its own."""

    def step(self, action: str) -> str | None:
        """Execute what the model wrote, any text, and return the observation; None where the episode ends."""

    def reward(self) -> float | None:
        """The reward of the whole trajectory, asked for once at its end; None if it is not scored."""


class Environment(Protocol):
    """Starts episodes.

    Attributes:
        turns: actions of an episode, at most.
        turn_tokens: tokens of an action, at most, with its end of sequence. An action that is cut off ends
            the episode and is not executed.
    """

    @property
    def turns(self) -> int: ...
    @property
    def turn_tokens(self) -> int: ...

    def start(self, row: Row, seed: int) -> Episode:
        """An episode of the prompt `row`.

        Args:
            row: of the data set, with `prompt`, `answer`, `key` and its other columns.
            seed: for whatever is random in the environment, 0 to 2**32 - 1. The rollouts of a group have
                the same, so that they start alike and their rewards can be compared.
        """


class Watched:
    """An episode that fails with an error which names the environment and the prompt.

    Raises:
        EnvironmentFailure: from any method, where the environment's raises or returns what it must not.
    """

    def __init__(self, environment: Environment, row: Row, seed: int) -> None:
        self.name, self.row = type(environment).__name__, row
        self.episode: Episode = self._call("start", lambda: environment.start(row, seed))

    def step(self, action: str) -> str | None:
        observation = self._call("step", lambda: self.episode.step(action))
        if observation is not None and not isinstance(observation, str):
            raise self._failure("step", f"gave {observation!r:.50}, which is neither text nor None")
        return observation

    def reward(self) -> Score:
        return self._call("reward", lambda: self.episode.reward())

    def _call(self, method: str, function: Callable[[], T]) -> T:
        try:
            return function()
        except Exception as error:
            raise self._failure(method, f"failed with {type(error).__name__}: {error}") from error

    def _failure(self, method: str, problem: str) -> EnvironmentFailure:
        return EnvironmentFailure(
            f"environment {self.name}: {method} {problem}, for the prompt {key(self.row)}: "
            "an environment must answer any text that a model writes"
        )


def episode_seed(row: Row, *labels: Any) -> int:
    """The seed of the episodes of a prompt: the same labels (a run's seed, the step) give the same."""
    identity = json.dumps([row.get("key"), row["prompt"], *labels], default=str)
    return int.from_bytes(hashlib.blake2b(identity.encode(), digest_size=4).digest())


def episode_scores(completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
    """What the environment gave for the episodes, from their rows."""
    if any(EPISODE_REWARD not in row for row in rows):
        raise ConfigError("these prompts are played turn by turn in an environment: use `curro train`")
    return [row[EPISODE_REWARD] for row in rows]


def episode_reward(name: str) -> Reward:
    """The reward of played episodes."""
    return Reward(name, episode_scores)


class ObservationTokens:
    """Tokens of an observation as they stand between two actions.

    After a prompt of plain text an observation is its own text. In a conversation it is the user's next
    message with all that the chat template writes between two turns of the assistant.
    """

    def __init__(self, tokenizer: Any, *, template: str | None = None, options: Any = None) -> None:
        self.tokenizer, self.options = tokenizer, {"chat_template": template, **(options or {})}

    def __call__(self, text: str, *, conversation: bool) -> list[int]:
        if not conversation:
            return self.tokenizer(text, add_special_tokens=False)["input_ids"]
        before = [{"role": "user", "content": "-"}, {"role": "assistant", "content": "-"}]
        start = self._tokens(before, add_generation_prompt=False)
        ends = [i for i, token in enumerate(start) if token == self.tokenizer.eos_token_id]
        if ends:  # the action brought its end of sequence; what a template writes after it is not yet there
            start = start[: ends[-1] + 1]
        whole = self._tokens([*before, {"role": "user", "content": text}], add_generation_prompt=True)
        if whole[: len(start)] != start:
            raise ConfigError(
                "the chat template writes an assistant's turn differently once another message follows: "
                "a conversation of several turns needs one that does not, or prompts of plain text"
            )
        return whole[len(start) :]

    def _tokens(self, messages: list[dict[str, str]], **options: Any) -> list[int]:
        return self.tokenizer.apply_chat_template(
            messages, tokenize=True, return_dict=True, **self.options, **options
        )["input_ids"]


BUILTIN = {"bfcl": "curro.contrib.bfcl:Bfcl"}


def resolve_environment(spec: str | None, prompts: PromptSet) -> Environment | None:
    """The environment that `spec` names; None for prompts that are answered in one turn.

    Args:
        spec: `bfcl`, or a function of your own that makes one, or its class, as `module:function`; with
            options, `bfcl:partial=true`. None for the lab's or BFCL's own, if there is one.

    Raises:
        ConfigError: no such module or function, or what it makes is not an environment.
    """
    if spec is not None:
        return checked(_made(spec), spec)
    provided = provider(prompts.source)
    return None if provided is None else provided[0].environment(provided[1])


def _made(spec: str) -> Environment:
    name, _, arguments = spec.partition(":")
    if name in BUILTIN:
        factory = load_object(BUILTIN[name], "environment")
    elif arguments:
        function, _, arguments = arguments.partition(":")
        factory = load_callable(f"{name}:{function}", "environment")
    else:
        raise ConfigError(
            f"no environment is called {spec!r}{did_you_mean(spec, BUILTIN)}; "
            f"there is: {', '.join(BUILTIN)}; your own is module:function"
        )
    options = parse_options(arguments, spec)
    return construct(f"environment {name!r}", factory, options, options.pop("", []))


def checked(environment: Environment, spec: str) -> Environment:
    """The environment; raises ConfigError where it is none."""
    if isinstance(environment, type):
        raise ConfigError(f"environment {spec!r} is a class: give an object of it")
    if not callable(getattr(environment, "start", None)):
        raise ConfigError(f"environment {spec!r} has no method start(row, seed)")
    for name in ("turns", "turn_tokens"):
        value = getattr(environment, name, None)
        if not isinstance(value, int) or value < 1:
            raise ConfigError(f"environment {spec!r}: its {name} is a number from 1, not {value!r}")
    return environment
