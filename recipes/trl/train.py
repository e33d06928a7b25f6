"""Trains with TRL by a recipe: one YAML file with TRL's own options and the few of a curriculum.

    python recipes/trl/train.py --config recipes/small/pspo.yaml              # the lab's model, one core
    accelerate launch recipes/trl/train.py --config recipes/trl/pspo.yaml     # the paper's size, GPUs

Every option of the file can be given on the command line too (`--max_steps 10`). Weights are float32 unless
the file says otherwise: bfloat16 weights lose the steps of a learning rate of 1e-6, and `bf16: true` computes
in bfloat16 all the same. The run's groups and held-out scores go into the folder `curro` of `output_dir`, for
`curro watch`. What it gives up beside `curro train`: the budget in rollouts and the report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from datasets import Dataset
from trl import GRPOConfig, ModelConfig, TrlParser, get_peft_config

from curro.core.curriculum import Curriculum
from curro.core.errors import ConfigError
from curro.data import load_prompts
from curro.data.prompt_set import PromptSet
from curro.hosts.trl import CurriculumGRPOTrainer
from curro.reward import resolve_reward
from curro.rollout.engines.models import load_model
from curro.rollout.fill_settings import FillSettings
from curro.runs.writer import KeepRollouts
from curro.training.plan import with_known
from curro.training.settings import TrainSettings
from curro.training.trl_arguments import row_rewards, training_set


@dataclass
class CurriculumArguments:
    """Options that TRL lacks; each is an option of `curro train` of the same name, with its default.

    Attributes:
        data: the training prompts.
        curriculum: the selection, and with `allocation=`, `advantage=` and `admission=` the other parts.
        limit: train on the first so many.
        known: pass rates known before the first rollout: a column, or the folder of `curro estimate`.
        reward: how completions are scored.
        lowest_reward, largest_reward: the rewards of complete failure and of complete success.
        sandbox: how programs that the model wrote are confined.
        reward_workers: how many processes run a reward function of one's own.
        fill_limit: with a gate, the most groups to generate for one step, as a multiple of its prompts.
        when_short: with a gate, "error" or "top-up" at that limit.
        keep_rollouts: how many rollouts of each group the run folder keeps.
        keep_megabytes: the size at which it keeps no more.
        eval_data: files of held-out prompts, which TRL evaluates every `eval_steps`, each under its name. If
            there are several, `eval_mean_reward` is the mean of their rewards.
        eval_prompts: evaluate on the first so many of each.
    """

    data: str
    curriculum: str
    limit: int | None = None
    known: str | None = None
    reward: str = "auto"
    lowest_reward: float = 0.0
    largest_reward: float = 1.0
    sandbox: str = "auto"
    reward_workers: int = 1
    fill_limit: float = 10.0
    when_short: str = "top-up"
    keep_rollouts: int = 0
    keep_megabytes: float = 1000.0
    eval_data: list[str] = field(default_factory=list)
    eval_prompts: int | None = None

    @property
    def shared(self) -> dict[str, Any]:
        """Values of the settings that `curro train` has too, without those of evaluation."""
        own = ("lowest_reward", "largest_reward", "eval_data", "eval_prompts")
        return {name: value for name, value in vars(self).items() if name not in own}


class RecipeTrainer(CurriculumGRPOTrainer):
    """Adds the mean reward of several held-out files, by which METIS chooses its checkpoint (table 1)."""

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: Any = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """Evaluate each file as TRL does, and add `eval_mean_reward`."""
        files = self.eval_dataset if eval_dataset is None else eval_dataset
        if not isinstance(files, dict):
            return super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)
        metrics, rewards = {}, []
        for name in files:
            scores = super().evaluate(files[name], ignore_keys, f"{metric_key_prefix}_{name}")
            rewards.append(scores["eval_reward"])  # TRL logs the reward of every file under this name
            metrics |= scores
        mean = {f"{metric_key_prefix}_mean_reward": sum(rewards) / len(rewards)}
        self.log(dict(mean))
        return metrics | mean


def with_held_out(
    arguments: CurriculumArguments, prompts: PromptSet
) -> tuple[Sequence[Mapping[str, Any]], dict[str, Dataset] | None]:
    """The training rows followed by the held-out ones, and TRL's data sets of the latter by name.

    A reward finds the row of a completion by its number, so held-out rows are numbered after the others.

    Raises:
        ConfigError: two files of one name.
    """
    if not arguments.eval_data:
        return prompts, None
    rows, sets = list(prompts), {}
    for source in arguments.eval_data:
        name = source if source.startswith("lab:") else Path(source).stem
        if name in sets:
            raise ConfigError(f"two files of held-out prompts have the name {name!r}: rename one")
        held_out = load_prompts(source, split="test", limit=arguments.eval_prompts)
        numbers = range(len(rows), len(rows) + len(held_out))
        table = training_set(held_out, environment=False).remove_columns("prompt_id")
        sets[name] = table.add_column("prompt_id", list(numbers))
        rows += list(held_out)
    return rows, sets


def trainer_of(
    arguments: CurriculumArguments, config: GRPOConfig, model_config: ModelConfig
) -> RecipeTrainer:
    """The trainer of a recipe; nothing is trained yet."""
    settings = TrainSettings(
        **arguments.shared, reward_range=(arguments.lowest_reward, arguments.largest_reward), seed=config.seed
    )
    prompts = load_prompts(arguments.data, limit=arguments.limit)
    curriculum_config = settings.curriculum_config
    if arguments.known is not None:
        curriculum_config, prompts = with_known(curriculum_config, prompts, arguments.known)
    rows, held_out = with_held_out(arguments, prompts)
    reward = resolve_reward(settings.reward, prompts, limits=settings.reward_limits, sandbox=settings.sandbox)
    config.reward_weights = list(reward.weights.values())
    model, tokenizer = load_model(str(model_config.model_name_or_path), dtype=model_config.dtype)
    return RecipeTrainer(
        model=model,
        processing_class=tokenizer,
        reward_funcs=row_rewards(reward, rows, [tokenizer.eos_token_id], environment=False),
        train_dataset=training_set(prompts, environment=False),
        eval_dataset=held_out,
        curriculum=Curriculum.from_config(curriculum_config, prompts),
        fill=FillSettings(arguments.fill_limit, arguments.when_short),
        keep=KeepRollouts(arguments.keep_rollouts, arguments.keep_megabytes),
        args=config,
        peft_config=get_peft_config(model_config),
    )


def parser() -> TrlParser:
    return TrlParser((CurriculumArguments, GRPOConfig, ModelConfig))


def main(arguments: Sequence[str] | None = None) -> RecipeTrainer:
    trainer = trainer_of(*parser().parse_args_and_config(arguments))
    trainer.train()
    trainer.save_model()
    return trainer


if __name__ == "__main__":
    main()
