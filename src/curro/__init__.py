"""curro decides which prompts a policy practises on next, from the rewards it has just earned."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from curro.admission.gate import Gate
    from curro.advantage.base import Advantage
    from curro.allocation.base import Allocation
    from curro.curriculum import Curriculum
    from curro.errors import (
        CheckpointError,
        ConfigError,
        CurroError,
        ExhaustedError,
        RewardError,
        TicketError,
    )
    from curro.groups import Groups
    from curro.policy import AuxiliarySamples, Policy, Reply
    from curro.prediction.base import Predictor
    from curro.prompts import PromptTable
    from curro.selection.base import Choice, Outcome, Reason, Selection
    from curro.verdicts import Draw, Verdict

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
    "curro.admission.gate": ("Gate",),
    "curro.advantage.base": ("Advantage",),
    "curro.allocation.base": ("Allocation",),
    "curro.curriculum": ("Curriculum",),
    "curro.verdicts": ("Draw", "Verdict"),
    "curro.errors": (
        "CheckpointError",
        "ConfigError",
        "CurroError",
        "ExhaustedError",
        "RewardError",
        "TicketError",
    ),
    "curro.groups": ("Groups",),
    "curro.policy": ("AuxiliarySamples", "Policy", "Reply"),
    "curro.prediction.base": ("Predictor",),
    "curro.prompts": ("PromptTable",),
    "curro.selection.base": ("Choice", "Outcome", "Reason", "Selection"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import what is asked for: `curro --help` needs nothing, and NumPy alone takes a tenth of a second."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
