"""The settings of a fill, the same type in every host."""

from __future__ import annotations

from dataclasses import dataclass

from curro.core.errors import ConfigError

WHEN_SHORT = ("error", "finish", "top-up")


@dataclass(frozen=True)
class FillSettings:
    """When a fill gives up, and what happens then.

    Attributes:
        limit: how many groups may end for one batch, in batches. When the limit is reached no more prompts
            are given out; groups that are still in flight may fill the batch.
        when_short: what happens when a batch stays short: "top-up" adds the rejected groups whose rewards
            vary the most, "finish" returns the smaller batch, and "error" raises a `FillError`. "top-up"
            raises one too if even these groups are too few.

    Raises:
        ConfigError: a limit below 1, or another word for `when_short`.
    """

    limit: float = 10.0
    when_short: str = "top-up"

    def __post_init__(self) -> None:
        if isinstance(self.limit, str) or not self.limit >= 1:
            raise ConfigError(f"the limit of a fill is a number of batches from 1, not {self.limit!r}")
        if self.when_short not in WHEN_SHORT:
            raise ConfigError(f"when_short is one of {', '.join(WHEN_SHORT)}, not {self.when_short!r}")
