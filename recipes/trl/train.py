"""Trains with TRL by a recipe: one YAML file with TRL's own options and the few of a curriculum.

    python recipes/trl/train.py --config recipes/small/pspo.yaml              # the lab's model, one core
    accelerate launch recipes/trl/train.py --config recipes/trl/pspo.yaml     # the paper's size, GPUs

Every option of the file can be given on the command line too (`--max_steps 10`). What it gives up beside
`curro train`: the run folder, its report and evaluation on the way; `curro evaluate` measures the model then.
"""

from __future__ import annotations

from dataclasses import dataclass

from trl import GRPOConfig, ModelConfig, TrlParser, get_peft_config

from curro.curriculum import Curriculum
from curro.data import load_prompts
from curro.hosts.trl import CurriculumGRPOTrainer
from curro.registry import parse_curriculum
from curro.reward import resolve_reward
from curro.rollout.engines.models import load_model
from curro.training.prepared import row_rewards, training_set


@dataclass
class CurriculumArguments:
    """What TRL has no option for.

    Attributes:
        data: the training prompts, as `curro train --data` takes them.
        limit: train on the first so many.
        curriculum: as `curro train --curriculum` takes it, with `advantage=` and `admission=`.
        reward: as `curro train --reward` takes it.
        largest_reward: the reward of complete success; 0 is that of complete failure.
    """

    data: str
    curriculum: str
    limit: int | None = None
    reward: str = "auto"
    largest_reward: float = 1.0


def trainer_of(
    arguments: CurriculumArguments, config: GRPOConfig, model_config: ModelConfig
) -> CurriculumGRPOTrainer:
    """The trainer of a recipe; nothing is trained yet."""
    prompts = load_prompts(arguments.data, limit=arguments.limit)
    reward = resolve_reward(arguments.reward, prompts)
    model, tokenizer = load_model(str(model_config.model_name_or_path), dtype=model_config.dtype)
    settings = parse_curriculum(arguments.curriculum) | {
        "reward_range": (0.0, arguments.largest_reward),
        "seed": config.seed,
    }
    config.reward_weights = list(reward.weights.values())
    return CurriculumGRPOTrainer(
        model=model,
        processing_class=tokenizer,
        reward_funcs=row_rewards(reward, prompts, [tokenizer.eos_token_id], environment=False),
        train_dataset=training_set(prompts, environment=False),
        curriculum=Curriculum.from_config(settings, prompts),
        args=config,
        peft_config=get_peft_config(model_config),
    )


def parser() -> TrlParser:
    return TrlParser((CurriculumArguments, GRPOConfig, ModelConfig))


def main() -> None:
    trainer = trainer_of(*parser().parse_args_and_config())
    trainer.train()
    trainer.save_model()


if __name__ == "__main__":
    main()
