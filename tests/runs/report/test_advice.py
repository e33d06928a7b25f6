"""Every rule: what it says, what it needs for it, and silence in a run in which nothing is wrong."""

import numpy as np
import pytest

from curro.core.bases import Reason
from curro.runs.folder import RunFolder
from curro.runs.reader import read_history
from curro.runs.report.advice import RULES, advise, headlines, verdict


def history_of(folder, rates, *, config=None, metrics=None, **columns):
    """A run whose groups have these success rates, four a step; columns by name, one value or one a group."""
    run = RunFolder.create(folder, config or {})
    run.append_metrics({"step": max(len(rates) // 4, 1), "rollouts": 8, "seconds": 1.0, **(metrics or {})})
    defaults = {"prompt": range(len(rates)), "reason": 0, "admitted": True, "rollouts": 8, **columns}
    run.append_groups(
        {
            "step": i // 4,
            "key": f"k{i}",
            "mean": rate,
            "variance": rate * (1 - rate),
            **{name: value if np.isscalar(value) else value[i] for name, value in defaults.items()},
        }
        for i, rate in enumerate(rates)
    )
    return read_history(run)


def found(history):
    return {one.name: one for one in advise(history)}


MIXED = [0.5, 0.25, 0.0, 1.0] * 64


def test_nothing_is_said_of_a_run_in_which_nothing_is_wrong(tmp_path):
    assert found(history_of(tmp_path / "run", MIXED, cut=1, source="a")) == {}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_short_run_is_not_judged(tmp_path, rule):
    ratio = {"signal/ratio": 9.0}
    bad = {"admitted": False, "cut": 8}
    history = history_of(
        tmp_path / "run", [0.0] * 60, metrics=ratio, config={"settings": {"prompts_per_step": 8}}, **bad
    )
    assert rule(history) is None
    assert verdict(history).word == "early"


def test_most_groups_are_flat(tmp_path):
    hard = found(history_of(tmp_path / "hard", [0.0, 0.0, 0.0, 0.5] * 32))["most-flat"]
    assert hard.problem == "75% of the last 128 groups have no gradient: 75% are all wrong, 0% all right."
    assert "easier prompts" in hard.advice
    easy = found(history_of(tmp_path / "easy", [1.0, 1.0, 1.0, 0.5] * 32))["most-flat"]
    assert "too easy" in easy.advice
    assert "most-flat" not in found(history_of(tmp_path / "fine", [0.0, 0.0, 0.5, 0.5] * 32))


def test_a_source_never_has_a_reward(tmp_path):
    rates, sources = [0.0, 0.5, 0.5, 0.5] * 40, ["format", "a", "a", "b"] * 40
    one = found(history_of(tmp_path / "run", rates, source=sources))["rewardless-source"]
    assert one.problem == "The source 'format' has had no reward in 320 rollouts, others have."
    assert "rewardless-source" not in found(history_of(tmp_path / "few", rates[:100], source=sources[:100]))
    assert "rewardless-source" not in found(history_of(tmp_path / "none", [0.0] * 160, source=sources))


def test_a_gate_rejects_nearly_all(tmp_path):
    admitted = [True, *[False] * 9] * 16
    one = found(history_of(tmp_path / "run", MIXED[:160], admitted=admitted))["gate-rejects"]
    assert one.problem == "The gate rejected 90% of the last 160 groups: an admitted group costs 10."
    none = found(history_of(tmp_path / "none", MIXED[:160], admitted=False))["gate-rejects"]
    assert none.problem.endswith("none was admitted.")


def test_groups_have_no_reward_once_what_scores_them_has_failed(tmp_path):
    failing = found(history_of(tmp_path / "failing", [*MIXED, *[np.nan, 0.5, 0.5, np.nan] * 32]))
    assert failing["unscored-groups"].problem.startswith("25% of the last 256 groups have no reward")
    assert "unscored-groups" not in found(history_of(tmp_path / "past", [*[np.nan] * 64, *MIXED]))


def test_completions_are_cut(tmp_path):
    one = found(history_of(tmp_path / "run", MIXED, cut=4))["cut-completions"]
    assert one.problem == "50% of the recent completions were cut at the length limit."


def test_gradients_are_larger_than_uniform_sampling_s(tmp_path):
    one = found(history_of(tmp_path / "run", MIXED, metrics={"signal/ratio": 4.0}))["learning-rate"]
    assert "2.0 times as large" in one.problem
    assert "learning-rate" not in found(history_of(tmp_path / "b", MIXED, metrics={"signal/ratio": 2.0}))


QUARTER = {"signal/uniform_share": 0.25, "signal/uniform_share_low": 0.2, "signal/uniform_share_high": 0.3}
"""What is known of uniform sampling, as the curriculum's metrics have it."""


def test_the_verdict(tmp_path):
    works = verdict(history_of(tmp_path / "works", [0.5] * 256, metrics=QUARTER))
    assert works.word == "works"
    # Agresti and Coull give 0.9815 to 1 for 256 of 256: 0.9997 / (0.25 + sqrt(0.0625 - 0.9997 * 0.06)) and
    # (0.25 + sqrt(0.0625 - 0.06)) / 0.06
    assert works.sentence == (
        "In the last 256 groups the curriculum found 4.00 (3.33 to 5.00) times as many groups with a signal "
        "as uniform sampling would have: 100% of them had one, against an estimated 25% (20% to 30%)."
    )
    level = [0.5, 0.0, 0.0, 1.0] * 64
    assert verdict(history_of(tmp_path / "level", level, metrics=QUARTER)).word == "level"
    behind = [0.5, *[0.0] * 15] * 16
    assert verdict(history_of(tmp_path / "behind", behind, metrics=QUARTER)).word == "behind"


def test_the_verdict_is_of_the_groups_that_the_estimate_is_of(tmp_path):
    """The latest 1,024 up to the estimate's step, which a page of a run in progress has gone beyond."""
    rates = [*[0.0] * 976, *[0.5] * 1_024]
    frontier = {"curriculum": {"selection": {"name": "frontier"}}}
    folder = tmp_path / "run"
    history_of(folder, rates[:1_600], metrics=QUARTER, config=frontier)  # its metrics are of step 400
    RunFolder.open(folder).append_groups(
        {"step": 401, "prompt": 1, "reason": 0, "mean": 0.0, "variance": 0.0} for _ in range(64)
    )
    # of the groups from 576 to 1,599, those from 976 on
    assert verdict(read_history(folder)).sentence.startswith("In the last 1,024 groups frontier found 2.44 (")
    assert "61% of them" in verdict(read_history(folder)).sentence
    RunFolder.open(folder).append_metrics({"step": 401, "rollouts": 9, "seconds": 2.0})
    assert verdict(read_history(folder)).word == "unknown", "the estimate is lost"


def test_a_verdict_of_no_gain_has_the_log_s_sentence_with_the_cause(tmp_path):
    rates, reasons = [0.5, 0.0, 0.0, 0.0] * 64, np.repeat([Reason.EXPLORATION, *[Reason.PRIORITY] * 3], 4)
    columns = {"metrics": QUARTER, "reason": np.tile(reasons, 16).tolist()}
    level = verdict(history_of(tmp_path / "level", rates, **columns))
    # Agresti and Coull give 0.1999 to 0.3078 for 64 of 256; 0.05999 / (0.0625 + sqrt(0.003906 - 0.003599)),
    # (0.0625 + sqrt(0.003906 - 0.003549)) / 0.06
    assert level.sentence.startswith(
        "In the last 256 groups the curriculum found 1.00 (0.75 to 1.36) times as"
    )
    assert level.word == "level"
    assert level.sentence.endswith(
        "an estimated 25% (20% to 30%). So far the method finds no more than uniform sampling: 25% of "
        "the groups that it chose have a signal, and of random ones an estimated 25%. What the method reads "
        "does not tell which prompts have a signal: try frontier:features=text+entropy, known pass rates "
        "(--known), or uniform sampling."
    )
    unknown = verdict(history_of(tmp_path / "unknown", rates, metrics=QUARTER))  # no random groups are known
    assert unknown.sentence.endswith("against an estimated 25% (20% to 30%).")


NONE = {"signal/uniform_share": 0.0, "signal/uniform_share_low": 0.0, "signal/uniform_share_high": 0.0625}


def test_the_verdict_where_uniform_sampling_finds_nothing(tmp_path):
    some = verdict(history_of(tmp_path / "some", [0.5] * 256, metrics=NONE))
    # sqrt(0.9997) / 0.0625
    assert (some.word, "found at least 16.00 times as many" in some.sentence) == ("works", True)
    none = verdict(history_of(tmp_path / "none", [0.0] * 256, metrics=NONE))
    assert none.word == "level"
    assert none.sentence.startswith(
        "None of the last 256 groups that the curriculum chose had a signal, and uniform sampling would have "
        "found one in 0% to 6%"
    )
    few = NONE | {"signal/uniform_share": 0.03125}
    bounded = verdict(history_of(tmp_path / "few", [0.5] * 256, metrics=few)).sentence
    assert " or more) times as many" in bounded


def test_the_verdict_where_nothing_is_known_of_uniform_sampling(tmp_path):
    unknown = verdict(history_of(tmp_path / "run", [0.5] * 256))
    assert unknown.word == "unknown"
    assert unknown.sentence.startswith(
        "100% of the last 256 groups had a signal. What uniform sampling would find is not known"
    )


def test_the_headline_s_share_of_groups_with_a_signal_is_of_groups_and_not_of_steps(tmp_path):
    """Step 0 was filled from four groups, of which one has a signal, and step 1 from one that has."""
    history_of(tmp_path, [0.5, 0.0, 0.0, 0.0, 0.5], metrics={"signal_share": 0.25})
    RunFolder.open(tmp_path).append_metrics({"step": 2, "rollouts": 40, "seconds": 2.0, "signal_share": 1.0})
    history = read_history(tmp_path)
    shown = {headline.name: headline.value for headline in headlines(history)}
    assert shown["groups with signal"] == "40%"


def test_judgments_that_hold_no_number(tmp_path):
    judged = {"judge/judgments": 320.0, "judge/failures": 320.0}
    assert "unreadable-judgments" in found(history_of(tmp_path / "run", MIXED, metrics=judged))
    some = judged | {"judge/failures": 100.0}
    assert "unreadable-judgments" not in found(history_of(tmp_path / "some", MIXED, metrics=some))


def test_a_reward_of_one_value_is_the_cause_of_what_else_is_seen(tmp_path):
    accepted = found(history_of(tmp_path / "run", [1.0] * 128, admitted=False))
    assert set(accepted) == {"one-reward"}
    assert "the reward accepts anything" in accepted["one-reward"].advice


def test_cut_completions_are_no_cause_of_solved_prompts(tmp_path):
    assert list(found(history_of(tmp_path / "run", [1.0, 1.0, 1.0, 0.5] * 32, cut=4))) == [
        "cut-completions", "most-flat",
    ]  # fmt: skip


def test_a_collapse_is_seen_in_random_prompts_alone(tmp_path):
    """The method may have gone on to harder prompts; random ones are of the same data all along."""
    rates = [0.5] * 256 + [0.0] * 256
    random = {"reason": int(Reason.EXPLORATION)}
    assert list(found(history_of(tmp_path / "random", rates, **random))) == ["collapsed"]
    assert list(found(history_of(tmp_path / "chosen", rates))) == ["most-flat"]
    assert "collapsed" not in found(history_of(tmp_path / "few", rates[:256] + [0.5, 0.0] * 128, **random))
