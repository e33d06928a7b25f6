"""Tasks of several turns in verl: an agent loop that plays an episode of curro's environments per rollout.

A file for `actor_rollout_ref.rollout.agent.agent_loop_config_path` names the loop and the environment:

    - name: curro_episodes
      _target_: curro.hosts.verl.episodes.EpisodeLoop
      environment: bfcl:partial=true

and `actor_rollout_ref.rollout.agent.default_agent_loop=curro_episodes` chooses it.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import Any
from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from curro.core.errors import ConfigError
from curro.data import PromptSet
from curro.data.raw import Row
from curro.reward.environments import resolve_environment
from curro.reward.environments.environment import ObservationTokens, episode_seed
from curro.reward.environments.play import Playing


class EpisodeLoop(AgentLoopBase):
    """Plays one rollout as an episode of several turns.

    Observations are masked out of the loss. The episode's reward is the rollout's, so verl's reward loop does
    not score it.

    Args:
        environment: as `curro train --environment` takes it.
    """

    def __init__(self, *args: Any, environment: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        row = {"prompt": "-", "answer": None, "key": "-"}
        resolved = resolve_environment(environment, PromptSet([row]))
        if resolved is None:
            raise ConfigError("an agent loop of curro's needs an environment, as bfcl:partial=true")
        self.environment = resolved

    async def run(
        self, sampling_params: dict[str, Any], priority: int = 0, **columns: Any
    ) -> AgentLoopOutput:
        """Play an episode; verl passes the row of its data set as `columns`."""
        row = row_of(columns)
        prompt = await self.ct_build_initial_tokens(row["prompt"])
        playing = Playing(
            self.environment,
            row,
            prompt,
            episode_seed(row, int(columns.get("global_steps", 0))),
            tokenizer=self.tokenizer,
            ends={self.tokenizer.eos_token_id},
            observations=ObservationTokens(self.tokenizer, options=dict(self.apply_chat_template_kwargs)),
            max_tokens=self.rollout_config.response_length,
        )
        request, generation_seconds, environment_seconds = uuid4().hex, 0.0, 0.0
        versions: dict[str, Any] = {}
        goes_on = True
        while goes_on:
            since = time.perf_counter()
            written = await self.server_manager.generate(
                request_id=request,
                prompt_ids=playing.context,
                sampling_params=sampling_params | {"max_tokens": playing.limit},
                priority=int(priority),
            )
            generation_seconds += time.perf_counter() - since
            versions = {**written.extra_fields, "min_global_steps": versions.get("min_global_steps",
                        written.extra_fields.get("min_global_steps"))}  # fmt: skip
            since = time.perf_counter()
            goes_on = await asyncio.to_thread(playing.act, list(written.token_ids), written.log_probs)
            environment_seconds += time.perf_counter() - since
        trajectory = await asyncio.to_thread(playing.end)
        return AgentLoopOutput(
            prompt_ids=prompt,
            response_ids=trajectory.ids,
            response_mask=trajectory.action_mask,
            response_logprobs=trajectory.logprobs or None,
            reward_score=math.nan if trajectory.reward is None else float(trajectory.reward),
            num_turns=2 * playing.actions,
            metrics=AgentLoopMetrics(generate_sequences=generation_seconds, tool_calls=environment_seconds),
            extra_fields={**versions, "reward_extra_info": {}, "turn_scores": [], "tool_rewards": []},
        )


def row_of(columns: dict[str, Any]) -> Row:
    """The row as environments take it; verl names the prompt `raw_prompt` and keeps the answer in a dict."""
    answer = (columns.get("reward_model") or {}).get("ground_truth")
    key = str(columns.get("key", columns.get("uid", "-")))
    return {**columns, "prompt": list(columns["raw_prompt"]), "answer": answer, "key": key}
