"""Run unread programs without harm."""

from curro.reward.sandbox.confinement import Confinement
from curro.reward.sandbox.limits import Limits
from curro.reward.sandbox.run import ProgramNotBegun, ProgramRun, find_confinement, run

__all__ = ["Confinement", "Limits", "ProgramNotBegun", "ProgramRun", "find_confinement", "run"]
