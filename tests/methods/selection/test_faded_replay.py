"""The default variant: informative prompts first, and no prompt out of reach, whatever the policy does."""

import numpy as np
import pytest

from curro import Curriculum, Reason
from curro.methods.selection.prioritized_replay import one_each, stride_of

DEFAULT, PUBLISHED = "prioritized-replay", "prioritized-replay:variant=published"


def train(spec, rates, *, size, steps, n=8, seed=0):
    """Rollouts of 8 at rates(step)[prompt]; the prompts (steps, n) and whether their rewards varied."""
    curriculum = Curriculum(spec, size, seed=seed)
    rng = np.random.default_rng(seed)
    prompts, informative = [], []
    for step in range(steps):
        draw = curriculum.select(n, step=step)
        rolls = rng.random((n, 8)) < rates(step)[draw.prompts][:, None]
        informative.append(curriculum.observe(draw.tickets, rolls).informativeness > 0)
        prompts.append(draw.prompts)
    return np.array(prompts), np.array(informative)


def test_informative_prompts_are_preferred():
    rates = np.where(np.arange(200) < 20, 0.5, 0.0)
    _, informative = train(DEFAULT, lambda step: rates, size=200, steps=200)
    _, uniform = train("uniform", lambda step: rates, size=200, steps=200)
    assert uniform.mean() < 0.15, "a tenth of the prompts"
    # 8 places a step and 20 such prompts: resting in between, they take about two places in three
    assert informative[100:].mean() > 0.5


def test_a_prompt_rests_until_its_evidence_has_faded():
    """All prompts alike: with half-lives of 64 steps, the one seen last is worth least."""
    curriculum = Curriculum(f"{DEFAULT}:exploration=0", 64, seed=2)
    gaps, last = [], {}
    for step in range(300):
        draw = curriculum.select(4, step=step)
        for prompt in draw.prompts.tolist():
            gaps += [step - last[prompt]] if prompt in last else []
            last[prompt] = step
        curriculum.observe(draw.tickets, np.tile([1, 0] * 4, (4, 1)))
    # an equal choice comes back after 16 steps on average, and before the 4th in one case of five
    assert np.mean(np.array(gaps) < 4) < 0.02


@pytest.mark.parametrize("seed", [0, 1])
def test_a_policy_that_fails_everything_for_long_is_noticed_when_it_succeeds(seed):
    later = np.random.default_rng(5).random(200)
    prompts, informative = train(DEFAULT, lambda step: later * (step >= 300), size=200, steps=400, seed=seed)
    assert not informative[:300].any()
    # of 800 uniform draws 200 e^-4 = 4 prompts are never among them, of 2400 e^-12: one case in 1000
    assert len(set(prompts[200:300].ravel())) > 180
    assert set(prompts[:300].ravel()) == set(range(200))
    # 8 rollouts at uniform rates vary in 7/9 of the groups; chosen ones must do better
    assert informative[320:].mean() > 7 / 9
    assert len(set(prompts[300:].ravel())) > 100


def test_an_eighth_of_the_places_explores_uniformly():
    curriculum = Curriculum(DEFAULT, 20)
    draw = curriculum.select(20, step=0)
    curriculum.observe(draw.tickets, np.arange(8) < np.where(draw.prompts < 4, 4, 0)[:, None])
    explored = np.zeros(20)
    for step in range(1, 801):
        draw = curriculum.select(1, step=step)
        np.add.at(explored, draw.prompts[draw.reasons == Reason.EXPLORATION], 1)
        curriculum.drop(draw.tickets)
    # 800 / 8 = 100, deviation sqrt(800 * 7/64) = 9.35; 4 deviations: 6 in 100,000 cases
    assert abs(explored.sum() - 100) < 38
    # 19 degrees of freedom: above 50.8 in one of 10,000 cases
    assert (np.square(explored - explored.mean()) / explored.mean()).sum() < 50.8


def test_proposals_are_given_out_in_order_to_the_highest_draw_that_is_free():
    rng = np.random.default_rng(0)
    for _ in range(300):
        size, places = 12, rng.integers(1, 9)
        taken = rng.random(size) < 0.25
        places = min(places, int((~taken).sum()))
        proposed, drawn = rng.integers(0, size, (places, 4)), rng.integers(0, 4, (places, 4)) / 4
        chosen = one_each(proposed, drawn, taken, 7)  # 7 is the first from .618 * 12 that 12 has no part of
        gone = set(np.flatnonzero(taken).tolist())
        for row, pick in enumerate(chosen.tolist()):
            usable = [c for c in range(4) if int(proposed[row, c]) not in gone]
            if usable:
                assert pick == proposed[row, max(usable, key=lambda c: (drawn[row, c], -c))]
            else:
                after = [(int(proposed[row, -1]) + 7 * i) % size for i in range(size)]
                assert pick == next(i for i in after if i not in gone)
            gone.add(pick)


@pytest.mark.parametrize(("size", "stride"), [(1, 1), (2, 1), (10, 7), (12, 7), (100, 61)])
def test_steps_meet_every_prompt(size, stride):
    assert stride_of(size) == stride
    assert {stride * i % size for i in range(size)} == set(range(size))


def test_a_small_source_behind_a_large_one_is_drawn_from_all_over():
    """One row in twenty is code, at the end, and has half of the draws: not its first rows alone."""
    rows = [{"prompt": f"{i}", "source": "code" if i >= 1_900 else "math"} for i in range(2_000)]
    curriculum = Curriculum(DEFAULT, rows, source_weights="math=1,code=1", seed=0)
    for step in range(20):
        draw = curriculum.select(32, step=step)
        assert (draw.prompts >= 1_900).sum() == 16
        curriculum.observe(draw.tickets, np.zeros((32, 4)))
    visits = curriculum.table["visits"][1_900:]
    # 320 visits of 100 rows: at random 4 rows would have none; by number 70 would
    assert (visits == 0).sum() < 25
