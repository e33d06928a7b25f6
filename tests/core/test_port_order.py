"""Neither batching, nor the order of feedback, nor the scale of rewards changes what is drawn."""

import functools

import numpy as np
import pytest
from tests.methods.prediction.judging import Scripted, by_number

from curro import Curriculum

SELECTIONS = [
    "uniform",
    "least-visited",
    "prioritized-replay",
    "prioritized-replay:candidates=2",
    "prioritized-replay:variant=published,retest_every=3,tolerance=0.3",
    "prioritized-replay:variant=published,exploration=0.5",
    "prioritized-replay:variant=published,draw=proportional,exploration=0.5",
    "prioritized-replay:variant=published,initial_priority=inf",
    "pspo",
    "pspo:normalize=all",
    "sec:categories=3,temperature=0.05",
    "adcl:difficulty=variance,chunks=3",
]
BATCHES = [
    "posterior",
    "posterior:target=none,exploration=0.25",
    "frontier",
    "metis:candidates=2,spread=true",
    "frontier:candidates=4",
]
"""They choose for a whole batch: small selects draw other prompts than one large one."""
SCALE_FREE = [*(spec for spec in SELECTIONS if "pspo" not in spec), *BATCHES]
"""PSPO has constants in units of the reward."""
RATES = np.random.default_rng(0).beta(0.5, 0.5, 60)
TEXTS = [{"prompt": f"{'abcd'[i % 4]} {i}"} for i in range(len(RATES))]


def curriculum_of(spec, seed, **options):
    """The last selection learns from texts, the others know the number of prompts alone."""
    curriculum = Curriculum(spec, TEXTS if spec == BATCHES[-1] else len(RATES), seed=seed, **options)
    curriculum.attach(Scripted(by_number))
    return curriculum


@functools.cache
def rewards_of(prompt, step, group=8):
    return (np.random.default_rng([step, prompt]).random(group) < RATES[prompt]).astype(np.float64)


def roll_out(prompts, step):
    """0/1 rewards that depend on the prompt and the step, not on the order of the prompts."""
    return np.stack([rewards_of(prompt, step) for prompt in prompts.tolist()])


def run(spec, *, select=None, observe=None, steps=30, n=6, seed=1, scale=lambda r: r, **options):
    """Train for some steps and draw once more, for which the latest groups are learnt.

    Returns:
        the prompts drawn (steps, n), the latest draw and the curriculum.
    """
    curriculum = curriculum_of(spec, seed, **options)
    drawn = []
    for step in range(steps):
        draws = [curriculum.select(k, step=step) for k in (select or [n])]
        tickets, prompts = (np.concatenate([getattr(d, x) for d in draws]) for x in ("tickets", "prompts"))
        rewards = scale(roll_out(prompts, step))
        for rows in [np.arange(n)] if observe is None else observe(n):
            curriculum.observe(tickets[rows], rewards[rows])
        drawn.append(np.concatenate([np.stack([d.prompts, d.reasons]) for d in draws], axis=1))
    return np.array(drawn), curriculum.select(3, step=steps), curriculum


plain = functools.cache(run)
"""What the others are compared with; nothing may change the curriculum that it returns."""


@pytest.mark.parametrize("spec", SELECTIONS)
@pytest.mark.parametrize("parts", [[1] * 6, [4, 2]])
def test_small_selects_draw_what_one_large_select_draws(spec, parts):
    np.testing.assert_array_equal(run(spec, select=parts)[0], plain(spec)[0])


@pytest.mark.parametrize("spec", SELECTIONS + BATCHES)
@pytest.mark.parametrize(
    "order",
    [
        lambda n: [[i] for i in (3, 0, 5, 1, 4, 2)],
        lambda n: [[4, 1], [0, 5, 2], [3]],
    ],
    ids=["one by one, mixed", "in parts, mixed"],
)
def test_the_order_and_batching_of_feedback_do_not_change_later_draws(spec, order):
    together, next_draw, one = plain(spec)
    otherwise, other_draw, other = run(spec, observe=order)
    np.testing.assert_array_equal(otherwise, together)
    np.testing.assert_equal(vars(other_draw), vars(next_draw))
    for part in ("selection", "table", "rng"):
        np.testing.assert_equal(other.state_dict()[part], one.state_dict()[part])


@pytest.mark.parametrize("spec", SCALE_FREE)
@pytest.mark.parametrize(
    ("scale", "reward_range"),
    [(lambda r: 10 * r - 3, (-3, 7)), (lambda r: 0.25 * r + 3, (3, 3.25))],
    ids=["-3..7", "3..3.25"],
)
def test_the_scale_of_rewards_does_not_change_the_draws(spec, scale, reward_range):
    scaled = run(spec, scale=scale, reward_range=reward_range)[0]
    np.testing.assert_array_equal(scaled, plain(spec)[0])


@pytest.mark.parametrize("spec", SELECTIONS + BATCHES)
@pytest.mark.parametrize("kind", ["negative", "continuous", "huge", "one outlier", "single rollout"])
def test_rewards_of_any_real_value(spec, kind):
    curriculum = Curriculum(spec, 20, seed=4)
    curriculum.attach(Scripted(by_number))
    rng = np.random.default_rng(5)
    for step in range(20):
        draw = curriculum.select(5, step=step)
        rewards = {
            "negative": -rng.exponential(size=(5, 6)),
            "continuous": rng.random((5, 6)),
            "huge": rng.choice([-1e15, 0.0, 1e15], (5, 6)),
            "one outlier": np.where(step == 10, 1e9, 1.0) * rng.integers(0, 2, (5, 6)),
            "single rollout": rng.integers(0, 2, (5, 1)),
        }[kind]
        verdict = curriculum.observe(draw.tickets, rewards)
        np.testing.assert_allclose(verdict.advantages.sum(axis=1), 0, atol=1e-9 * (1 + np.abs(rewards).max()))
        np.testing.assert_allclose(verdict.informativeness, rewards.var(axis=1), rtol=1e-9)
    seen = curriculum.table["visits"] > 0
    for name, column in curriculum.table.columns.items():
        assert np.isfinite(column[seen]).all(), name
    assert all(np.isfinite(v) for k, v in curriculum.metrics().items() if k.startswith("posterior"))
    assert len(set(curriculum.select(20, step=20).prompts)) == 20
