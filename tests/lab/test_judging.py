"""A warm model that judges: its demonstrations are METIS' own conversations, and what it says is true."""

import random

import numpy as np
import pytest
import torch
from benchmarks.learning.warm_models import Judge

from curro.cli import make_app
from curro.lab import family, load
from curro.methods.prediction.metis.predictor import read_prediction
from curro.methods.prediction.metis.template import read_template
from curro.methods.prediction.quality import rank_correlation
from curro.rollout.engines.engine import SamplingSettings
from curro.rollout.sampling import sample

TRAIN = make_app(["train"])


@pytest.fixture
def judge() -> Judge:
    return Judge(family("chains_judge"))


def predictions(name: str, conversations: list) -> np.ndarray:
    """What the lab's model of this name predicts in each conversation; NaN where it fails."""
    model, tokenizer = load(name)
    answers = sample(model, tokenizer, conversations, n=1, settings=SamplingSettings(12))
    return np.array([read_prediction(tokenizer.decode(ids, skip_special_tokens=True)) for (ids,) in answers])


def test_a_chain_is_right_as_often_as_all_of_its_letters(judge) -> None:
    rng = random.Random(0)
    for row in judge.family.problems(20, seed=0, difficulty="easy"):
        right = np.mean([judge.family.score(judge.family.worked(row, rng), row) for _ in range(1000)])
        assert abs(right - judge.reliability(row)) < 0.06
        realised = np.mean([judge.realised_variance(row, rng) for _ in range(1000)])
        assert abs(realised - judge.expected_variance(row)) < 0.015


@pytest.mark.parametrize("shown", [0, 3])
def test_the_warm_model_seldom_fails_and_knows_what_is_uncertain(judge, shown) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng, rows = random.Random(0), judge.family.problems(150, seed=3)
    template = read_template("lab", exemplars=True)
    conversations = [
        template.messages(
            [(other["prompt"], judge.realised_variance(other, rng)) for other in rng.sample(rows, shown)],
            row["prompt"],
        )
        for row in rows
    ]
    predicted = predictions("chains_judge", conversations)
    assert np.isnan(predicted).mean() < 0.05
    expected = np.array([judge.expected_variance(row) for row in rows])
    assert rank_correlation(np.nan_to_num(predicted), expected) > 0.4


def test_exemplars_tell_the_calibrated_judge_how_good_the_learner_is() -> None:
    """Results of a weak and of a strong learner; without exemplars the two are asked the same."""
    judge = Judge(family("chains_calibrated"))
    torch.set_num_threads(1)
    rows = judge.family.problems(150, seed=3)
    template = read_template("lab-compact", exemplars=True)
    means = {}
    for shown in (0, 9):
        for skill in (2.0, 0.25):
            torch.manual_seed(0)
            rng = random.Random(0)
            conversations = [
                template.messages(
                    [
                        (other["prompt"], judge.realised_variance(other, rng, skill))
                        for other in rng.sample(rows, shown)
                    ],
                    row["prompt"],
                )
                for row in rows
            ]
            predicted = predictions("chains_calibrated", conversations)
            assert np.isnan(predicted).mean() < 0.05
            means[shown, skill] = np.nanmean(predicted)
    # expected are .03 and .17
    assert means[0, 2.0] == means[0, 0.25]
    assert means[9, 0.25] - means[9, 2.0] > 0.05
