"""A weighted sum of rewards."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from curro.errors import ConfigError
from curro.reward.reward import Reward, Row, Score


class WeightedReward(Reward):
    """The sum of several rewards, each times its weight.

    A completion is scored where every part gives a number; elsewhere no part has one.

    Args:
        name: of the whole.
        parts: the rewards and their weights; their names are those of the parts.

    Raises:
        ConfigError: two parts have one name.
    """

    def __init__(self, name: str, parts: Sequence[tuple[float, Reward]]) -> None:
        super().__init__(name, self._sum)
        names = [part.name for _, part in parts]
        if len(set(names)) < len(names):
            raise ConfigError(f"reward {name!r}: each part stands once, and a part's name is one part's")
        object.__setattr__(self, "parts", tuple(parts))

    parts: tuple[tuple[float, Reward], ...]

    @property
    def weights(self) -> Mapping[str, float]:
        return {part.name: weight for weight, part in self.parts}

    @property
    def notes(self) -> list[str]:
        return [note for _, part in self.parts for note in part.notes]

    def named(self, completions: Sequence[str], rows: Sequence[Row]) -> dict[str, list[Score]]:
        return _where_all({part.name: part.score(completions, rows) for _, part in self.parts})

    async def named_async(self, completions: Sequence[str], rows: Sequence[Row]) -> dict[str, list[Score]]:
        every = await asyncio.gather(*(part.named_async(completions, rows) for _, part in self.parts))
        return _where_all({name: scores for named in every for name, scores in named.items()})

    def _sum(self, completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
        named = self.named(completions, rows)
        weights = list(self.weights.values())
        return [
            None if any(score is None for score in scores) else _dot(weights, scores)
            for scores in zip(*named.values(), strict=True)
        ]


def _where_all(named: dict[str, list[Score]]) -> dict[str, list[Score]]:
    scored = [all(score is not None for score in scores) for scores in zip(*named.values(), strict=True)]
    return {
        name: [score if ok else None for score, ok in zip(scores, scored, strict=True)]
        for name, scores in named.items()
    }


def _dot(weights: Sequence[float], scores: Sequence[Score]) -> float:
    return sum(weight * score for weight, score in zip(weights, scores, strict=True) if score is not None)
