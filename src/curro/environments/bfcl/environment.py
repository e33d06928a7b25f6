"""An episode of BFCL: requests one after the other, each answered by calls until there are no more."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from curro.environments.bfcl.apis import Apis
from curro.errors import ConfigError
from curro.reward.calls import Call, parse_calls
from curro.reward.reward import Row, key

STEPS = 20
"""Actions of one turn, at most, as BFCL has it; more end the episode."""


class Bfcl:
    """Function calling in several turns, on BFCL's data and simulated APIs (`bfcl-eval`).

    An action that is a list of calls is executed, and the observation is what each call gave. An action
    without calls ends the turn: the observation is the next request. A turn is right by BFCL's rules: called
    on fresh instances, the expected calls leave the same state, and everything that they gave was given to
    the model too, in this turn or before.

    The model's text is never evaluated: calls are read as syntax with literal arguments
    (`curro.reward.calls`), and dispatched by name to the public methods of the episode's own instances.

    Args:
        partial: the reward is the share of turns that are right, instead of 1.0 for all and else 0.0.
        turns: actions of an episode, at most.
        turn_tokens: tokens of an action, at most.
    """

    def __init__(self, partial: bool = False, turns: int = 40, turn_tokens: int = 512) -> None:
        self.partial, self.turns, self.turn_tokens = partial, turns, turn_tokens

    def start(self, row: Row, seed: int) -> BfclEpisode:
        """A conversation from its beginning.

        Raises:
            ConfigError: the row has no `task` as `curro.environments.bfcl.tasks` makes them, or bfcl-eval is
                not installed.
        """
        try:
            task = json.loads(row["task"])
            return BfclEpisode(task, partial=self.partial)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(
                f"the prompt {key(row)} is no task of BFCL's ({error!r}): use --data bfcl:base"
            ) from None


class BfclEpisode:
    """The state of one conversation.

    Attributes:
        right: for each turn that is over, whether it was right.
    """

    def __init__(self, task: Mapping[str, Any], *, partial: bool) -> None:
        self.requests: Sequence[str] = task["requests"]
        self.answer = [[_one(text) for text in turn] for turn in task["answer"]]
        self.partial = partial
        self.apis, self.expected = (
            Apis(task["classes"], task["config"], long_context=task["long_context"]) for _ in range(2)
        )
        self.right: list[bool] = []
        self.given: list[str] = []
        self.steps = 0
        self.is_over = False

    def step(self, action: str) -> str | None:
        calls = parse_calls(action)
        if calls:
            self.steps += 1
            results = [self.apis.call(call) for call in calls]
            self.given += results
            if self.steps > STEPS:
                self.is_over = True
                return None
            return json.dumps(results, ensure_ascii=False)
        self._end_turn()
        if len(self.right) == len(self.answer):
            self.is_over = True
            return None
        return self.requests[len(self.right)]

    def reward(self) -> float:
        """All turns right, or their share; the turn under way, if the episode was cut off, is not right."""
        share = sum(self.right) / len(self.answer)
        return share if self.partial else float(share == 1.0)

    def _end_turn(self) -> None:
        expected = [self.expected.call(call) for call in self.answer[len(self.right)]]
        missing = Counter(expected) - Counter(self.given)
        self.right.append(
            not expected or (self.steps > 0 and not self.apis.differs_from(self.expected) and not missing)
        )
        self.steps = 0


def _one(text: str) -> Call:
    calls = parse_calls(text)
    if calls is None or len(calls) != 1:
        raise ValueError(f"{text!r:.80} is no call")
    return calls[0]
