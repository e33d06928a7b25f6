"""GRESO's skipping, moving targets and bandits over sources, by hand; all of them resume."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from curro import ConfigError, Curriculum
from curro.data import PromptSet

ROWS = PromptSet(
    [
        {"key": str(i), "prompt": str(i), "answer": "", "hard": 10.0 * i, "source": "ab"[i % 2]}
        for i in range(20)
    ]
)
METHODS = [
    "greso", "target:hard", "target:hard,width=0.2", "target:hard,move=cosine,steps=4",
    "ucb:column=source", "progress:column=source",
]  # fmt: skip


def observe(curriculum, draw, rate):
    """Groups of four, of this success rate."""
    rewards = np.tile(np.arange(4) < 4 * rate, (len(draw), 1)).astype(float)
    curriculum.observe(draw.tickets, rewards)


@pytest.mark.parametrize("method", METHODS)
def test_they_go_on_after_a_resume(tmp_path, method):
    def train(curriculum, steps, rng):
        drawn = []
        for step in steps:
            draw = curriculum.select(5, step=step)
            curriculum.observe(draw.tickets, rng.integers(0, 2, (5, 4)))
            drawn.append(draw.prompts.tolist())
        return drawn

    whole = train(Curriculum(method, ROWS, seed=3), range(8), np.random.default_rng(1))
    rng, curriculum = np.random.default_rng(1), Curriculum(method, ROWS, seed=3)
    first = train(curriculum, range(4), rng)
    curriculum.save(tmp_path / "half.npz")
    resumed = Curriculum(method, ROWS, seed=3)
    resumed.load(tmp_path / "half.npz")
    assert first + train(resumed, range(4, 8), rng) == whole


@pytest.mark.parametrize("method", METHODS)
def test_small_calls_draw_what_a_large_one_would(method):
    one, several = Curriculum(method, ROWS, seed=5), Curriculum(method, ROWS, seed=5)
    large = one.select(6, step=0).prompts.tolist()
    assert large == [int(several.select(1, step=0).prompts[0]) for _ in range(6)]


def test_greso_skips_the_longer_the_more_and_follows_the_share_of_flat_groups():
    curriculum = Curriculum("greso:start=0.5", 4)
    greso = curriculum.selection
    for step in range(2):
        draw = curriculum.select(4, step=step)
        rewards = np.zeros((4, 2))
        rewards[draw.prompts == 1] = 1
        rewards[draw.prompts == 2, 0] = 1
        curriculum.observe(draw.tickets, rewards)
    assert greso.run_N.tolist() == [2, 2, 0, 2]
    # after step 0 two of four groups were unsolved and one solved: more than 1/6 and 1/12
    assert greso.keep_2.tolist() == [0.49, 0.49]
    np.testing.assert_allclose(greso._chance(np.arange(4)), [0.49**2, 0.49**2, 1, 0.49**2])
    greso.run_N[0] = 20
    assert greso._chance(np.array([0])) == 0.01
    observe(curriculum, curriculum.select(1, step=2), 0.5)
    assert greso.keep_2.tolist() == [0.48, 0.48]
    curriculum.select(1, step=3)
    assert greso.keep_2.tolist() == pytest.approx([0.49, 0.49])


def test_greso_counts_equal_rewards_halfway_to_success_as_solved_like_everything_else():
    curriculum = Curriculum("greso", 4, reward_range=(-1, 1))
    draw = curriculum.select(4, step=0)
    curriculum.observe(draw.tickets, np.zeros((4, 2)))
    assert curriculum.selection.solved_N.all()
    assert curriculum.metrics()["table/solved"] == 4


def test_greso_draws_skipped_prompts_less_often():
    curriculum, counts = Curriculum("greso:start=0.1", 10, seed=1), np.zeros(10)
    for step in range(60):
        draw = curriculum.select(2, step=step)
        counts[draw.prompts] += 1
        curriculum.observe(draw.tickets, np.where(draw.prompts[:, None] < 5, [[0, 0]], [[0, 1]]))
    assert counts[5:].min() > 2 * counts[:5].max()


def test_adarft_by_hand():
    curriculum = Curriculum("target:hard,start=0.5,rate=0.5,sensitivity=2,goal=0.5", ROWS)
    draw = curriculum.select(3, step=0)
    assert sorted(draw.prompts.tolist()) in ([8, 9, 10], [9, 10, 11])  # 9 and 10 are 0.026 away
    observe(curriculum, draw, 1.0)
    curriculum.select(1, step=1)
    assert curriculum.metrics()["target/difficulty"] == pytest.approx(0.5 + 0.5 * np.tanh(1.0))


def test_difficulties_may_be_decimals():
    rows = [{"prompt": str(i), "hard": Decimal(i) / 4} for i in range(8)]
    curriculum = Curriculum("target:hard,start=1", rows)
    assert sorted(curriculum.select(3, step=0).prompts) == [5, 6, 7]
    with pytest.raises(ConfigError, match="'hard' is no difficulty"):
        Curriculum("target:hard", [*rows, {"prompt": "8", "hard": Decimal("NaN")}])


def test_schedules_by_hand():
    for move, half in (("linear", 0.25), ("cosine", (1 - np.cos(np.pi / 4)) / 2)):
        curriculum = Curriculum(f"target:hard,move={move},steps=8", ROWS)
        curriculum.select(1, step=2)
        assert curriculum.metrics()["target/difficulty"] == pytest.approx(half)
        assert curriculum.select(1, step=20).prompts.tolist() == [19]


def test_the_width_is_that_of_a_gaussian():
    curriculum, counts = Curriculum("target:hard,start=0.5,rate=0,width=0.1", ROWS), np.zeros(20)
    for step in range(1000):
        draw = curriculum.select(1, step=step)
        counts[draw.prompts] += 1
        curriculum.drop(draw.tickets)
    weight_N = np.exp(-((np.arange(20) / 19 - 0.5) ** 2) / 0.02)
    np.testing.assert_allclose(counts / 1000, weight_N / weight_N.sum(), atol=0.04)


@pytest.mark.parametrize("width", [0.01, 1e-160, 1e-310])
def test_a_width_so_narrow_that_every_density_is_0_takes_the_nearest(width):
    rows = [{"prompt": "p", "hard": hard} for hard in (0.0, 1.0, 5.0, 10.0)]
    curriculum = Curriculum(f"target:hard,start=0.4,rate=0,width={width}", rows)
    assert curriculum.select(4, step=0).prompts.tolist() == [2, 1, 0, 3]


def test_ucb_by_hand():
    curriculum = Curriculum("ucb:column=source,window=2", ROWS)
    ucb = curriculum.selection
    draw = curriculum.select(20, step=0)
    # prompts of a: |A| = 1/2; of b: 0
    curriculum.observe(draw.tickets, np.where(draw.prompts[:, None] % 2 == 0, [[1, 0]], [[0, 0]]))
    curriculum.select(1, step=1)
    bonus = np.sqrt(2 * np.log(21) / 11)
    np.testing.assert_allclose(ucb.value_C, [0.5 + bonus, bonus])


def test_learning_progress_by_hand():
    curriculum = Curriculum("progress:column=source,rate=0.5,explore=0.2", ROWS)
    progress = curriculum.selection
    for step, right in enumerate([0, 1]):
        draw = curriculum.select(20, step=step)
        curriculum.observe(draw.tickets, np.where(draw.prompts[:, None] % 2 == 0, [[right, right]], [[0, 0]]))
    curriculum.select(1, step=2)
    # fast: 0, then 1/2; slow: 0, then 1/4; f(1/2) = 0.9, f(1/4) = 0.225 / 0.3
    np.testing.assert_allclose(progress.value_C, [0.9 - 0.75, 0])
    np.testing.assert_allclose(progress._weights(), [0.9, 0.1])
