"""Small models and families of tasks on which reinforcement learning shows within two minutes on one core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from curro.core.errors import ConfigError
from curro.lab.families.chain_sum import ChainSum
from curro.lab.families.chains import Chains, ChainsCalibrated, ChainsJudge, ChainsShare
from curro.lab.families.locks import Locks
from curro.lab.families.spell_backward import SpellBackward
from curro.lab.family import Family, Recipe

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = ["Family", "Recipe", "families", "family", "load"]

_FAMILIES: dict[str, type[Family]] = {
    cls.name: cls
    for cls in (
        Chains,
        ChainsJudge,
        ChainsCalibrated,
        ChainsShare,
        ChainSum,
        SpellBackward,
        Locks,
    )
}


def families() -> list[str]:
    """The names of the families."""
    return list(_FAMILIES)


def family(name: str) -> Family:
    """The family of that name."""
    if name not in _FAMILIES:
        raise ConfigError(f"the lab has no family {name!r}; there are: {', '.join(_FAMILIES)}")
    return _FAMILIES[name]()


def load(name: str) -> tuple[Any, PreTrainedTokenizerFast]:
    """The family's warm model (float32, on the CPU) and its tokenizer, as shipped with curro."""
    from curro.lab.model import load as load_shipped  # torch takes seconds to import

    return load_shipped((name in _FAMILIES and _FAMILIES[name].checkpoint) or name)
