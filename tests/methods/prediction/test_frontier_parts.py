"""The benchmark that takes frontier apart: each part that it leaves out changes which prompts are drawn."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.learning.frontier_parts import OURS, PARTS

from curro import ConfigError, Curriculum
from curro.data import PromptSet

ROWS = [{"key": str(i), "prompt": f"{i} plus {'seven ' * (i % 5)}", "answer": None} for i in range(100)]


def drawn(method: str) -> list[list[int]]:
    """What is drawn in 20 steps of 4 prompts with 8 rollouts, of which long prompts are solved less often."""
    curriculum, rng = Curriculum(method, PromptSet(ROWS), seed=0), np.random.default_rng(0)
    found = []
    for step in range(20):
        draw = curriculum.select(4, step=step)
        curriculum.observe(draw.tickets, rng.random((4, 8)) < 0.9 - 0.2 * (draw.prompts[:, None] % 5))
        found.append(draw.prompts.tolist())
    return found


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_is_left_out_changes_the_draws_but_for_the_calibration(part):
    assert (drawn(f"{OURS}:parts={part}") == drawn("frontier")) == (part == "calibration")


def test_an_unknown_part_is_named():
    with pytest.raises(ConfigError, match="there is no part 'colour'; there are: half-life, kinds"):
        Curriculum(f"{OURS}:parts=colour+ranks", PromptSet(ROWS), seed=0)
