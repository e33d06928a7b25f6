"""Judgments of prompts in flight: made, and not yet compared with what came of the prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from curro.saved_state import require


@dataclass(frozen=True)
class Judgment:
    """The tokens of a judgment and the variance read from it, NaN where it failed."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    predicted: float


class PendingJudgments:
    """At most one judgment a prompt, as many as there are prompts in flight."""

    def __init__(self) -> None:
        self._judgments: dict[int, Judgment] = {}

    def __len__(self) -> int:
        return len(self._judgments)

    def keep(self, prompt: int, judgment: Judgment) -> None:
        """Hold the judgment of a prompt that goes into flight."""
        self._judgments[prompt] = judgment

    def take(self, prompt: int) -> Judgment | None:
        """The judgment of a prompt that came back, which is then forgotten; None where there is none."""
        return self._judgments.pop(prompt, None)

    def state_dict(self) -> dict[str, Any]:
        """Arrays: prompts and predictions (J,), the tokens one after the other, and their counts (J,)."""
        made = [self._judgments[prompt] for prompt in sorted(self._judgments)]
        return {
            "prompts": np.array(sorted(self._judgments), np.int64),
            "predicted": np.array([judgment.predicted for judgment in made], np.float64),
            "asked": _flat([judgment.prompt_ids for judgment in made]),
            "asked_lengths": np.array([len(judgment.prompt_ids) for judgment in made], np.int64),
            "answered": _flat([judgment.completion_ids for judgment in made]),
            "answered_lengths": np.array([len(judgment.completion_ids) for judgment in made], np.int64),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name in ("asked", "answered"):
            lengths = state[f"{name}_lengths"]
            fine = (lengths >= 0).all() and lengths.sum() == len(state[name])
            require(fine, f"metis/pending/{name}", "are not of the judgments")
        asked = _parts(state["asked"], state["asked_lengths"])
        answered = _parts(state["answered"], state["answered_lengths"])
        prompts, predicted = state["prompts"].tolist(), state["predicted"].tolist()
        self._judgments = {
            prompt: Judgment(*fields)
            for prompt, *fields in zip(prompts, asked, answered, predicted, strict=True)
        }


def _flat(sequences: Sequence[Sequence[int]]) -> np.ndarray:
    return np.array([token for sequence in sequences for token in sequence], np.int64)


def _parts(flat: np.ndarray, lengths: np.ndarray) -> list[tuple[int, ...]]:
    ends = np.cumsum(lengths)
    return [tuple(flat[end - length : end].tolist()) for end, length in zip(ends, lengths, strict=True)]
