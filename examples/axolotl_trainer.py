"""axolotl's GRPO trainer with a curriculum: a class that axolotl's YAML names.

    # config.yaml, beside this file
    rl: grpo
    trainer_cls: axolotl_trainer.CurriculumTrainer
    trl: {num_generations: 8, reward_funcs: [rewards.correct]}

axolotl passes its own arguments on, and its optimizers and schedulers stay. axolotl 0.19.0 built this class
and trained two steps with TRL 1.9.0 on a CPU; several processes and a GPU were not tried.
"""

from typing import Any

from axolotl.core.trainers.grpo.trainer import AxolotlGRPOTrainer

from curro.hosts.trl import CurriculumGRPOTrainer


class CurriculumTrainer(CurriculumGRPOTrainer, AxolotlGRPOTrainer):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, curriculum="frontier", **kwargs)
