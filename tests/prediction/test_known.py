"""Pass rates that are known before the first rollout: taken at their word, then for what they are worth."""

import numpy as np
import pytest

from curro import ConfigError, Curriculum
from curro.data import PromptSet
from curro.prediction.features import KnownFeatures, TextFeatures
from curro.prompts import PromptTable


def prompts_of(known, texts=None):
    return PromptSet(
        [
            {"key": str(i), "prompt": texts[i] if texts else "the same", "answer": None, "known": rate}
            for i, rate in enumerate(known)
        ]
    )


def features_of(known, others=None):
    features = KnownFeatures("known", others)
    features.bind(PromptTable(len(known), rows=prompts_of(known).rows))
    return features


def test_the_logit_is_the_last_feature():
    features = features_of([0.5, 0.8, None, 0.0], TextFeatures())
    found = features.of(np.array([1, 2, 3, 1]))
    least = np.log(0.02 / 0.98)
    np.testing.assert_allclose(found[:, -1], [np.log(4), (np.log(4) + least) / 3, least, np.log(4)])
    np.testing.assert_array_equal(found[0, :-1], found[2, :-1])  # of one text
    assert features.blocks(385)[-1] == 1
    assert features.means(385).tolist() == [0] * 384 + [1]


@pytest.mark.parametrize("spec", ["frontier", "posterior:target=none,thompson=false"])
def test_the_first_choice_goes_by_it(spec):
    known = np.arange(100) / 99
    name, _, options = spec.partition(":")
    curriculum = Curriculum(
        f"{name}:known=known,candidates=10,{options}".rstrip(","), prompts_of(known.tolist())
    )
    chosen = known[curriculum.select(10, step=0).prompts]
    assert np.abs(chosen - 0.5).max() < 0.06


def trained(known, rates, steps=60):
    texts = [f"{'abcd'[i % 4]} {i}" for i in range(len(rates))]
    curriculum, rng = (
        Curriculum("frontier:known=known,candidates=1", prompts_of(known, texts)),
        np.random.default_rng(0),
    )
    for step in range(steps):
        draw = curriculum.select(8, step=step)
        curriculum.observe(draw.tickets, (rng.random((8, 8)) < rates[draw.prompts, None]) + 0.0)
    curriculum.select(1, step=steps)
    return curriculum.selection.predictor.posterior


def test_what_it_is_worth_is_learnt():
    rates = np.random.default_rng(1).uniform(0.05, 0.95, 1000)
    assert trained(rates.tolist(), rates).regression.weight_D[-1] == pytest.approx(1, abs=0.25)
    other = 1 / (
        1 + np.exp(-2 - 0.5 * np.log(rates / (1 - rates)))
    )  # a better model, which tells half as much
    assert trained(other.tolist(), rates).regression.weight_D[-1] == pytest.approx(2, abs=0.5)
    shuffled = np.random.default_rng(2).permutation(rates)
    assert abs(trained(shuffled.tolist(), rates).regression.weight_D[-1]) < 0.25


def test_a_resume_changes_nothing(tmp_path):
    known = np.linspace(0, 1, 40).tolist()

    def new():
        return Curriculum("frontier:known=known", prompts_of(known), seed=0)

    one, other = new(), new()
    for step in range(6):
        draw = one.select(4, step=step)
        assert other.select(4, step=step).prompts.tolist() == draw.prompts.tolist()
        rewards = np.arange(8) < draw.prompts[:, None] // 5
        one.observe(draw.tickets, rewards)
        other.observe(draw.tickets, rewards)
        other.save(tmp_path / f"{step}")
        other = new()
        other.load(tmp_path / f"{step}")


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ([None, None], "no prompt of the data set has a number"),
        ([0.5, 1.5], r"pass rates in \[0, 1\]"),
        ([0.5, "easy"], "no number"),
    ],
)
def test_what_is_no_pass_rate_is_refused(known, words):
    with pytest.raises(ConfigError, match=words):
        Curriculum("frontier:known=known", prompts_of(known))


def test_a_column_that_is_not_there():
    with pytest.raises(
        ConfigError, match="no prompt of the data set has a number in the column 'difficulty'"
    ):
        Curriculum("frontier:known=difficulty", prompts_of([0.5]))
    with pytest.raises(ConfigError, match="give the curriculum a `PromptSet`"):
        Curriculum("frontier:known=difficulty", 4)
