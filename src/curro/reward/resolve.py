"""A reward by its name."""

from __future__ import annotations

import math
import re

from curro.data.prompt_set import PromptSet
from curro.errors import ConfigError
from curro.messages import did_you_mean
from curro.providers import provider
from curro.registry import construct, parse_options
from curro.reward import reasoning_gym
from curro.reward.builtin import BUILTIN, check_columns
from curro.reward.reward import Reward
from curro.reward.user_processes import Limits, loader
from curro.reward.weighted import WeightedReward

_NAMES = [*BUILTIN, "lab", "auto"]
_TERM = re.compile(r"(?:(?P<weight>-?[0-9.]+(?:e-?[0-9]+)?)\*)?(?P<spec>.*)", re.DOTALL)


def resolve_reward(
    spec: str = "auto",
    prompts: PromptSet | None = None,
    *,
    limits: Limits | None = None,
    sandbox: str = "auto",
) -> Reward:
    """The reward that `spec` names.

    Args:
        spec: `math`, `exact`, `format`, `overlong:limit=4096,buffer=512`, or another of
            `curro.reward.builtin` with its options; `lab` (for prompts of the lab) or `lab:FAMILY`; a
            function of your own as `module:function`, with options that it is called with besides
            (`module:function:option=value`); or `auto`: the lab's prompts get `lab`, those with
            reasoning-gym's metadata `reasoning-gym`, all others `math`. Several with a plus between are a
            weighted sum: `math+0.2*format`.
        prompts: what will be scored; checked for the columns that the reward needs.
        sandbox: where the reward `code` runs programs, if its own option does not say:
            `curro.reward.sandbox.find_confinement`'s.
        limits: of processes in which a function of your own runs; without them it runs in this process.

    Raises:
        ConfigError: no such reward, option, module, function or family, or the prompts lack what it needs.
    """
    terms = spec.split("+")
    if len(terms) == 1 and "*" not in spec:
        return _single(spec, prompts, limits, sandbox)
    return WeightedReward(spec, [_weighted(term.strip(), spec, prompts, limits, sandbox) for term in terms])


def _weighted(
    term: str, spec: str, prompts: PromptSet | None, limits: Limits | None, sandbox: str
) -> tuple[float, Reward]:
    match = _TERM.fullmatch(term)
    if match is None or not match["spec"]:
        raise ConfigError(f"the reward {spec!r} has an empty part: write NAME or WEIGHT*NAME between plusses")
    try:
        weight = float(match["weight"] or 1.0)
    except ValueError:
        weight = math.nan
    if not math.isfinite(weight):
        raise ConfigError(f"{match['weight']!r} in the reward {spec!r} is no weight: write a number")
    part = _single(match["spec"].strip(), prompts, limits, sandbox)
    name = part.name.partition(":")[0]
    return weight, Reward(name, part.verify, part.verify_async) if name in BUILTIN else part


def _single(spec: str, prompts: PromptSet | None, limits: Limits | None, sandbox: str) -> Reward:
    if spec == "auto":
        spec = _automatic(prompts)
    if spec == "lab" and prompts is not None and prompts.source.startswith("lab:"):
        spec = prompts.source.partition("/")[0]
    found = provider(spec)
    if found is not None:
        return Reward(spec, found[0].verify(found[1]))
    if spec == "lab":
        raise ConfigError(
            "the reward 'lab' scores the lab's prompts: use data lab:FAMILY, or reward lab:FAMILY"
        )
    name, _, rest = spec.partition(":")
    if name in BUILTIN:
        if prompts is not None:
            check_columns(name, prompts[0], prompts)
        options = parse_options(rest, spec)
        if name == "code":
            options.setdefault("sandbox", sandbox)
        verify = construct(f"reward {name!r}", BUILTIN[name].make, options, options.pop("", []))
        return Reward(spec, verify, getattr(verify, "verify_async", None))
    if ":" in spec:
        function, _, more = rest.partition(":")
        return Reward(spec, loader(limits)(f"{name}:{function}", parse_options(more, spec)))
    raise ConfigError(
        f"no reward is called {spec!r}{did_you_mean(spec, _NAMES)}; there are: {', '.join(_NAMES)}; "
        "your own is module:function"
    )


def _automatic(prompts: PromptSet | None) -> str:
    if prompts is not None and provider(prompts.source) is not None:
        return prompts.source.partition("/")[0]
    if prompts is not None and reasoning_gym.source_data_set(prompts[0]) is not None:
        return "reasoning-gym"
    return "math"
