"""Engines that fail, hang, lie or die under a filler."""

import pytest
from benchmarks.common import run
from tests.rollout.filler_setup import GOOD, FakeEngine, make, settled

from curro import Curriculum
from curro.core.errors import EngineError, FillError, PromptError, RewardError


def test_failed_rollouts_are_asked_for_again_where_too_few_are_left():
    answers = {0: ["1xxx", "0x1", "1"], 1: ["xxxx", "xxxx", "xxxx"], 2: ["1xx0"], 3: [GOOD]}
    filler, engine, curriculum = make(lambda i, n: (1.0, answers[i].pop(0)), prompts=4, least_rollouts=2)
    batch = run(filler.fill(3, step=0))
    assert sorted(batch.prompts) == [0, 2, 3]
    first = batch.rollouts[batch.prompts.tolist().index(0)]
    assert [rollout.text for rollout in first] == ["1", "0", "", "1"]
    assert [call for call in engine.calls if call[0] == "0"] == [("0", 4), ("0", 3)]
    counts = settled(filler, curriculum)
    assert counts.failed == 0
    assert counts.cancelled == 1
    with pytest.raises(FillError, match="all 3 prompts were tried"):
        run(make(lambda i, n: (1.0, "x" * n), prompts=3)[0].fill(1, step=0))


def test_a_group_whose_retries_fail_is_dropped():
    filler, engine, curriculum = make(lambda i, n: (1.0, GOOD if i else "x" * n), prompts=8, max_in_flight=1)
    run(filler.fill(2, step=0))
    counts = settled(filler, curriculum)
    assert [call for call in engine.calls if call[0] == "0"] == [("0", 4)] * 3
    assert (counts.failed, counts.retried, counts.failed_rollouts, counts.wasted_rollouts) == (1, 2, 12, 12)


@pytest.mark.parametrize(
    ("marks", "said"),
    [
        (OSError("connection reset"), "OSError: connection reset"),
        (TimeoutError("upstream"), "TimeoutError: upstream"),
        (EOFError(), "EOFError"),
    ],
)
def test_an_engine_that_always_raises_is_named(marks, said):
    filler, _, curriculum = make(lambda i, n: (1.0, marks), max_failures=3)
    with pytest.raises(FillError, match=f"3 groups in a row failed; the last, prompt .*{said}"):
        run(filler.fill(2, step=0))
    settled(filler, curriculum)


def test_a_prompt_that_can_never_be_answered_is_asked_once():
    never = PromptError("it has too many tokens")
    filler, engine, curriculum = make(lambda i, n: (1.0, GOOD if i else never), prompts=4, max_in_flight=1)
    assert sorted(run(filler.fill(2, step=0)).prompts) == [1, 2]
    assert [prompt for prompt, _ in engine.calls] == ["0", "1", "2"]
    counts = settled(filler, curriculum)
    assert (counts.failed, counts.retried, counts.failed_rollouts, counts.wasted_rollouts) == (1, 0, 4, 4)
    filler, engine, _ = make(lambda i, n: (1.0, never), max_failures=3, max_in_flight=1)
    with pytest.raises(FillError, match="3 groups in a row failed; the last, prompt '2': it has too many"):
        run(filler.fill(2, step=0))
    assert len(engine.calls) == 3


@pytest.mark.parametrize("marks", ["1", "1100110", ""])
def test_an_engine_that_returns_another_number_of_rollouts(marks):
    filler, _, curriculum = make(lambda i, n: (1.0, marks), max_failures=3, least_rollouts=4, retries=1)
    if len(marks) > 4:
        assert run(filler.fill(1, step=0)).rewards.tolist() == [[1, 1, 0, 0]]
    else:
        with pytest.raises(FillError, match=f"returned {len(marks)} of"):
            run(filler.fill(1, step=0))
    settled(filler, curriculum)


def test_an_engine_that_returns_no_rollouts():
    class Wrong(FakeEngine):
        async def generate(self, prompt, n):
            return ["text"] * n

    filler, _, curriculum = make(lambda i, n: (0, GOOD), max_failures=2)
    filler._tasks.engine = Wrong(None)
    with pytest.raises(FillError, match="TypeError: the engine returned 'text', not a Rollout"):
        run(filler.fill(1, step=0))
    settled(filler, curriculum)


def test_a_request_that_takes_too_long_is_cancelled_and_made_again():
    tries = []

    def plan(i, n):
        tries.append(i)
        return (1000.0 if tries.count(0) <= 2 and i == 0 else 1.0), GOOD

    filler, engine, curriculum = make(plan, prompts=1, timeout=10.0)
    run(filler.fill(1, step=0))
    assert engine.cancelled == ["0", "0"]
    assert engine.busy == 21
    settled(filler, curriculum)
    filler, _, _ = make(lambda i, n: (1000.0, GOOD), timeout=10.0, max_failures=1)
    with pytest.raises(FillError, match=r"no answer in 10.0 s"):
        run(filler.fill(1, step=0))


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
