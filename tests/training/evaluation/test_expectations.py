"""What is expected of a pool, and which prompts curation keeps: numbers by hand."""

import re

import numpy as np
import pytest

from curro import ConfigError, Curriculum
from curro.data import PromptSet
from curro.runs.folder import RunFolder
from curro.training.evaluation.curation import alignments, hardest, in_order, like_mean_curve
from curro.training.evaluation.expectations import Guesser, describe_visits, visits_warning


def test_the_guesser_by_hand():
    # 3 of 4 prompts have the answer 1: a draw is right with 9/16 + 1/16, one of two with
    # 3/4 (1 - 1/16) + 1/4 (1 - 9/16) = 45/64 + 7/64
    guesser = Guesser.of(["1", "1 ", "1", "2"], 2)
    assert guesser == Guesser(0.75, "1", 10 / 16, 52 / 64, 2)
    assert Guesser.of(["1", None], 2) is None


def test_a_pool_whose_pass_rate_is_chance_is_named():
    guesser = Guesser.of(["0", "1"] * 50, 4)
    at_chance = guesser.describe(np.full(100, 0.5), 0.95)
    assert "0.938 at pass@4" in at_chance[0]
    assert "pass@4 of 0.950 is about what the guesser gets" in at_chance[1]
    assert len(guesser.describe(np.full(100, 0.9), 1.0)) == 1
    assert len(Guesser.of([str(n) for n in range(100)], 4).describe(np.full(100, 0.1), 0.3)) == 1


def test_visits():
    # 25,600 rollouts in groups of 8 are 3,200 groups
    assert describe_visits(25_600, 8, 1_600).endswith("visits each of 1,600 prompts 2 times")
    assert describe_visits(25_600, 8, 20).endswith("of 20 prompts 160 times")
    few = describe_visits(25_600, 8, 8_000)
    assert "8,000 prompts 0.4 times: methods that need second visits" in few
    assert "0.4 times on average" in visits_warning("pspo", 25_600, 8, 8_000)
    assert "at most 1,600 of the 8,000 prompts" in visits_warning("pspo", 25_600, 8, 8_000)
    assert visits_warning("pspo", 25_600, 8, 3_200) is None


def test_the_examples_of_methods_that_need_second_visits_do():
    examples, _, other = describe_visits(25_600, 8, 8_000).rpartition("(as ")[2].partition(")")
    for name in re.split(", | and ", examples):
        assert Curriculum(name, 8).selection.needs_second_visits
    assert "; frontier predicts" in other
    assert not Curriculum("frontier", 8).selection.needs_second_visits
    rated = [{"prompt": str(i), "pass_rate": i / 8} for i in range(8)]
    assert not Curriculum("posterior:known=pass_rate", rated).selection.needs_second_visits


def test_the_hardest_prompts():
    rates = np.array([0.5, 0.0, np.nan, 0.1, 0.0, 0.9])
    assert hardest(rates, 0.4).tolist() == [1, 4]
    assert hardest(rates, 0.01).tolist() == [1]
    ids = hardest(rates, 0.8)
    assert rates[in_order(ids, rates, "easy-first")].tolist() == sorted(rates[ids], reverse=True)
    assert rates[in_order(ids, rates, "hard-first")].tolist() == sorted(rates[ids])
    with pytest.raises(ConfigError, match="in \\(0, 1\\], not 0"):
        hardest(rates, 0)
    with pytest.raises(ConfigError, match="no prompt has a pass rate"):
        hardest(np.array([np.nan]), 0.5)


def test_alignments_by_hand():
    # prompts 0 and 1 go 0, 1 and 0, .5; prompt 2 stays at 0; the mean curve is 0, .5
    prompts = np.array([0, 1, 2, 0, 2, 1, 3])
    rates = np.array([0, 0, 0, 1, 0, 0.5, 0.0])
    found = alignments(prompts, rates, 5)
    # the room is 1 + .25; prompt 0 and 2 are away by .25, prompt 1 by 0
    np.testing.assert_allclose(found, [0.8, 1.0, 0.8, np.nan, np.nan])


def test_prompts_that_are_learnt_as_the_mean(tmp_path):
    prompts = PromptSet([{"key": key, "prompt": key, "answer": None} for key in "abcd"])
    run = RunFolder.create(tmp_path / "run", {"settings": {}})
    curves = {"a": [0, 1], "b": [0, 0.5], "c": [1, 0], "d": [0, 0.5]}
    for step in (0, 1):
        run.append_groups(
            {"step": step, "prompt": 9, "key": key, "mean": curve[step], "variance": 0.0}
            for key, curve in curves.items()
        )
    # the mean curve is .25, .5 and the room .5625 + .25; c is away by .5625 + .25
    assert like_mean_curve(run, prompts, 0.6).tolist() == [0, 1, 3]
    others = PromptSet([{"key": "z", "prompt": "z", "answer": None}])
    with pytest.raises(ConfigError, match="none was visited twice"):
        like_mean_curve(run, others, 0.6)
