"""curro decides which prompts a policy practises on next, from the rewards it has just earned."""

from curro.admission.gate import Gate
from curro.advantage.base import Advantage
from curro.curriculum import Curriculum, Draw, Verdict
from curro.errors import (
    CheckpointError,
    ConfigError,
    CurroError,
    ExhaustedError,
    RewardError,
    TicketError,
)
from curro.groups import Groups
from curro.lessons import Lessons, Policy, Reply
from curro.prediction.base import Predictor
from curro.prompts import PromptTable
from curro.selection.base import Choice, Outcome, Reason, Selection

__all__ = [
    "Advantage",
    "CheckpointError",
    "Choice",
    "ConfigError",
    "Curriculum",
    "CurroError",
    "Draw",
    "ExhaustedError",
    "Gate",
    "Groups",
    "Lessons",
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
