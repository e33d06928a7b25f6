"""Engines that fail, hang, lie or die under a filler."""

import numpy as np
import pytest
from benchmarks.common import run
from tests.rollout.filler_setup import GOOD, make, settled

from curro import Curriculum
from curro.core.errors import EngineError, FillError, PromptError, RewardError


@pytest.mark.parametrize("bad", ["xxxx", "1xxx", "1", "", PromptError("too many tokens"), EOFError()])
def test_a_group_of_fewer_than_half_good_rollouts_is_dropped_and_asked_for_once(bad):
    filler, engine, curriculum = make(lambda i, n: (1.0, GOOD if i else bad), prompts=8, max_in_flight=1)
    assert run(filler.fill(2, step=0)).prompts.tolist() == [1, 2]
    assert engine.calls == [("0", 4), ("1", 4), ("2", 4)]
    counts = settled(filler, curriculum)
    good = bad.count("1") if isinstance(bad, str) else 0
    assert (counts.failed, counts.failed_rollouts, counts.wasted_rollouts) == (1, 4 - good, 4)


def test_half_of_the_rollouts_are_enough_and_further_ones_than_asked_for_are_left_out():
    filler, _, curriculum = make(lambda i, n: (1.0, ["1xx0", "1100110"][i]), prompts=2)
    np.testing.assert_array_equal(run(filler.fill(2, step=0)).rewards, [[1, np.nan, np.nan, 0], [1, 1, 0, 0]])
    assert settled(filler, curriculum).wasted_rollouts == 2


@pytest.mark.parametrize(
    ("marks", "said"),
    [
        (OSError("connection reset"), "OSError: connection reset"),
        (TimeoutError("upstream"), "TimeoutError: upstream"),
        (PromptError("too many tokens"), "PromptError: too many tokens"),
        ("1", "the engine returned 1 of 4 rollouts"),
        (["text"] * 4, "TypeError: the engine returned 'text', not a Rollout"),
    ],
)
def test_an_engine_that_always_fails_is_named(marks, said):
    filler, engine, curriculum = make(lambda i, n: (1.0, marks), prompts=40, limit=99)
    with pytest.raises(FillError, match=f"32 groups in a row failed; the last, prompt .*{said}"):
        run(filler.fill(2, step=0))
    assert 32 <= len(engine.calls) <= 36
    settled(filler, curriculum)


def test_a_dead_engine_ends_the_fill_and_loses_nothing():
    dead = [True]

    def plan(i, n):
        return 1.0 + i, EngineError("the server is gone") if dead[0] and i == 2 else GOOD

    filler, engine, curriculum = make(plan, max_staleness=3)
    with pytest.raises(EngineError, match="the server is gone") as caught:
        run(filler.fill(5, step=0))
    assert caught.value.__notes__ == ["2 admitted groups are kept for the next fill"]
    assert (filler.in_flight, filler.kept, engine.running) == (0, 2, 0)
    settled(filler, curriculum)
    dead[0] = False
    batch = run(filler.fill(5, step=1))
    assert batch.prompts[:2].tolist() == [0, 1]
    assert batch.steps.tolist() == [0, 0, 1, 1, 1]
    assert len(set(batch.prompts)) == 5


def test_a_group_without_a_reward_is_lost_as_unscored_and_one_without_rollouts_as_failed():
    async def score(prompt, rollouts):
        return [None if prompt == 0 and step else 1.0] * len(rollouts)

    filler, _, curriculum = make(
        lambda i, n: (1.0, OSError("no") if i == 1 and step else GOOD), prompts=2, score=score,
        curriculum=Curriculum("uniform", 2), when_short="finish", limit=1.0,
    )  # fmt: skip
    for step in range(2):
        run(filler.fill(2, step=step))
    metrics = curriculum.metrics()
    assert metrics["unscored/success_rate"] == metrics["failed/success_rate"] == 1.0
    assert settled(filler, curriculum).failed == 2


@pytest.mark.parametrize("when_short", ["error", "finish", "top-up"])
@pytest.mark.parametrize(
    ("signal", "described"),
    [(None, "a reward"), ("math", r"the part of the reward that is the signal \(math\)")],
)
def test_a_run_that_never_has_a_reward_ends(when_short, signal, described):
    """After as many groups as a batch has; a part that is not the signal does not count."""

    async def unscored(prompt, rollouts):
        none = [None] * len(rollouts)
        return none if signal is None else {"format": [1.0] * len(rollouts), signal: none}

    curriculum = Curriculum("uniform", 20, admission="signal", signal=signal, seed=0)
    filler, _, _ = make(
        lambda i, n: (1.0, GOOD), score=unscored, curriculum=curriculum, when_short=when_short, limit=2.0,
        weights=None if signal is None else {"format": 1.0},
    )  # fmt: skip
    with pytest.raises(RewardError, match=f"none of the first 3 groups has {described}"):
        run(filler.fill(3, step=0))
    run(filler.close())
    settled(filler, curriculum)
