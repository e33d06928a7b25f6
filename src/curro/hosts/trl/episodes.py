"""Episodes as TRL's rollouts: its `rollout_func`, with observations masked out of the loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from curro.hosts.trl.seams import end_tokens
from curro.reward.environments.environment import EPISODE_REWARD, Environment, ObservationTokens, episode_seed
from curro.reward.environments.play import play


class EpisodeRollouts:
    """Plays an episode for each of the trainer's rows, with TRL's own generation for every turn.

    TRL trains on the tokens whose `env_mask` is 1, and counts those alone as a completion's length; the
    episode's reward reaches the reward function as a column.
    """

    def __init__(self, environment: Environment, rows: Callable[[], list[dict[str, Any]]]) -> None:
        self.environment, self.rows = environment, rows

    def __call__(self, prompts: list[Any], trainer: Any) -> dict[str, Any]:
        """TRL's `rollout_func`: it passes its trainer."""
        host, accelerator, rows = trainer, trainer.accelerator, self.rows()
        prompt_ids = host._tokenize_prompts(prompts)[0]

        def generate(contexts: list[list[int]]) -> tuple[list[list[int]], list[list[float]] | None]:
            return host._generate_single_turn(contexts, None, {}, num_generations=1)

        def anyone(playing: bool) -> bool:
            return bool(accelerator.gather(torch.tensor([playing], device=accelerator.device)).any())

        when = (trainer.args.seed, trainer.state.global_step)
        with _short_turns(host, self.environment.turn_tokens):
            played = play(
                self.environment,
                rows,
                prompt_ids,
                [episode_seed(row, *when) for row in rows],
                tokenizer=host._tokenizer,
                ends=set(end_tokens(host)),
                observations=ObservationTokens(
                    host.processing_class, template=host.chat_template, options=host.chat_template_kwargs
                ),
                generate=generate,
                max_tokens=host.max_completion_length,
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


@contextmanager
def _short_turns(host: Any, tokens: int) -> Iterator[None]:
    """Let transformers generate no more than an action has; vLLM's are cut afterwards."""
    config = getattr(host, "generation_config", None)
    if config is None:
        yield
        return
    usual = config.max_new_tokens
    config.max_new_tokens = min(tokens, usual)
    try:
        yield
    finally:
        config.max_new_tokens = usual
