"""ADCL: estimate, sort, chunks from easy to hard, each estimated again."""

from __future__ import annotations

import numpy as np
import pytest

from curro import Curriculum, Reason

ESTIMATE, TRAIN = int(Reason.ESTIMATE), int(Reason.PRIORITY)


def succeed(rates):
    """Rewards of 8 of which rates[p] succeed."""
    return lambda prompts: (np.arange(8) < np.asarray(rates)[prompts][:, None]).astype(float)


def play(curriculum, n, steps, rewards, start=0):
    """Prompts and reasons of some steps, each observed at once."""
    seen = []
    for step in range(start, start + steps):
        draw = curriculum.select(n, step=step)
        seen.append((draw.prompts.tolist(), int(draw.reasons[0])))
        assert len(set(draw.reasons.tolist())) == 1
        assert np.isnan(draw.probabilities).all()
        curriculum.observe(draw.tickets, rewards(draw.prompts))
    return seen


def test_chunks_from_easy_to_hard_each_estimated_before():
    curriculum = Curriculum("adcl:chunks=2", 6, seed=0)
    seen = play(curriculum, 3, 9, succeed([0, 7, 3, 8, 1, 5]))
    assert [reason for _, reason in seen] == [ESTIMATE] * 2 + [TRAIN, ESTIMATE, TRAIN] + [ESTIMATE, TRAIN] * 2
    prompts = [p for p, _ in seen]
    assert sorted(prompts[0] + prompts[1]) == list(range(6))
    assert prompts[2] == [3, 1, 5]
    assert sorted(prompts[3]) == [0, 2, 4]
    assert prompts[4] == [2, 4, 0]
    # the next pass begins with the first chunk
    assert sorted(prompts[5]) == [1, 3, 5]
    assert prompts[6] == [3, 1, 5]
    assert prompts[8] == [2, 4, 0]


def test_a_chunk_is_sorted_by_what_the_policy_can_do_when_it_comes_to_it():
    curriculum = Curriculum("adcl:chunks=2", 6, seed=0)
    play(curriculum, 3, 3, succeed([0, 7, 3, 8, 1, 5]))
    seen = play(curriculum, 3, 2, succeed([8, 0, 2, 0, 5, 0]), start=3)
    assert sorted(seen[0][0]) == [0, 2, 4]
    assert seen[1][0] == [0, 4, 2]
    # chunks stay as they were
    assert sorted(play(curriculum, 3, 1, succeed([8] * 6), start=5)[0][0]) == [1, 3, 5]


def test_difficulty_by_variance():
    rewards = np.array([[0, 8], [3, 4], [2, 6], [5, 5]])  # variances 16, 1/4, 4, 0
    curriculum = Curriculum("adcl:chunks=1,difficulty=variance", 4, seed=0, reward_range=(0, 8))
    seen = play(curriculum, 4, 2, lambda prompts: rewards[prompts])
    assert seen[1] == ([3, 1, 2, 0], TRAIN)
    # by failure the mean reward decides: 1 - 4/8, 1 - 3.5/8, 1/2, 1 - 5/8
    by_mean = Curriculum("adcl:chunks=1", 4, seed=0, reward_range=(0, 8))
    order = play(by_mean, 4, 2, lambda prompts: rewards[prompts])[1][0]
    assert (order[0], order[3]) == (3, 1)


def test_equal_difficulties_stand_in_a_random_order():
    first = set()
    for seed in range(40):
        curriculum = Curriculum("adcl:chunks=4", 4, seed=seed)
        play(curriculum, 4, 1, succeed([4] * 4))
        first.add(int(curriculum.select(1, step=1).prompts[0]))
    assert first == set(range(4))


