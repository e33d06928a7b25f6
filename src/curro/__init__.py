"""curro decides which prompts a policy practises on next, from the rewards it has just earned."""

from curro.admission.gate import Gate
from curro.advantage.base import Advantage
from curro.allocation.base import Allocation
from curro.curriculum import Curriculum
from curro.draws import Draw
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
from curro.verdicts import Verdict

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
