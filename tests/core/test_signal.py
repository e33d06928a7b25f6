"""A part of the reward as the signal: everything but the advantages goes by it."""

import numpy as np
import pytest

from curro import CheckpointError, ConfigError, Curriculum
from curro.core.groups import outcome_parts

MATH = [[0, 0, 0, 0], [1, 0, 0, 0]]
FORMAT = [[1, 0, 0, 1], [1, 1, 1, 1]]
SUM = [[0.2, 0, 0, 0.2], [1.2, 0.2, 0.2, 0.2]]
"""math + 0.2 format."""
NAMED = {"math": MATH, "format": FORMAT}


def observed(selection="uniform", rewards=SUM, named=NAMED, **options):
    """The curriculum of two prompts and its verdict on their groups, in order of prompt."""
    curriculum = Curriculum(selection, 2, **options)
    draw = curriculum.select(2, step=0)
    rows = draw.prompts
    named = {name: np.asarray(part)[rows] for name, part in named.items()}
    verdict = curriculum.observe(draw.tickets, np.asarray(rewards)[rows], named=named)
    return curriculum, verdict.take(np.argsort(rows))


def test_the_signal_ranks_and_counts_and_the_sum_is_credited():
    curriculum, verdict = observed(signal="math", admission="signal")
    # means of the sums: 0.1 and 0.45
    expected = [[0.1, -0.1, -0.1, 0.1], [0.75, -0.25, -0.25, -0.25]]
    np.testing.assert_allclose(verdict.advantages, expected)
    # of math: 0, and 1/4 * 3/4
    assert verdict.informativeness.tolist() == [0, 0.1875]
    assert verdict.admitted.tolist() == [False, True]
    assert curriculum.table["reward_mean"].tolist() == [0, 0.25]
    metrics = curriculum.metrics()
    assert (metrics["table/unsolved"], metrics["table/learnable"]) == (1, 1)
    # the meter's average is of the variances 0 and 0.1875, one group each, in either order
    assert 0.09 < metrics["signal/mean_square_advantage"] < 0.1


def test_without_a_signal_the_sum_does_it_all():
    for options in ({}, {"signal": "sum"}):
        _, verdict = observed(admission="signal", **options)
        np.testing.assert_allclose(verdict.informativeness, [0.01, 0.1875])
        assert verdict.admitted.all()


def test_other_advantages_are_of_the_sum_too():
    _, verdict = observed(signal="math", advantage="group:divide_by_std=true,epsilon=0")
    np.testing.assert_allclose(verdict.advantages[0], [1, -1, -1, 1])
    _, verdict = observed(signal="math", advantage="leave-one-out")
    np.testing.assert_allclose(verdict.advantages[1], [1, -1 / 3, -1 / 3, -1 / 3])


def test_the_posterior_learns_the_signal():
    curriculum, _ = observed("posterior:half_life=8", signal="math")
    # the prior is Beta(1/2, 1/2) of no group, then moves; what counts is the evidence of 4 rollouts each
    curriculum.select(1, step=1)
    posterior = curriculum.selection.predictor.posterior
    assert posterior.mean.tolist() == [0, 0.25]
    assert posterior.count.tolist() == [4, 4]


def test_several_parts_are_summed_where_a_rollout_has_them():
    named = {"math": [[1, 0, np.nan, np.nan]] * 2, "code": [[np.nan, np.nan, 1, np.nan]] * 2}
    curriculum, verdict = observed(named=named, signal="math+code")
    # 1, 0 and 1 of three rollouts
    np.testing.assert_allclose(verdict.informativeness, [2 / 9] * 2)
    np.testing.assert_allclose(curriculum.table["reward_mean"], [2 / 3] * 2, rtol=1e-6)
    # the fourth rollout has neither part and counts as not scored; 1.2, 0.2 and 0.2 are left
    np.testing.assert_allclose(verdict.advantages[1], [2 / 3, -1 / 3, -1 / 3, 0])
    assert curriculum.config["signal"] == ["math", "code"]


