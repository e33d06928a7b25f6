"""Plays episodes: one by itself, or many a turn at a time, so that the model writes many actions at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from curro.data.raw import Row
from curro.reward.environments.environment import Environment, ObservationTokens, Watched
from curro.reward.reward import Score

Tokens = list[int]
Generate = Callable[[list[Tokens]], tuple[list[Tokens], list[list[float]] | None]]
"""Contexts in; out what the model writes after each, up to and with an end of sequence, and its log-probs."""


@dataclass
class Trajectory:
    """An episode in tokens.

    Attributes:
        ids: actions and observations as they follow the prompt, (T,); the last token is the model's.
        action_mask: 1 for a token of the model's, 0 for one of an observation, (T,).
        logprobs: the model's at sampling, 0 for an observation's token, (T,); empty if they are not known.
        reward: of the whole; None if it is not scored.
    """

    ids: Tokens = field(default_factory=list)
    action_mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    reward: Score = None

    def add(self, ids: Tokens, *, is_action: bool, logprobs: Sequence[float] | None) -> None:
        self.ids += ids
        self.action_mask += [int(is_action)] * len(ids)
        if logprobs is not None:
            self.logprobs += logprobs


class Playing:
    """An episode under way: the model is asked for an action after `context`, until `act` returns False.

    The tokens that the model wrote are kept as they are, never decoded and encoded again. An episode ends
    where the environment ends it, after `turns` actions, with an action that is cut off, or if no token
    fits after the next observation.

    Args:
        prompt: the row's, as tokens.
        seed: of the episode.
        ends: the tokens that end a sequence.
        max_tokens: of actions and observations together.

    Raises:
        EnvironmentFailure: from any method, where the environment raised.
    """

    def __init__(
        self,
        environment: Environment,
        row: Row,
        prompt: Tokens,
        seed: int,
        *,
        tokenizer: Any,
        ends: set[int],
        observations: ObservationTokens,
        max_tokens: int,
    ) -> None:
        self.environment, self.row, self.prompt, self.max_tokens = environment, row, prompt, max_tokens
        self.tokenizer, self.ends, self.observations = tokenizer, ends, observations
        self.episode, self.trajectory, self.actions = Watched(environment, row, seed), Trajectory(), 0

    @property
    def context(self) -> Tokens:
        """The prompt, and all that followed it."""
        return self.prompt + self.trajectory.ids

    @property
    def limit(self) -> int:
        """The most tokens that the next action may have."""
        return min(self.environment.turn_tokens, self.max_tokens - len(self.trajectory.ids))

    def act(self, action: Tokens, logprobs: Sequence[float] | None) -> bool:
        """Take an action, cut at `limit`; returns whether the model is asked for another."""
        action, logprobs = action[: self.limit], logprobs[: self.limit] if logprobs else None
        self.actions += 1
        self.trajectory.add(action, is_action=True, logprobs=logprobs)
        if action[-1] not in self.ends:
            return False
        observation = self.episode.step(self.tokenizer.decode(action, skip_special_tokens=True))
        if observation is None or self.actions == self.environment.turns:
            return False
        answer = self.observations(observation, conversation=isinstance(self.row["prompt"], list))
        if len(self.trajectory.ids) + len(answer) >= self.max_tokens:
            return False
        self.trajectory.add(answer, is_action=False, logprobs=[0.0] * len(answer) if logprobs else None)
        return True

    def end(self) -> Trajectory:
        """The trajectory with its reward."""
        self.trajectory.reward = self.episode.reward()
        return self.trajectory


def play(
    environment: Environment,
    rows: Sequence[Row],
    prompts: Sequence[Tokens],
    seeds: Sequence[int],
    *,
    generate: Generate,
    anyone: Callable[[bool], bool] = bool,
    **options: Any,
) -> list[Trajectory]:
    """Play an episode of each of B rows.

    Args:
        prompts, seeds: of the rows.
        generate: the model.
        anyone: takes whether this process still plays, and returns whether any process does. A process
            whose episodes are over still generates in the turns of the others.
        options: `tokenizer`, `ends`, `observations` and `max_tokens` of `Playing`.
    """
    starts = zip(rows, prompts, seeds, strict=True)
    episodes = [Playing(environment, row, prompt, seed, **options) for row, prompt, seed in starts]
    playing = episodes
    for _ in range(environment.turns):
        if not anyone(bool(playing)):
            break
        contexts = [episode.context for episode in playing]
        actions, logprobs = generate(contexts or [prompts[0]])
        rows_of_logprobs: Sequence[list[float] | None] = logprobs or [None] * len(playing)
        playing = [
            episode
            for episode, action, row in zip(playing, actions, rows_of_logprobs, strict=False)
            if episode.act(action, row)
        ]
    return [episode.end() for episode in episodes]
