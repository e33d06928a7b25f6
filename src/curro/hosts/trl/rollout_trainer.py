"""A GRPOTrainer that rolls out given prompts, in groups of any sizes, and keeps what it generated."""

from __future__ import annotations

from typing import Any, cast

import torch
from accelerate.utils import gather_object

from curro.environments.environment import Environment, episode_reward
from curro.errors import ConfigError
from curro.hosts.trl.auxiliary_trainer import AuxiliaryLossTrainer
from curro.hosts.trl.episodes import EpisodeRollouts
from curro.hosts.trl.generated import Generated
from curro.hosts.trl.owner import own_share
from curro.reward.adapters import completion_text, trl_reward
from curro.runs.writer import Completion


class RolloutTrainer(AuxiliaryLossTrainer):
    """TRL's GRPOTrainer, rolling out prompts by their numbers.

    Args:
        environment: plays every rollout as an episode; its reward counts where no reward function is given.
        args, kwargs: as GRPOTrainer takes them.

    Attributes:
        rows: the rows of the data set that this process is rolling out, one a rollout.

    Raises:
        ConfigError: an environment and a `rollout_func`.
    """

    num_generations: int
    rows: list[dict[str, Any]]

    def __init__(self, *args: Any, environment: Environment | None = None, **kwargs: Any) -> None:
        if environment is not None:
            if kwargs.get("rollout_func") is not None:
                raise ConfigError("an environment plays the rollouts: give it or a rollout_func, not both")
            if len(args) < 2:
                kwargs.setdefault("reward_funcs", trl_reward(episode_reward("environment")))
        super().__init__(*args, **kwargs)
        if environment is not None:
            self.rollout_func = cast(Any, EpisodeRollouts(environment, lambda: self.rows))
        self.environment = environment

    def _roll_out_prompts(self, prompts: list[int]) -> Generated:
        """Generate and score one rollout of each of these prompts of all processes."""
        mine = own_share(self.accelerator, prompts)
        row = {prompt: self.train_dataset[prompt] for prompt in dict.fromkeys(mine)}
        self.rows = [dict(row[prompt]) for prompt in mine]
        usual = self.num_generations
        if self.curriculum.has_allocation:
            self.num_generations = len(prompts)  # TRL's groups have one size; nothing of them is used
        try:
            output = super()._generate_and_score_completions(self.rows)
        finally:
            self.num_generations = usual
        return Generated(output, self._rewards, gather_object(self._completions))

    def _generate_single_turn(
        self,
        prompt_ids: Any,
        images: Any,
        multimodal_fields: Any,
        num_generations: int,
        has_tool_images: bool = False,
    ) -> Any:
        """TRL's; of groups of different sizes, a vLLM server is asked for each rollout by itself."""
        if self.curriculum.has_allocation and self.model.training:  # type: ignore[union-attr]
            num_generations = 1
        return super()._generate_single_turn(
            prompt_ids, images, multimodal_fields, num_generations, has_tool_images
        )

    def _calculate_rewards(
        self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any
    ) -> torch.Tensor:
        host = cast(Any, self)
        self._rewards: torch.Tensor = super()._calculate_rewards(
            inputs, prompts, completions, completion_ids_list
        )
        ends = {*host.eos_token_ids, host._tokenizer.pad_token_id}
        self._completions = [
            Completion(completion_text(text), len(ids), not ids or ids[-1] not in ends)
            for text, ids in zip(completions, completion_ids_list, strict=True)
        ]
        return self._rewards