def test_a_group_without_the_signal_is_dropped():
    curriculum, verdict = observed(named={"math": [[np.nan] * 4, MATH[1]]}, signal=["math"])
    assert verdict.admitted.tolist() == [False, True]
    assert verdict.credited.tolist() == [[False] * 4, [True] * 4]
    assert verdict.advantages[0].tolist() == [0] * 4
    assert (curriculum.ledger.observed, curriculum.ledger.dropped) == (1, 1)
    assert curriculum.table["visits"].tolist() == [0, 1]


@pytest.mark.parametrize("advantage", [None, "smoothed:variance=none", "leave-one-out"])
def test_a_rollout_without_the_signal_counts_as_not_scored(advantage):
    missing = [[1, 0, 0, np.nan]] * 2
    verdict = observed(named={"math": missing}, signal="math", advantage=advantage)[1]
    scored = Curriculum("uniform", 2, advantage=advantage)
    draw = scored.select(2, step=0)
    sums = np.where(np.isnan(missing), np.nan, SUM)[draw.prompts]
    expected = scored.observe(draw.tickets, sums).take(np.argsort(draw.prompts)).advantages
    np.testing.assert_allclose(verdict.advantages, expected)
    assert verdict.advantages[:, 3].tolist() == [0, 0]
    assert verdict.credited.tolist() == [[True, True, True, False]] * 2


@pytest.mark.parametrize("signal", ["", "math+", "math+math", "math+sum", [], [3], 7, ["math", ""]])
def test_what_is_no_signal(signal):
    with pytest.raises(ConfigError, match="signal names parts of the reward"):
        Curriculum("uniform", 2, signal=signal)


@pytest.mark.parametrize(
    ("names", "outcomes"),
    [
        (["math", "format"], ("math",)),
        (["code:timeout=5", "exact", "overlong:limit=9"], ("code:timeout=5", "exact")),
        (["accuracy_reward", "format_reward"], ("accuracy_reward",)),
        (["correct", "short"], ("correct",)),
        (["correctness_reward", "length"], ("correctness_reward",)),
        (["is_correct", "style"], ("is_correct",)),
        (["math"], ()),
        (["math", "code"], ()),
        (["mine:score", "format"], ()),
        (["length", "format", "cosine", "language"], ()),
    ],
)
def test_which_parts_verify(names, outcomes):
    assert outcome_parts(names) == outcomes


def test_a_host_chooses_the_verifier_where_nobody_named_a_signal():
    curriculum = Curriculum("uniform", 2)
    assert curriculum.default_signal(["math", "format"]) == ("math",)
    assert curriculum.signal_parts == ("math",)
    for signal in ("sum", "format"):
        curriculum = Curriculum("uniform", 2, signal=signal)
        assert curriculum.default_signal(["math", "format"]) == ()
        assert curriculum.signal_parts == (() if signal == "sum" else ("format",))


def test_a_run_goes_on_with_the_signal_it_began_with():
    curriculum = Curriculum("frontier", 4)
    curriculum.default_signal(["math", "format"])
    state = curriculum.state_dict()
    resumed = Curriculum("frontier", 4)
    resumed.load_state_dict(state)
    assert resumed.signal_parts == ("math",)
    # a checkpoint of before there were signals: the sum, whatever a host would choose today
    del state["signal_parts"]
    resumed = Curriculum("frontier", 4)
    resumed.default_signal(["math", "format"])
    resumed.load_state_dict(state)
    assert resumed.signal_parts == ()


