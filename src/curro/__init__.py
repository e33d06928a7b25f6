"""curro decides which prompts a policy practises on next, from the rewards it has just earned."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from curro.core import old_paths

if TYPE_CHECKING:
    from curro.core.bases import Advantage, Allocation, Choice, Gate, Outcome, Predictor, Reason, Selection
    from curro.core.curriculum import Curriculum
    from curro.core.errors import (
        CheckpointError,
        ConfigError,
        CurroError,
        ExhaustedError,
        RewardError,
        TicketError,
    )
    from curro.core.groups import Groups
    from curro.core.policy import AuxiliarySamples, Policy, Reply
    from curro.core.prompts import PromptTable
    from curro.core.verdicts import Draw, Verdict

__all__ = [
    "Advantage",
    "Allocation",
    "AuxiliarySamples",
    "CheckpointError",
    "Choice",
    "ConfigError",
    "Curriculum",
    "CurroError",
    "Draw",
    "ExhaustedError",
    "Gate",
    "Groups",
    "Outcome",
    "Policy",
    "Predictor",
    "PromptTable",
    "Reason",
    "Reply",
    "RewardError",
    "Selection",
    "TicketError",
    "Verdict",
]

_HOMES = {
    "curro.core.bases": (
        "Advantage",
        "Allocation",
        "Choice",
        "Gate",
        "Outcome",
        "Predictor",
        "Reason",
        "Selection",
    ),
    "curro.core.curriculum": ("Curriculum",),
    "curro.core.verdicts": ("Draw", "Verdict"),
    "curro.core.errors": (
        "CheckpointError",
        "ConfigError",
        "CurroError",
        "ExhaustedError",
        "RewardError",
        "TicketError",
    ),
    "curro.core.groups": ("Groups",),
    "curro.core.policy": ("AuxiliarySamples", "Policy", "Reply"),
    "curro.core.prompts": ("PromptTable",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

old_paths.install()


def __getattr__(name: str) -> Any:
    """Import what is asked for: `curro --help` needs nothing, and NumPy alone takes a tenth of a second."""
    if name == "__version__":
        return import_module("importlib.metadata").version("curro")
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
