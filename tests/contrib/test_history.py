"""History-aware advantages (HA-DW), worked by hand from the paper's equations."""

import numpy as np
import pytest

from curro import CheckpointError, ConfigError, Curriculum
from curro.contrib.history import HistoryAware
from curro.core import registry

SPEC = "history:scale=1,rate=1,window=2,divide_by_std=false"
ROWS = [{"prompt": f"p{i}", "key": f"k{i}"} for i in range(6)]


def credit(curriculum, rewards, step):
    return curriculum.observe(curriculum.select(len(rewards), step=step).tickets, rewards).advantages


def anchor(curriculum):
    return curriculum.advantage.anchor


def test_four_batches_by_hand():
    curriculum = Curriculum("uniform", 6, advantage=SPEC, seed=0)
    # the first batch has no anchor yet
    np.testing.assert_allclose(credit(curriculum, [[1, 0]], 0), [[0.5, -0.5]])
    # C = 1/2, and p = 1/4 is harder: successes count e^(1/4) times, failures e^(-1/4)
    easier, harder = np.exp(-0.25), np.exp(0.25)
    np.testing.assert_allclose(
        credit(curriculum, [[1, 0, 0, 0]], 1), [[0.75 * harder, *[-0.25 * easier] * 3]]
    )
    assert anchor(curriculum) == 0.5
    # C is the mean of 1/2 and 1/4, and p = 3/4 is easier by .375
    expected = [[*[0.25 * np.exp(-0.375)] * 3, -0.75 * np.exp(0.375)]]
    np.testing.assert_allclose(credit(curriculum, [[1, 1, 1, 0]], 2), expected)
    # sigma of .5 and .375 is .0625, so C = .9375 * .375 + .0625 * .75
    expected = 0.5 * np.exp(np.array([-1, 1]) * (0.5 - 0.3984375)) * [1, -1]
    np.testing.assert_allclose(credit(curriculum, [[1, 0]], 3), [expected])
    assert anchor(curriculum) == pytest.approx(0.3984375)


def test_a_batch_is_the_groups_of_a_step_however_they_come_in():
    together, apart = (Curriculum("uniform", 6, advantage=SPEC, seed=0) for _ in range(2))
    rewards = np.array([[1, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]])
    for curriculum in (together, apart):
        credit(curriculum, rewards, 0)
    whole = credit(together, rewards, 1)
    tickets = apart.select(3, step=1).tickets
    single = [apart.observe([tickets[p]], rewards[[p]]).advantages[0] for p in (2, 0, 1)]
    np.testing.assert_array_equal(np.array(single)[[1, 2, 0]], whole)
    for curriculum in (together, apart):
        credit(curriculum, rewards, 2)
        assert anchor(curriculum) == pytest.approx(5 / 12)
    assert not whole[1:].any(), "a group of equal rewards has no advantage to weigh"


def test_success_is_that_of_the_signal():
    signal = Curriculum("uniform", 6, advantage=SPEC, signal="math", seed=0)
    alone = Curriculum("uniform", 6, advantage=SPEC, seed=0)
    for step, math in enumerate(([[1, 0]], [[1, 0, 0, 0]])):
        tickets = signal.select(1, step=step).tickets
        # a reward of three times as much, and a point for all
        shaped = signal.observe(tickets, 3 * np.array(math) + 1, named={"math": math})
        np.testing.assert_allclose(shaped.advantages, 3 * credit(alone, math, step))
        assert anchor(signal) == pytest.approx(anchor(alone), nan_ok=True)


def test_with_the_papers_scale_and_division():
    curriculum = Curriculum("uniform", 6, advantage="history", seed=0)
    deviation = 0.1875**0.5 + 1e-4
    expected = 1.3 * np.array([[0.75, -0.25, -0.25, -0.25]]) / deviation
    np.testing.assert_allclose(credit(curriculum, [[1, 0, 0, 0]], 0), expected)


def test_every_option_of_an_object_is_compared_at_resume():
    plain, divided = HistoryAware(divide_by_std=False), HistoryAware()
    saved = Curriculum("uniform", ROWS, advantage=plain).state_dict()
    with pytest.raises(
        CheckpointError, match="advantage option 'divide_by_std' is False, this curriculum's is True"
    ):
        Curriculum("uniform", ROWS, advantage=divided).load_state_dict(saved)


@pytest.mark.parametrize("options", ["scale=0", "rate=0", "window=1", "scale=.inf"])
def test_options_that_make_no_weight_are_refused(options):
    with pytest.raises(ConfigError, match=r"are numbers above 0 and window is from 2|scale is a number"):
        registry.build("advantage", f"history:{options}")
