"""Known draws: a change of any of these changes every run of everyone who fixed a seed.

NumPy keeps its generators' bits for ever and its distributions for long; where a new NumPy changes one of
them, these literals change with it and the changelog says so.
"""

import numpy as np
import pytest

from curro import Curriculum

GOLDEN = [
    (
        "uniform",
        [
            [4, 10, 5],
            [0, 11, 2],
            [9, 1, 3],
            [8, 6, 7],
            [2, 4, 11],
            [9, 5, 10],
            [8, 3, 0],
            [1, 7, 6],
            [4, 8, 10],
            [2, 6, 5],
            [9, 7, 0],
            [1, 11, 3],
        ],
    ),
    (
        "uniform:replacement=true",
        [
            [1, 2, 3],
            [3, 10, 9],
            [10, 11, 0],
            [1, 10, 0],
            [1, 2, 10],
            [4, 3, 2],
            [5, 7, 9],
            [7, 11, 1],
            [5, 6, 8],
            [0, 2, 5],
            [0, 11, 7],
            [9, 6, 7],
        ],
    ),
    (
        "prioritized-replay",
        [
            [9, 2, 1],
            [7, 10, 3],
            [9, 0, 4],
            [2, 3, 6],
            [11, 0, 10],
            [1, 2, 6],
            [9, 1, 2],
            [5, 2, 6],
            [9, 4, 0],
            [5, 1, 9],
            [11, 9, 2],
            [8, 6, 5],
        ],
    ),
    (
        "prioritized-replay:variant=published",
        [
            [1, 4, 9],
            [9, 10, 8],
            [9, 7, 6],
            [9, 11, 0],
            [9, 5, 2],
            [9, 5, 2],
            [5, 2, 9],
            [8, 5, 6],
            [5, 9, 2],
            [5, 9, 2],
            [10, 4, 11],
            [5, 9, 2],
        ],
    ),
    (
        "prioritized-replay:variant=published,draw=proportional",
        [
            [3, 9, 11],
            [0, 2, 5],
            [7, 6, 1],
            [1, 6, 10],
            [6, 2, 4],
            [2, 9, 1],
            [8, 2, 5],
            [5, 2, 9],
            [8, 5, 2],
            [9, 1, 2],
            [3, 11, 0],
            [6, 2, 9],
        ],
    ),
    (
        "prioritized-replay:variant=published,explore_by=prompt",
        [
            [1, 4, 9],
            [9, 10, 8],
            [9, 7, 6],
            [9, 11, 0],
            [9, 5, 8],
            [9, 5, 2],
            [5, 2, 9],
            [5, 9, 2],
            [6, 9, 5],
            [5, 9, 2],
            [10, 4, 11],
            [5, 2, 9],
        ],
    ),
    (
        "prioritized-replay:variant=published,initial_priority=inf",
        [
            [1, 4, 9],
            [10, 8, 7],
            [6, 11, 0],
            [5, 2, 3],
            [5, 2, 9],
            [5, 9, 2],
            [5, 9, 2],
            [8, 5, 6],
            [5, 2, 9],
            [5, 2, 9],
            [7, 4, 11],
            [2, 9, 5],
        ],
    ),
    (
        "pspo",
        [
            [8, 3, 11],
            [0, 4, 6],
            [1, 6, 10],
            [6, 2, 5],
            [2, 8, 5],
            [6, 9, 8],
            [6, 9, 2],
            [9, 5, 7],
            [2, 6, 5],
            [2, 5, 6],
            [6, 5, 1],
            [6, 1, 2],
        ],
    ),
    (
        "pspo:replacement=true",
        [
            [8, 3, 11],
            [0, 4, 6],
            [1, 1, 10],
            [6, 2, 5],
            [2, 8, 5],
            [6, 9, 8],
            [6, 9, 2],
            [9, 5, 5],
            [2, 7, 5],
            [2, 5, 2],
            [6, 5, 1],
            [6, 1, 1],
        ],
    ),
    (
        "least-visited",
        [
            [10, 6, 2],
            [9, 0, 5],
            [1, 7, 4],
            [3, 11, 8],
            [11, 4, 3],
            [1, 2, 10],
            [6, 7, 5],
            [0, 8, 9],
            [7, 8, 2],
            [5, 1, 11],
            [6, 4, 9],
            [0, 10, 3],
        ],
    ),
]


@pytest.mark.parametrize(("spec", "expected"), GOLDEN, ids=[spec for spec, _ in GOLDEN])
def test_known_draws(spec, expected):
    curriculum = Curriculum(spec, 12, seed=2024)
    for step, prompts in enumerate(expected):
        draw = curriculum.select(3, step=step)
        assert draw.prompts.tolist() == prompts, f"step {step}"
        # prompt p always succeeds in floor(7 p / 5) mod 5 of 4: 0, 1, 2, 4, 0, 2, 3, 4, 1, 2, 4, 0
        curriculum.observe(draw.tickets, np.arange(4) < (draw.prompts * 7 // 5 % 5)[:, None])
