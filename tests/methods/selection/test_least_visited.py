"""Least visited first, by hand."""

import numpy as np

from curro import Curriculum, Reason


def test_every_prompt_comes_once_before_any_comes_twice():
    curriculum = Curriculum("least-visited", 10, seed=1)
    for turn in range(3):
        seen = []
        for part in (4, 3, 3):
            draw = curriculum.select(part, step=turn)
            curriculum.observe(draw.tickets, np.eye(part, 2))
            seen += draw.prompts.tolist()
            assert (draw.reasons == (Reason.PRIORITY if turn else Reason.UNSEEN)).all()
        assert sorted(seen) == list(range(10))
        assert seen != sorted(seen)


def test_a_cancelled_group_is_no_visit():
    curriculum = Curriculum("least-visited", 6)
    curriculum.observe(curriculum.select(4, step=0).tickets, [[1, 0]] * 4)
    draw = curriculum.select(2, step=0)
    curriculum.drop(draw.tickets)
    assert sorted(curriculum.select(2, step=1).prompts) == sorted(draw.prompts)


def test_rejected_groups_are_visits_too():
    curriculum = Curriculum("least-visited", 4, admission="band:0.3,0.7")
    first = curriculum.select(2, step=0)
    assert not curriculum.observe(first.tickets, [[0, 0], [1, 1]]).admitted.any()
    assert not set(curriculum.select(2, step=0).prompts) & set(first.prompts)


def test_orders_differ_by_seed_and_repeat_by_seed():
    orders = [Curriculum("least-visited", 20, seed=s).select(20, step=0).prompts.tolist() for s in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
