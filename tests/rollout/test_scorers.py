"""Scorers under a filler: what they return, where they run, what they may do to it."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from benchmarks.common import run
from tests.rollout.filler_setup import GOOD, HARD, by_text, make, rollouts, settled

from curro import ConfigError, RewardError
from curro.core.errors import FillError
from curro.rollout.engines.engine import Rollout
from curro.rollout.group import GroupFailed
from curro.rollout.scoring import Scorer


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ([1, 0, float("nan"), 1], "rollout 2 of prompt '0' the reward nan"),
        ([1, 0, 1, float("inf")], "rollout 3 of prompt '0' the reward inf"),
        ([1, 0, 1], "3 scores as reward of prompt '0'.*each of the 4"),
        ("1100", "scores as reward of prompt '0'"),
        (0.5, "the scorer gave 0.5 as reward"),
        (np.array(0.5), "the scorer gave array"),
        ([1, 0, "right", 1], "the reward 'right'"),
        ({"accuracy": [1, 0, 1, "?"]}, "the reward 'accuracy' '\\?'"),
        ({"format": [1, 0, 1, 1]}, "no reward 'accuracy'"),
    ],
)
def test_scores_that_are_no_rewards_are_one_clear_error(scores, said):
    async def score(prompt, completions):
        return scores if prompt == 0 else [1.0] * len(completions)

    weights = {"accuracy": 1.0} if isinstance(scores, dict) else None
    filler, engine, curriculum = make(lambda i, n: (1.0, GOOD), score=score, weights=weights)
    with pytest.raises(RewardError, match=said):
        run(filler.fill(2, step=0))
    assert filler.in_flight == engine.running == 0
    settled(filler, curriculum)


def test_rewards_by_name_are_summed_and_a_gate_may_use_one():
    async def score(prompt, completions):
        return {
            "accuracy": [float(rollout.text == "1") for rollout in completions],
            "format": [None] + [1.0] * (len(completions) - 1),
            "length": [None] * len(completions),
        }

    filler, _, curriculum = make(
        lambda i, n: (1.0, ["110x", HARD][i % 2]), score=score, weights={"accuracy": 1.0, "format": 0.5}
    )
    curriculum.admission.reward = "accuracy"
    batch = run(filler.fill(2, step=0))
    assert batch.prompts.tolist() == [0, 2]
    np.testing.assert_array_equal(batch.rewards[0], [np.nan, 1.5, 0.5, np.nan])
    np.testing.assert_array_equal(batch.named["accuracy"][0], [1, 1, 0, np.nan])
    assert np.isnan(batch.named["length"]).all()


def test_a_gate_that_lacks_its_reward_is_one_clear_error():
    filler, _, curriculum = make(lambda i, n: (1.0, GOOD))
    curriculum.admission.reward = "accuracy"
    with pytest.raises(RewardError, match="no reward named 'accuracy'"):
        run(filler.fill(2, step=0))
    settled(filler, curriculum)


@pytest.mark.parametrize("how", ["raises", "none", "cancels", "late"])
def test_a_scorer_that_fails_now_and_then_costs_the_group(how):
    async def score(prompt, completions):
        if prompt % 2 == 0:
            return await by_text(prompt, completions)
        if how == "raises":
            raise KeyError("answer")
        if how == "cancels":
            raise asyncio.CancelledError
        if how == "late":
            await asyncio.sleep(1e6)
        return [None] * len(completions)

    def plan(i, n):
        return 1.0 + i, GOOD

    filler, _, curriculum = make(plan, score=score, score_timeout=2.5, max_failures=2)
    batch = run(filler.fill(6, step=0))
    assert all(batch.prompts % 2 == 0)
    assert settled(filler, curriculum).failed >= 4


def test_a_scorer_that_always_fails_is_named():
    async def score(prompt, completions):
        raise KeyError("answer")

    filler, _, curriculum = make(lambda i, n: (1.0, GOOD), score=score, max_failures=6, retries=0)
    with pytest.raises(FillError, match=r"6 groups in a row failed; .*the scorer raised KeyError: 'answer'"):
        run(filler.fill(4, step=0))
    assert settled(filler, curriculum).failed == 6


def test_an_executor_stays_its_owner_s():
    async def main(executor, **options):
        filler, _, curriculum = make(
            lambda i, n: (0.0, GOOD), score=slow_in_a_thread, executor=executor, **options
        )
        async with filler:
            await filler.fill(6, step=0)
        settled(filler, curriculum)

    with ThreadPoolExecutor(4) as executor:
        asyncio.run(main(executor))
        assert executor.submit(int).result() == 0
    with pytest.raises(FillError, match=r"2 groups in a row failed.*cannot schedule new futures"):
        asyncio.run(main(executor, max_failures=2))
    with pytest.raises(ConfigError, match="runs in one place"):
        asyncio.run(main(executor, workers=2))


def slow_in_a_thread(prompt, completions):
    time.sleep(0.4 if prompt == 0 else 0.02)
    return [float(rollout.text == "1") for rollout in completions]


def test_a_slow_scorer_does_not_hold_up_the_event_loop():
    """It waits for what the loop does meanwhile: held up, the loop would never do it."""
    begun, done, seen = threading.Event(), threading.Event(), []

    def score(prompt, completions):
        begun.set()
        seen.append(done.wait(600))
        return [float(rollout.text == "1") for rollout in completions]

    async def main():
        filler, _, curriculum = make(lambda i, n: (0.0, GOOD), score=score, max_in_flight=1)
        async with filler:
            fill = asyncio.create_task(filler.fill(2, step=0))
            while not begun.is_set():
                await asyncio.sleep(0.001)
            done.set()
            await fill
        settled(filler, curriculum)

    asyncio.run(main())
    assert seen == [True] * len(seen) != []


@pytest.mark.parametrize("how", [StopIteration, SystemExit, asyncio.CancelledError, KeyboardInterrupt])
def test_what_a_scorer_raises_in_a_thread_ends_no_more_than_its_group(how):
    async def main():
        def score(prompt, completions):
            if prompt == 0:
                raise how
            while not filler.counts.failed:
                time.sleep(0.001)
            return [float(rollout.text == "1") for rollout in completions]

        filler, _, curriculum = make(lambda i, n: (0.0, GOOD), score=score)
        async with filler:
            assert 0 not in (await filler.fill(2, step=0)).prompts
        assert settled(filler, curriculum).failed == 1

    asyncio.run(main())


def hang(seconds=3600.0):
    Path(os.environ["HANGS"], str(os.getpid())).touch()
    time.sleep(seconds)


def hostile(prompt, completions):
    if prompt == 1:
        os._exit(3)
    if prompt == 2:
        hang()
    if prompt == 3:
        raise ErrorThatCannotTravel(1, 2)
    return [float(rollout.text == "1") for rollout in completions]


class ErrorThatCannotTravel(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


@pytest.mark.usefixtures("hangs_end_by_themselves")
def test_crashed_and_hung_scorers_are_replaced_and_cost_their_own_groups_alone():
    async def main():
        filler, _, curriculum = make(
            lambda i, n: (0.0, GOOD),
            score=hostile,
            workers=2,
            score_timeout=600.0,
            prompts=7,
            max_in_flight=7,
            when_short="finish",
        )
        async with filler:
            batch = await filler.fill(7, step=0)
        assert sorted(batch.prompts) == [0, 4, 5, 6]
        assert settled(filler, curriculum).failed == 3

    asyncio.run(main())


class SlowToStart:
    def __setstate__(self, state):
        hang(1.0)

    def __getstate__(self):
        return {"some": "state"}

    def __call__(self, prompt, completions):
        return slow_in_a_thread(prompt, completions)


class NeverStarts(SlowToStart):
    def __setstate__(self, state):
        raise ImportError("no module named 'verifier'")


@pytest.mark.usefixtures("hangs_end_by_themselves")
def test_the_start_of_processes_takes_none_of_the_scorer_s_time():
    async def main():
        filler, _, curriculum = make(
            lambda i, n: (0.0, GOOD), score=SlowToStart(), workers=2, score_timeout=600.0
        )
        async with filler:
            await filler.fill(4, step=0)
            await filler.fill(4, step=1)
        assert settled(filler, curriculum).failed == 0

    asyncio.run(main())


def test_processes_that_do_not_start_are_one_clear_error():
    async def main():
        filler, _, curriculum = make(lambda i, n: (0.0, GOOD), score=NeverStarts(), workers=1)
        async with filler:
            with pytest.raises(ConfigError, match="ended as they started"):
                await filler.fill(2, step=0)
        settled(filler, curriculum)

    asyncio.run(main())


def test_processes_are_sent_what_can_be_sent():
    with pytest.raises(ConfigError, match="top level of a module"):
        Scorer(lambda prompt, completions: [], workers=1)


def test_texts_and_cut_rollouts_reach_the_scorer():
    seen = []

    async def score(prompt, completions):
        seen.extend(completions)
        return await by_text(prompt, completions)

    filler, _, _ = make(lambda i, n: (1.0, "1 0x"), score=score, prompts=1)
    run(filler.fill(1, step=0))
    assert seen == [Rollout(text, finish="length") for text in ("1", "", "0")]


def held_on_some(prompt, completions):
    folder = Path(os.environ["HELD"])
    if prompt == 0:
        (folder / "begun").touch()
        while not (folder / "go").exists():
            time.sleep(0.01)
        (folder / "ended").touch()
    return [float((folder / "ended").exists()) for _ in completions]


def test_a_cancelled_call_keeps_its_process_until_it_ends(tmp_path, monkeypatch):
    monkeypatch.setenv("HELD", str(tmp_path))

    async def main():
        scorer = Scorer(held_on_some, workers=1, timeout=600.0)
        try:
            held = asyncio.ensure_future(scorer(0, rollouts(GOOD)))
            while not (tmp_path / "begun").exists():
                await asyncio.sleep(0.01)
            held.cancel()
            with pytest.raises(asyncio.CancelledError):
                await held
            following = asyncio.ensure_future(scorer(1, rollouts(GOOD)))
            await asyncio.sleep(0.1)
            (tmp_path / "go").touch()
            assert await following == [1.0] * 4
        finally:
            scorer.close()

    asyncio.run(main())


SCRIPT = """
import asyncio, sys
from curro.rollout.engines.engine import Rollout
from curro.rollout.group import GroupFailed
from curro.rollout.scoring import Scorer

