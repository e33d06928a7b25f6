"""An environment by its name."""

from __future__ import annotations

from curro.data.prompt_set import PromptSet
from curro.environments.environment import Environment
from curro.errors import ConfigError
from curro.loading import load_callable, load_object
from curro.messages import did_you_mean
from curro.providers import provider
from curro.registry import construct, parse_options

BUILTIN = {"bfcl": "curro.environments.bfcl:Bfcl"}


def resolve_environment(spec: str | None, prompts: PromptSet) -> Environment | None:
    """The environment that `spec` names; None for prompts that are answered in one turn.

    Args:
        spec: `bfcl`, or a function of your own that makes one, or its class, as `module:function`; with
            options, `bfcl:partial=true`; None for that of the lab's or BFCL's prompts, where they have one.

    Raises:
        ConfigError: no such module or function, or what it makes is no environment.
    """
    if spec is not None:
        return _checked(_made(spec), spec)
    found = provider(prompts.source)
    return None if found is None else found[0].environment(found[1])


def _made(spec: str) -> Environment:
    name, _, rest = spec.partition(":")
    if name in BUILTIN:
        factory = load_object(BUILTIN[name], "environment")
    elif rest:
        function, _, rest = rest.partition(":")
        factory = load_callable(f"{name}:{function}", "environment")
    else:
        raise ConfigError(
            f"no environment is called {spec!r}{did_you_mean(spec, BUILTIN)}; "
            f"there is: {', '.join(BUILTIN)}; your own is module:function"
        )
    options = parse_options(rest, spec)
    return construct(f"environment {name!r}", factory, options, options.pop("", []))


def _checked(made: Environment, spec: str) -> Environment:
    for name in ("turns", "turn_tokens"):
        value = getattr(made, name, None)
        if not isinstance(value, int) or value < 1:
            raise ConfigError(f"environment {spec!r}: its {name} is a number from 1, not {value!r}")
    if not callable(getattr(made, "start", None)):
        raise ConfigError(f"environment {spec!r} has no method start(row, seed)")
    return made
