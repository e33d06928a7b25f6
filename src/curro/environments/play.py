"""Plays episodes: all of them a turn at a time, so that the model writes many actions at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from curro.environments.environment import Environment, Watched
from curro.environments.observation import ObservationTokens
from curro.reward.reward import Row, Score

Tokens = list[int]
Generate = Callable[[list[Tokens]], tuple[list[Tokens], list[list[float]] | None]]
"""Contexts in; out what the model writes after each, up to and with an end of sequence, and its log-probs."""


@dataclass
class Trajectory:
    """An episode in tokens.

    Attributes:
        ids: actions and observations as they follow the prompt, (T,); the last token is the model's.
        own: 1 for a token of the model's, 0 for one of an observation, (T,).
        logprobs: the model's at sampling, 0 for an observation's token, (T,); empty if they are not known.
        reward: of the whole; None if it is not scored.
    """

    ids: Tokens = field(default_factory=list)
    own: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    reward: Score = None

    def add(self, ids: Tokens, *, own: bool, logprobs: Sequence[float] | None) -> None:
        self.ids += ids
        self.own += [int(own)] * len(ids)
        if logprobs is not None:
            self.logprobs += logprobs


def play(
    environment: Environment,
    rows: Sequence[Row],
    prompts: Sequence[Tokens],
    seeds: Sequence[int],
    *,
    tokenizer: Any,
    ends: set[int],
    observations: ObservationTokens,
    generate: Generate,
    max_tokens: int,
    anyone: Callable[[bool], bool] = bool,
) -> list[Trajectory]:
    """Play an episode of each of B rows.

    The tokens that the model wrote are kept as they are, never decoded and encoded again. An episode ends
    where the environment ends it, after `turns` actions, with an action that is cut off, or where no token
    fits after the next observation.

    Args:
        prompts: the rows' prompts, as tokens.
        seeds: of the rows' episodes.
        ends: the tokens that end a sequence.
        generate: the model.
        max_tokens: of actions and observations together.
        anyone: whether any process still plays, told whether this one does; processes whose episodes are
            over take part in the others' turns.

    Raises:
        EnvironmentFailure: the environment raised.
    """
    episodes = [Watched(environment, row, seed) for row, seed in zip(rows, seeds, strict=True)]
    trajectories = [Trajectory() for _ in rows]
    playing = list(range(len(rows)))
    for turn in range(environment.turns):
        if not anyone(bool(playing)):
            break
        contexts = [prompts[i] + trajectories[i].ids for i in playing]
        written, logprobs = generate(contexts or [prompts[0]])
        on: list[int] = []
        for place, i in enumerate(playing):
            trajectory = trajectories[i]
            limit = min(environment.turn_tokens, max_tokens - len(trajectory.ids))
            action = written[place][:limit]
            trajectory.add(action, own=True, logprobs=logprobs[place][:limit] if logprobs else None)
            if action[-1] not in ends:
                continue
            seen = episodes[i].step(tokenizer.decode(action, skip_special_tokens=True))
            if seen is None or turn + 1 == environment.turns:
                continue
            answer = observations(seen, conversation=isinstance(rows[i]["prompt"], list))
            if len(trajectory.ids) + len(answer) < max_tokens:
                trajectory.add(answer, own=False, logprobs=[0.0] * len(answer) if logprobs else None)
                on.append(i)
        playing = on
    for trajectory, episode in zip(trajectories, episodes, strict=True):
        trajectory.reward = episode.reward()
    return trajectories
