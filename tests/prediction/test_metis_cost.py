"""The cost model, by hand and beside the paper's number."""

import pytest

from curro import ConfigError
from curro.prediction.metis.cost import StepLengths, added_share, rescaled


def test_by_hand():
    lengths = StepLengths(prompt=10, response=20, context=50, judgment=5)
    # without: 2 (10 + 3 * 20 + 4 (10 + 20)) = 380; added: 6 (50 + 3 * 5) + 4 (50 + 5) = 610
    assert added_share(lengths, candidates=6, rollouts=2, write=3, train=4) == pytest.approx(610 / 380)


def test_the_papers_lengths_give_about_the_papers_share():
    """3.9% at responses of up to 8,192 tokens; prompts and judgments as long as appendix B.3's."""
    share = added_share(StepLengths(prompt=150, response=8192, context=850, judgment=200))
    assert share == pytest.approx(0.033, abs=0.001)


def test_shorter_responses_make_judging_dearer():
    at = StepLengths(prompt=150, response=8192, context=850, judgment=200)
    shares = [
        rescaled(0.039, at, StepLengths(150, response, 850, 200)) for response in (8192, 4096, 1024, 256)
    ]
    assert shares[0] == pytest.approx(0.039)
    assert shares == sorted(shares)
    assert shares[1] == pytest.approx(2 * 0.039, rel=0.02)


@pytest.mark.parametrize(
    "wrong", [{"response": 0}, {"prompt": -1}, {"context": float("nan")}, {"judgment": -5}]
)
def test_impossible_lengths(wrong):
    with pytest.raises(ConfigError, match="lengths are numbers of tokens"):
        StepLengths(**({"prompt": 1, "response": 1, "context": 1, "judgment": 1} | wrong))


def test_impossible_costs():
    lengths = StepLengths(1, 1, 1, 1)
    for wrong in ({"candidates": 0}, {"rollouts": 0}, {"write": 0.0}, {"train": -1.0}):
        with pytest.raises(ConfigError, match="are numbers from 1"):
            added_share(lengths, **wrong)
