"""Uniform sampling: passes over the data."""

import numpy as np

from curro import Curriculum, Reason


def test_every_pass_brings_every_prompt_once_in_a_new_order():
    curriculum = Curriculum("uniform", 10)
    passes = []
    for step in range(9):
        draw = curriculum.select(5, step=step)
        curriculum.drop(draw.tickets)
        passes.append(draw.prompts)
    passes = np.array(passes[:8]).reshape(4, 10)
    assert (np.sort(passes) == np.arange(10)).all()
    assert len({tuple(order) for order in passes}) == 4


def test_probabilities_are_those_of_the_free_prompts():
    curriculum = Curriculum("uniform", 5)
    curriculum.select(1, step=0)
    draw = curriculum.select(3, step=0)
    np.testing.assert_array_equal(draw.probabilities, [1 / 4, 1 / 3, 1 / 2])
    assert (draw.reasons == Reason.UNIFORM).all()
    assert (draw.weights == 1).all()