def score(prompt, rollouts):
    return [float(len(rollout.text) + prompt) for rollout in rollouts]

async def main():
    scorer = Scorer(score, workers=2, timeout=600.0)
    print(await scorer(1, [Rollout("ab"), Rollout("")]), flush=True)
    scorer.close()

"""


def run_script(path, text):
    path.write_text(text)
    return subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=900)


def test_a_scorer_of_the_script_itself_is_found_in_its_processes(tmp_path):
    done = run_script(
        tmp_path / "script.py", SCRIPT + 'if __name__ == "__main__":\n    asyncio.run(main())\n'
    )
    assert (done.stdout, done.stderr) == ("[3.0, 1.0]\n", "")


def test_a_script_without_a_guard_starts_no_processes_of_processes(tmp_path):
    done = run_script(tmp_path / "script.py", SCRIPT + "asyncio.run(main())\n")
    assert done.returncode == 1
    assert "ConfigError: the scorer's processes ended as they started" in done.stderr
    assert 'a script needs `if __name__ == "__main__":`' in done.stderr


def test_a_scorer_in_processes_names_the_line_that_raised():
    async def main():
        scorer = Scorer(hostile, workers=1, timeout=600.0)
        try:
            with pytest.raises(
                GroupFailed, match=r"the scorer raised ErrorThatCannotTravel: .*test_scorers\.py:"
            ):
                await scorer(3, rollouts(GOOD))
        finally:
            scorer.close()

    asyncio.run(main())
