"""What a generation gives: TRL's output, and what the curriculum is told of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from curro.runs.writer import Completion


@dataclass(frozen=True)
class Generated:
    """Rollouts of given prompts, scored.

    Attributes:
        output: TRL's, of this process's rollouts.
        rewards: (rollouts, reward functions) of all processes, NaN where a function returned None.
        completions: what was generated, of all processes.
    """

    output: dict[str, Any]
    rewards: torch.Tensor
    completions: Sequence[Completion]
