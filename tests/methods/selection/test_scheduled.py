"""The data set in its order, again and again."""

import numpy as np

from curro import Curriculum, Reason


def test_passes_in_order_with_batches_across_the_end():
    curriculum = Curriculum("scheduled", 5)
    drawn = []
    for step in range(5):
        draw = curriculum.select(3, step=step)
        curriculum.observe(draw.tickets, np.ones((3, 2)))
        drawn.append(draw.prompts.tolist())
    assert drawn == [[0, 1, 2], [3, 4, 0], [1, 2, 3], [4, 0, 1], [2, 3, 4]]
    assert (draw.reasons == Reason.PRIORITY).all()
    assert np.isnan(draw.probabilities).all()


def test_prompts_in_flight_miss_their_turn():
    curriculum = Curriculum("scheduled", 6)
    held = curriculum.select(3, step=0)
    curriculum.drop(curriculum.select(2, step=0).tickets)
    assert curriculum.select(3, step=1).prompts.tolist() == [5, 3, 4]
    curriculum.drop(held.tickets)
    assert curriculum.select(3, step=2).prompts.tolist() == [0, 1, 2]
