"""A reward by its name."""

from __future__ import annotations

from curro.data.labs import lab_family
from curro.data.prompt_set import PromptSet
from curro.errors import ConfigError
from curro.messages import did_you_mean
from curro.reward import exact, lab, math, reasoning_gym, user
from curro.reward.reward import Reward

_VERIFIERS = {"math": math.verify, "exact": exact.verify, "reasoning-gym": reasoning_gym.verify}
_NAMES = [*_VERIFIERS, "lab", "auto"]


def resolve_reward(spec: str = "auto", prompts: PromptSet | None = None) -> Reward:
    """The reward that `spec` names.

    Args:
        spec: `math`, `exact`, `reasoning-gym`, `lab` (for prompts of the lab) or `lab:FAMILY`, a function of
            your own as `module:function`, or `auto`: the lab's prompts get `lab`, those with reasoning-gym's
            metadata `reasoning-gym`, all others `math`.
        prompts: what will be scored; checked for the columns that the reward needs.

    Raises:
        ConfigError: no such reward, module, function or family, or the prompts lack what it needs.
    """
    if spec == "auto":
        spec = _automatic(prompts)
    if spec == "lab" and prompts is not None and prompts.source.startswith("lab:"):
        spec = prompts.source.partition("/")[0]
    family = lab_family(spec)
    if family is not None:
        return Reward(spec, lab.load(family))
    if spec == "lab":
        raise ConfigError(
            "the reward 'lab' scores the lab's prompts: use data lab:FAMILY, or reward lab:FAMILY"
        )
    if spec in _VERIFIERS:
        _check_columns(spec, prompts)
        return Reward(spec, _VERIFIERS[spec])
    if ":" in spec:
        return Reward(spec, user.load(spec))
    raise ConfigError(
        f"no reward is called {spec!r}{did_you_mean(spec, _NAMES)}; there are: {', '.join(_NAMES)}; "
        "your own is module:function"
    )


def _automatic(prompts: PromptSet | None) -> str:
    if prompts is not None and prompts.source.startswith("lab:"):
        return "lab"
    if prompts is not None and reasoning_gym.source_data_set(prompts[0]) is not None:
        return "reasoning-gym"
    return "math"


def _check_columns(spec: str, prompts: PromptSet | None) -> None:
    if prompts is None:
        return
    if spec == "reasoning-gym":
        if reasoning_gym.source_data_set(prompts[0]) is None:
            raise ConfigError(
                "the reward 'reasoning-gym' needs rows with metadata that name their source_dataset, as "
                f"reasoning-gym writes them; the columns are {', '.join(prompts[0])}"
            )
    elif all(row["answer"] is None for row in prompts):
        raise ConfigError(
            f"the reward {spec!r} compares with an answer and no row has one: name its column with "
            f"answer_column; the columns are {', '.join(prompts[0])}"
        )
