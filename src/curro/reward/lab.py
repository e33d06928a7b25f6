"""A lab family's own scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from curro.reward.reward import Row, Score


def load(name: str) -> Callable[[Sequence[str], Sequence[Row]], list[Score]]:
    """The batch verifier of the lab family `name`.

    Raises:
        ConfigError: there is no such family.
    """
    from curro import lab

    family = lab.family(name)

    def verify(completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
        return [family.score(c, row) for c, row in zip(completions, rows, strict=True)]

    return verify
