"""What the choice of prompts was worth in rollouts, with numbers by hand, and where nothing is known."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from curro.runs.folder import RunFolder
from curro.runs.reader import read_history
from curro.runs.report import inspect_run, write_report
from curro.runs.report.worth import Worth

KNOWN_SHARES = {1: (0.25, 0.2, 0.5), 2: (0.5, 0.4, 0.8)}


def run_of(folder, rates_by_step, shares):
    """A run with groups of 8, of these success rates by step, and the estimates for uniform sampling."""
    run = RunFolder.create(folder, {})
    for step, rates in rates_by_step.items():
        names = ("signal/uniform_share", "signal/uniform_share_low", "signal/uniform_share_high")
        estimate = dict(zip(names, shares[step], strict=True)) if step in shares else {}
        run.append_groups(
            {
                "step": step, "prompt": i, "key": f"k{i}", "reason": 0, "mean": rate,
                "variance": rate * (1 - rate), "admitted": True, "rollouts": 8,
            }
            for i, rate in enumerate(rates)
        )  # fmt: skip
        run.append_metrics({"step": step, "rollouts": 32 * step, "seconds": 1.0, **estimate})
    return run


RATES = {1: [0.5, 0.25, 0.0, 0.75], 2: [0.5, 1.0, 0.0, 0.25]}


def test_the_rollouts_that_uniform_sampling_would_have_needed_by_hand(tmp_path):
    """3 groups of 8 at a share of 1/4, 2 at 1/2: 96 + 32; at .5 and .8: 48 + 20; at .2 and .4: 120 + 40."""
    worth = Worth.of(read_history(run_of(tmp_path / "run", RATES, KNOWN_SHARES)))
    assert (worth.spent, worth.with_signal) == (64, 40)
    assert (worth.needed, worth.low, worth.high) == pytest.approx((128, 68, 160))
    assert worth.describe() == (
        "Of 64 rollouts, 40 (62%) were in groups with a signal. Uniform sampling would have needed an "
        "estimated 128 (68 to 160) for as many, so that the choice of prompts was worth about 64 rollouts."
    )


def test_groups_without_a_reward_are_spent_too(tmp_path):
    run = run_of(tmp_path / "run", RATES, KNOWN_SHARES)
    lost = {"step": 2, "prompt": 9, "key": "k9", "reason": 0, "mean": None, "variance": 0.0, "rollouts": 8}
    run.append_groups([lost | {"admitted": False}])
    worth = Worth.of(read_history(run))
    assert (worth.spent, worth.with_signal) == (72, 40)


def test_steps_before_the_first_estimate_take_that_one(tmp_path):
    worth = Worth.of(read_history(run_of(tmp_path / "run", RATES, {2: (0.5, 0.4, 0.8)})))
    assert worth.needed == pytest.approx(40 / 0.5)


@pytest.mark.parametrize(
    ("share", "words"),
    [
        ((0.9, 0.8, 1.0), "44 (40 to 50) for as many, so that the choice of prompts cost about 20 rollouts."),
        ((0.6, 0.5, 0.7), "67 (57 to 80) for as many, which is no more and no less than was spent"),
        ((0.1, 0.0, 0.2), "400 (200 or more) for as many, so that the choice of prompts was worth about 336"),
        ((0.0, 0.0, 0.1), "Uniform sampling, by its estimate, would have found none in any number."),
    ],
)
def test_what_is_said_of_other_estimates(tmp_path, share, words):
    worth = Worth.of(read_history(run_of(tmp_path / "run", RATES, {1: share})))
    assert words in worth.describe()


def test_without_an_estimate_the_sentence_says_so_and_a_run_without_groups_has_none(tmp_path):
    run = run_of(tmp_path / "run", RATES, {})
    worth = Worth.of(read_history(run))
    assert np.isnan([worth.needed, worth.low, worth.high]).all()
    sentence = (
        "Of 64 rollouts, 40 (62%) were in groups with a signal. What uniform sampling would have needed for "
        "as many is not known: too few prompts were drawn with a known probability."
    )
    assert worth.describe() == sentence
    assert sentence in write_report(run).read_text()
    shown = Console(file=io.StringIO(), width=400)
    inspect_run(run, 3, shown)
    assert sentence in shown.file.getvalue()
    assert Worth.of(read_history(run_of(tmp_path / "empty", {1: []}, {}))) is None


def test_a_run_without_any_signal(tmp_path):
    worth = Worth.of(read_history(run_of(tmp_path / "run", {1: [0.0, 1.0]}, KNOWN_SHARES)))
    assert (worth.with_signal, worth.needed) == (0, 0)
    assert "Of 16 rollouts, 0 (0%) were in groups with a signal." in worth.describe()
