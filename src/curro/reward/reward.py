"""The one form that all verifiers have for their callers: batches of completions in, checked numbers out."""

from __future__ import annotations

import asyncio
import operator
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from curro.core.errors import RewardError
from curro.core.groups import one_reward
from curro.core.text import prompt_text
from curro.data.raw import Row

Score = float | None


@dataclass(frozen=True)
class Unscored:
    """Why a completion has no score, from a verifier that can say it.

    Attributes:
        reason: the beginning of a sentence; it names the row where the row is the cause.
        is_row: whether the row is the cause: no completion of its prompt can be scored.
    """

    reason: str
    is_row: bool = False


Verdict = float | Unscored | None
"""What a verifier says of a completion."""

ROUNDING = 1e-6
"""Share of the reward range by which the reward of a right completion may lie below complete success."""

SUCCESS = 1 - ROUNDING
"""The reward from which a completion is right, where rewards are from 0 to 1."""


@dataclass(frozen=True)
class Reward:
    """A verifier by name.

    Attributes:
        name: for messages and metrics.
        verify: scores a batch: completions and their prompts' rows, both of length B, in; B scores out.
        verify_async: the same without holding up an event loop, for a verifier that has its own processes.
    """

    name: str
    verify: Callable[[Sequence[str], Sequence[Row]], Sequence[Verdict]]
    verify_async: Callable[[Sequence[str], Sequence[Row]], Awaitable[Sequence[Verdict]]] | None = None
    _reasons: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    @property
    def weights(self) -> Mapping[str, float]:
        """The weight of each part of the reward, by name; a single verifier is its own only part."""
        return {self.name: 1.0}

    @property
    def notes(self) -> list[str]:
        """Sentences for the user about how the reward scores on this machine."""
        note = getattr(self.verify, "note", None)
        return [] if note is None else [note]

    def named(self, completions: Sequence[str], rows: Sequence[Row]) -> dict[str, list[Score]]:
        """The scores of every part, by name, for hosts, which one row that cannot be scored must not end.

        A warning gives each reason why there is no score, once. Arguments and errors are as `score` has them.
        """
        return {self.name: self._said(self.verdicts(completions, rows))}

    def summed(self, completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
        """The weighted sum of `named`; None where a part has no score."""
        named = self.named(completions, rows)
        weights = [self.weights[name] for name in named]
        return [
            None if None in scores else sum(map(operator.mul, weights, scores))
            for scores in zip(*named.values(), strict=True)
        ]

    async def named_async(self, completions: Sequence[str], rows: Sequence[Row]) -> dict[str, list[Score]]:
        """As `named`, for an event loop, which goes on meanwhile: in a thread, or as the verifier can."""
        if self.verify_async is None:
            return await asyncio.to_thread(self.named, completions, rows)
        self._check_lengths(completions, rows)
        return {self.name: self._said(self._all_checked(await self.verify_async(completions, rows), rows))}

    def score(self, completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
        """The reward of every completion, None where it was not scored.

        Args:
            completions: B texts, as the model wrote them.
            rows: the B rows of the prompts they answer.

        Raises:
            RewardError: a row cannot be scored, a score is NaN, infinite or no number (the message has the
                prompt's key), or the lengths differ.
        """
        verdicts = self.verdicts(completions, rows)
        for verdict in verdicts:
            if isinstance(verdict, Unscored) and verdict.is_row:
                raise RewardError(verdict.reason)
        return self._said(verdicts)

    def verdicts(self, completions: Sequence[str], rows: Sequence[Row]) -> list[Verdict]:
        """The score of every completion, or why it has none."""
        self._check_lengths(completions, rows)
        return self._all_checked(self.verify(completions, rows), rows)

    def _check_lengths(self, completions: Sequence[str], rows: Sequence[Row]) -> None:
        if len(completions) != len(rows):
            raise RewardError(f"reward {self.name!r}: {len(completions)} completions of {len(rows)} prompts")

    def _said(self, verdicts: Sequence[Verdict]) -> list[Score]:
        scores: list[Score] = []
        for verdict in verdicts:
            scores.append(None if isinstance(verdict, Unscored) else verdict)
            if isinstance(verdict, Unscored) and verdict.reason not in self._reasons:
                self._reasons.add(verdict.reason)
                which = "its" if verdict.is_row else "such"
                warnings.warn(
                    f"reward {self.name!r}: {verdict.reason}; {which} completions are not scored",
                    RuntimeWarning,
                    stacklevel=3,
                )
        return scores

    def _all_checked(self, scores: Sequence[Any], rows: Sequence[Row]) -> list[Verdict]:
        if len(scores) != len(rows):
            raise RewardError(f"reward {self.name!r}: {len(scores)} scores of {len(rows)} completions")
        return [self._checked(score, row) for score, row in zip(scores, rows, strict=True)]

    def _checked(self, score: Any, row: Row) -> Verdict:
        if isinstance(score, Unscored):
            return score
        return one_reward(score, f"reward {self.name!r} gave {score!r:.50} for the prompt {key(row)}")


def last_message(row: Row) -> str:
    """The text of a row's prompt, of a conversation its last message's; "" if it has none."""
    prompt = row.get("prompt")
    return prompt_text(prompt[-1:] if isinstance(prompt, list | tuple) else prompt, with_system=True)


def key(row: Row) -> str:
    """How messages name a prompt: its key, or the prompt if it has none."""
    return repr(row.get("key", row.get("prompt")))[:200]