def test_a_batch_at_the_end_of_an_estimate_is_completed_from_what_is_known():
    curriculum = Curriculum("adcl:chunks=1", 5, seed=0)
    first = curriculum.select(3, step=0)
    curriculum.observe(first.tickets, succeed([1, 2, 3, 4, 5])(first.prompts))
    second = curriculum.select(3, step=1)
    assert second.reasons.tolist() == [ESTIMATE, ESTIMATE, TRAIN]
    assert second.prompts[2] == first.prompts.max()
    # the two late estimates are sorted in where they belong
    curriculum.observe(second.tickets, succeed([1, 2, 3, 4, 5])(second.prompts))
    rest = [p for p in (4, 3, 2, 1, 0) if p != second.prompts[2]]
    assert curriculum.select(4, step=2).prompts.tolist() == rest


def test_dropped_estimates_are_asked_for_again_three_times_in_all():
    curriculum = Curriculum("adcl:chunks=2", 3, seed=0)
    draw = curriculum.select(3, step=0)
    lost = int(draw.prompts[0])
    curriculum.observe(draw.tickets[1:], succeed([4] * 3)(draw.prompts[1:]))
    curriculum.drop(draw.tickets[:1])
    for step in (1, 2):
        again = curriculum.select(1, step=step)
        assert (again.prompts.tolist(), again.reasons.tolist()) == ([lost], [ESTIMATE])
        curriculum.drop(again.tickets)
    # now it is taken as the hardest: the last of the second chunk
    late = curriculum.select(3, step=3)
    assert late.reasons.tolist() == [TRAIN, TRAIN, ESTIMATE]
    assert late.prompts[2] == lost


def test_a_dropped_prompt_misses_its_turn():
    curriculum = Curriculum("adcl:chunks=1", 3, seed=0)
    play(curriculum, 3, 1, succeed([8, 6, 4]))
    draw = curriculum.select(2, step=1)
    assert draw.prompts.tolist() == [0, 1]
    curriculum.drop(draw.tickets)
    assert curriculum.select(1, step=1).prompts.tolist() == [2]
    assert curriculum.select(1, step=1).reasons.tolist() == [ESTIMATE]


@pytest.mark.parametrize("trains", [False, True])
def test_estimates_are_not_trained_on_as_published(trains):
    """Of 4 prompts in 2 chunks: all are estimated, then the first chunk is trained on."""
    curriculum = Curriculum(f"adcl:chunks=2,train_estimates={trains}", 4, seed=0, advantage="group")
    assert curriculum.has_admission is not trains
    rewards = succeed([2, 4, 6, 8])
    draw = curriculum.select(4, step=0)
    verdict = curriculum.observe(draw.tickets, rewards(draw.prompts))
    assert verdict.admitted.tolist() == [trains] * 4
    assert verdict.advantages.any() == trains
    assert (curriculum.table["visits"] == 1).all()
    draw = curriculum.select(2, step=1)
    verdict = curriculum.observe(draw.tickets, rewards(draw.prompts))
    assert verdict.admitted.all()
    assert verdict.advantages[draw.prompts == 2].any()


def test_a_group_counts_as_what_it_was_drawn_for():
    """Of 3 prompts in one chunk the estimate of one is out at the cut, and its training group at the next."""
    curriculum = Curriculum("adcl:chunks=1", 3, seed=0, advantage="group")
    rewards = succeed([4] * 3)

    def admitted(draw, rows):
        return curriculum.observe(draw.tickets[rows], rewards(draw.prompts[rows])).admitted.tolist()

    first = curriculum.select(3, step=0)
    assert admitted(first, [0, 1]) == [False, False]
    train = curriculum.select(2, step=1)
    assert train.reasons.tolist() == [TRAIN, TRAIN]
    assert admitted(first, [2]) == [False], "an estimate, although the chunk has been cut"
    last = curriculum.select(1, step=1)
    assert (last.prompts, last.reasons) == (first.prompts[2], TRAIN)
    assert admitted(train, [0]) == [True]
    again = curriculum.select(1, step=2)
    assert (again.prompts, again.reasons) == (train.prompts[0], ESTIMATE)
    assert admitted(train, [1]) + admitted(last, [0]) == [True, True]
    assert admitted(again, [0]) == [False]
