"""Known draws: a change of any of these changes every run of everyone who fixed a seed.

NumPy keeps its generators' bits for ever and its distributions for long; where a new NumPy changes one of
them, the file changes with it and the changelog says so.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from curro import Curriculum
from curro.data import PromptSet

GOLDEN = json.loads((Path(__file__).parent / "known_draws.json").read_text())
"""Prompts of each draw by selection."""


WORDS = "add", "sort", "spell"


@pytest.mark.parametrize("spec", GOLDEN)
def test_known_draws(spec):
    rows = [{"key": str(p), "prompt": f"{WORDS[p % 3]} {p}", "answer": None} for p in range(12)]
    curriculum = Curriculum(
        spec.removesuffix(", texts"), PromptSet(rows) if "texts" in spec else 12, seed=2024
    )
    for step, prompts in enumerate(GOLDEN[spec]):
        draw = curriculum.select(3, step=step)
        assert draw.prompts.tolist() == prompts, f"step {step}"
        # prompt p always succeeds in floor(7 p / 5) mod 5 of 4: 0, 1, 2, 4, 0, 2, 3, 4, 1, 2, 4, 0
        curriculum.observe(draw.tickets, np.arange(4) < (draw.prompts * 7 // 5 % 5)[:, None])
