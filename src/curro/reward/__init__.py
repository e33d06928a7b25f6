"""Verifiers: completions in, rewards out."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from curro.reward.adapters import group_scorer, trl_reward
    from curro.reward.resolve import resolve_reward
    from curro.reward.reward import Reward

__all__ = ["Reward", "group_scorer", "resolve_reward", "trl_reward"]

_HOMES = {
    "group_scorer": "adapters",
    "resolve_reward": "resolve",
    "Reward": "reward",
    "trl_reward": "adapters",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for: worker processes load single modules of this folder, and need no more."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
