"""Checkpoints that version 0.2.0 wrote: they load, and the next draws are those that it would have made.

Each comes from twelve steps of 8 prompts in groups of 4, with one group in flight from every third step.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from curro import Curriculum
from curro.admission.band import DifficultyBand
from curro.data.prompt_set import PromptSet
from curro.selection.prioritized_replay import FadedReplay

FOLDER = Path(__file__).parent / "earlier"
DRAWS = json.loads((FOLDER / "draws.json").read_text())
CONFIGS: dict[str, dict[str, Any]] = {
    "frontier": {"selection": "frontier", "admission": "signal"},
    "published-replay": {"selection": "prioritized-replay:variant=published", "advantage": "group"},
    "pspo": {
        "selection": "pspo",
        "advantage": "smoothed",
        "admission": "band:0.2,0.8",
        "allocation": "knapsack",
    },
    "sec": {"selection": "sec", "advantage": "leave-one-out"},
    "posterior": {"selection": "posterior", "allocation": "screen", "reward_range": (-1.0, 1.0)},
    "objects": {"selection": FadedReplay(), "admission": DifficultyBand(0.2, 0.8)},
}


def prompt_set() -> PromptSet:
    return PromptSet(
        [
            {
                "prompt": f"What is {n % 7} + {n * n % 11}{' and more' * (n % 3)}?",
                "answer": str(n % 7 + n * n % 11),
                "key": f"row {n}",
                "source": "ab"[n % 2],
            }
            for n in range(60)
        ]
    )


@pytest.mark.parametrize("name", CONFIGS)
def test_an_earlier_checkpoint_goes_on_as_it_would_have(name):
    curriculum = Curriculum(prompts=prompt_set(), seed=3, **CONFIGS[name])
    curriculum.load(FOLDER / f"{name}.npz")
    assert len(curriculum.ledger) == 4
    budget = 16 if name == "pspo" else None
    draws = [curriculum.select(4, step=12, rollouts=budget).prompts.tolist() for _ in range(3)]
    assert draws == DRAWS[name]
