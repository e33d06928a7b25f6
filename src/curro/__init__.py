"""curro decides which prompts a policy practises on next, from the rewards it has just earned."""

from curro.curriculum import Curriculum, Draw, Verdict
from curro.errors import (
    CheckpointError,
    ConfigError,
    CurroError,
    ExhaustedError,
    RewardError,
    TicketError,
)
from curro.prompts import PromptTable
from curro.selection.base import Choice, Outcome, Reason, Selection

__all__ = [
    "CheckpointError",
    "Choice",
    "ConfigError",
    "Curriculum",
    "CurroError",
    "Draw",
    "ExhaustedError",
    "Outcome",
    "PromptTable",
    "Reason",
    "RewardError",
    "Selection",
    "TicketError",
    "Verdict",
]
