"""How often a run visits the prompts of a pool: numbers by hand."""

import re

from curro import Curriculum
from curro.training.evaluation.expectations import describe_visits, visits_warning


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
