"""curro in TRL: a `GRPOTrainer` whose prompts are chosen by a curriculum."""

from curro.hosts.trl.refill import RefillSettings
from curro.hosts.trl.trainer import CurriculumGRPOTrainer, GroupRecord

__all__ = ["CurriculumGRPOTrainer", "GroupRecord", "RefillSettings"]
