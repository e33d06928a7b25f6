"""An environment by its name."""

from __future__ import annotations

from curro.data.labs import lab_family
from curro.data.prompt_set import PromptSet
from curro.environments.environment import Environment
from curro.errors import ConfigError
from curro.reward.user import function_of


def resolve_environment(spec: str | None, prompts: PromptSet) -> Environment | None:
    """The environment that `spec` names; None for prompts that are answered in one turn.

    Args:
        spec: a function of your own without arguments that makes one, or its class, as `module:function`;
            None for that of the prompts' lab family, where it has one.

    Raises:
        ConfigError: no such module or function, or what it makes is no environment.
    """
    if spec is not None:
        return _checked(function_of(spec, "environment")(), spec)
    name = lab_family(prompts.source)
    if name is None:
        return None
    from curro.lab import family
    from curro.lab.episodes import EpisodeFamily

    found = family(name)
    return found if isinstance(found, EpisodeFamily) else None


def _checked(made: Environment, spec: str) -> Environment:
    for name in ("turns", "turn_tokens"):
        value = getattr(made, name, None)
        if not isinstance(value, int) or value < 1:
            raise ConfigError(f"environment {spec!r}: its {name} is a number from 1, not {value!r}")
    if not callable(getattr(made, "start", None)):
        raise ConfigError(f"environment {spec!r} has no method start(row, seed)")
    return made
