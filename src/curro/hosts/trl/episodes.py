"""Episodes as TRL's rollouts: its `rollout_func`, with observations masked out of the loss."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch

from curro.hosts.trl.seams import end_tokens, replaced, single_completions
from curro.reward.environments.environment import EPISODE_REWARD, ObservationTokens, episode_seed
from curro.reward.environments.play import play


def play_episodes(prompts: list[Any], trainer: Any) -> dict[str, Any]:
    """Play an episode for each of the trainer's rows, with TRL's own generation for every turn.

    It is TRL's `rollout_func`, which gets the trainer. TRL trains on the tokens whose `env_mask` is 1, and
    counts those alone as a completion's length; the episode's reward reaches the reward function as a column.
    """
    accelerator, rows, environment = trainer.accelerator, trainer.rows, trainer.environment
    prompt_ids = trainer._tokenize_prompts(prompts)[0]

    def generate(contexts: list[list[int]]) -> tuple[list[list[int]], list[list[float]] | None]:
        with single_completions(trainer) as number:
            return trainer._generate_single_turn(contexts, None, {}, *number)

    def anyone(playing: bool) -> bool:
        return bool(accelerator.gather(torch.tensor([playing], device=accelerator.device)).any())

    when = (trainer.args.seed, trainer.state.global_step)
    config = getattr(trainer, "generation_config", None)
    # transformers generates no more than an action has; vLLM's actions are cut afterwards
    short_turns = (
        nullcontext()
        if config is None
        else replaced(config, max_new_tokens=min(environment.turn_tokens, config.max_new_tokens))
    )
    with short_turns:
        played = play(
            environment,
            rows,
            prompt_ids,
            [episode_seed(row, *when) for row in rows],
            tokenizer=trainer._tokenizer,
            ends=set(end_tokens(trainer)),
            observations=ObservationTokens(
                trainer.processing_class, template=trainer.chat_template, options=trainer.chat_template_kwargs
            ),
            generate=generate,
            max_tokens=trainer.max_completion_length,
            anyone=anyone,
        )
    logprobs = [trajectory.logprobs for trajectory in played]
    return {
        "prompt_ids": prompt_ids,
        "completion_ids": [trajectory.ids for trajectory in played],
        "logprobs": logprobs if any(logprobs) else None,
        "env_mask": [trajectory.action_mask for trajectory in played],
        EPISODE_REWARD: [trajectory.reward for trajectory in played],
    }
