"""curro in TRL: a `GRPOTrainer` whose prompts are chosen by a curriculum."""

from curro.hosts.trl.observe import GroupRecord
from curro.hosts.trl.trainer import CurriculumGRPOTrainer
from curro.rollout.fill_settings import FillSettings
from curro.runs.writer import KeepRollouts

__all__ = ["CurriculumGRPOTrainer", "FillSettings", "GroupRecord", "KeepRollouts"]