def test_another_signal_than_the_checkpoints_is_refused():
    state = Curriculum("uniform", 4, signal="math").state_dict()
    Curriculum.from_config({"selection": "uniform", "signal": ["math"]}, 4).load_state_dict(state)
    for config in ({}, {"signal": "code"}):
        with pytest.raises(CheckpointError, match="another configuration"):
            Curriculum.from_config({"selection": "uniform"} | config, 4).load_state_dict(state)
    damaged = Curriculum("uniform", 4).state_dict() | {"signal_parts": [3]}
    with pytest.raises(CheckpointError, match="signal_parts"):
        Curriculum("uniform", 4).load_state_dict(damaged)


def play(curriculum, groups, mixed):
    """Groups one by one, of which the first `mixed` have a right answer; the format always varies."""
    for i in range(groups):
        draw = curriculum.select(1, step=0)
        math = np.array([[float(i < mixed), 0]])
        named = {"math": math, "format": [[0, 1]]}
        curriculum.observe(draw.tickets, math + np.array([[0, 0.2]]), named=named)


def test_it_warns_once_where_the_update_is_form():
    curriculum = Curriculum("uniform", 100, signal="math")
    play(curriculum, 63, 3)
    with pytest.warns(RuntimeWarning, match="varies in 64 of the latest 64 groups, and math in 3") as record:
        play(curriculum, 20, 0)
    assert len(record) == 1


@pytest.mark.parametrize(
    ("options", "groups", "mixed"),
    [
        ({"signal": "math", "admission": "signal"}, 90, 3),
        ({"signal": "sum"}, 90, 3),
        ({}, 90, 3),
        ({"signal": "math"}, 64, 16),
    ],
    ids=["a gate", "the sum", "no signal", "a quarter of outcomes varies"],
)
def test_it_does_not_warn(options, groups, mixed):
    play(Curriculum("uniform", 100, **options), groups, mixed)


def test_rewards_outside_of_the_range_are_warned_of_once_with_the_range_seen():
    """Rewards of -1 and +1 with a band: the mean 0.5 is taken for the pass rate, and is one of 3/4."""
    curriculum = Curriculum("least-visited", 9, admission="band:0.4,0.6")
    curriculum.observe(curriculum.select(1, step=0).tickets, [[1.0, 1.0, 1.0, 1.0]])  # inside
    tickets = curriculum.select(3, step=0).tickets
    rewards = [[1.0, -1.0, 1.0, -1.0], [1.0, 1.0, 1.0, -1.0], [-2.0, 2.0, 1.0, 1.0]]
    with pytest.warns(RuntimeWarning) as record:
        admitted = [curriculum.observe([tickets[i]], [rewards[i]]).admitted[0] for i in range(3)]
    assert admitted == [False, True, True]
    (warning,) = record
    assert str(warning.message).startswith(
        "rewards from -1 to 1 were seen, and the reward range is 0 to 1: success rates, bands and "
        "predictions misread what lies outside of it. Set reward_range=(-1, 1), "
    )
    assert "--reward-range=-1,1; verl and slime: curro.reward_range" in str(warning.message)
    assert warning.filename == __file__
    mended = Curriculum("least-visited", 9, admission="band:0.4,0.6", reward_range=(-1, 1))
    verdict = mended.observe(mended.select(1, step=0).tickets, [[1.0, -1.0, 1.0, -1.0]])
    assert verdict.admitted.tolist() == [True]


def test_only_the_signal_has_to_lie_in_the_range():
    """Of rollouts that are not scored there is a 0, which is no reward."""
    curriculum = Curriculum("least-visited", 9, signal="math", reward_range=(1, 5))
    named = {"math": [[1.0, 5.0, np.nan]], "format": [[-9.0, 9.0, 9.0]]}
    curriculum.observe(curriculum.select(1, step=0).tickets, [[-8.0, 14.0, np.nan]], named=named)
    tickets = curriculum.select(1, step=0).tickets
    with pytest.warns(RuntimeWarning, match="values of the signal math from 1 to 6 were seen"):
        curriculum.observe(tickets, [[0.0, 0.0, 0.0]], named={"math": [[6.0, 5.0, np.nan]]})
