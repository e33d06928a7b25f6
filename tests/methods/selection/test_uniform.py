"""Uniform sampling: passes over the data, or independent draws."""

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


def test_a_batch_across_two_passes_has_no_prompt_twice():
    for seed in range(50):
        curriculum = Curriculum("uniform", 5, seed=seed)
        curriculum.drop(curriculum.select(3, step=0).tickets)
        assert len(set(curriculum.select(4, step=1).prompts)) == 4


def test_prompts_in_flight_are_passed_over():
    for spec in ("uniform", "uniform:replacement=true"):
        curriculum = Curriculum(spec, 6)
        waiting = set(curriculum.select(4, step=0).prompts)
        for step in range(20):
            draw = curriculum.select(2, step=step)
            assert set(draw.prompts) == set(range(6)) - waiting
            curriculum.drop(draw.tickets)


def test_probabilities_are_those_of_the_free_prompts():
    curriculum = Curriculum("uniform:replacement=true", 5)
    curriculum.select(1, step=0)
    draw = curriculum.select(3, step=0)
    np.testing.assert_array_equal(draw.probabilities, [1 / 4, 1 / 3, 1 / 2])
    assert (draw.reasons == Reason.UNIFORM).all()
    assert (draw.weights == 1).all()


def test_with_replacement_draws_are_uniform_and_forget():
    curriculum = Curriculum("uniform:replacement=true", 8)
    counts, repeats, last = np.zeros(8), 0, set()
    for step in range(800):
        draw = curriculum.select(2, step=step)
        curriculum.drop(draw.tickets)
        np.add.at(counts, draw.prompts, 1)
        repeats += len(last & set(draw.prompts))
        last = set(draw.prompts)
    # 1600 draws of 8 prompts, 7 degrees of freedom: above 29.9 in one of 10,000 cases
    assert (np.square(counts - 200) / 200).sum() < 29.9
    # a prompt comes again in the next batch with 2/8: 1600/4 = 400, deviation below sqrt(300) = 17.3
    assert abs(repeats - 400) < 70
