"""A method that asks the policy chooses while groups go on, and loses no ticket when it is cancelled."""

from __future__ import annotations

import asyncio
import threading
import time

import numpy as np
import pytest
from tests.rollout.filler_setup import FakeEngine, by_text, rollouts

from curro import Curriculum, Predictor
from curro.core.policy import PolicyUse
from curro.methods.selection.predicted import Predicted
from curro.rollout.filler import Filler

SECONDS = 600
"""A limit for what takes milliseconds, or hangs."""


class Asks(Predictor):
    """Predicts the lowest numbers, once the policy has answered."""

    policy_use = PolicyUse.ASKED

    def informativeness(self, prompts: np.ndarray, step: int) -> np.ndarray:
        assert self.policy.answer()
        return -prompts.astype(np.float64)


class Policy:
    """Answers when it is released."""

    def __init__(self) -> None:
        self.asked, self.released = threading.Event(), threading.Event()

    def answer(self) -> bool:
        self.asked.set()
        return self.released.wait(SECONDS)


async def answered(prompt: str, n: int) -> list:
    return rollouts("1" * (n - 1) + "0")


def make(policy: Policy) -> tuple[Filler, Curriculum]:
    selection = Predicted(predictor=f"{__name__}:Asks", candidates=20)
    curriculum = Curriculum(selection, 20)
    curriculum.attach(policy)  # type: ignore[arg-type]
    filler = Filler(
        curriculum, FakeEngine(answered), str, by_text, rollouts_per_prompt=4, max_in_flight=2
    )  # fmt: skip
    return filler, curriculum


def test_the_loop_goes_on_while_the_policy_is_asked():
    policy = Policy()

    async def main() -> list[int]:
        filler, _ = make(policy)
        filling = asyncio.ensure_future(filler.fill(3, step=0))
        await asyncio.to_thread(policy.asked.wait, SECONDS)
        # only a loop that is not blocked by the choice comes to this line
        policy.released.set()
        return (await asyncio.wait_for(filling, SECONDS)).prompts.tolist()

    assert sorted(asyncio.run(main())) == [0, 1, 2]


def test_groups_that_end_while_the_policy_is_asked_are_settled():
    """The engine answers at once and the policy after a while: whenever it answers, all groups have ended."""
    policy = Policy()
    policy.answer = lambda: time.sleep(0.02) is None  # type: ignore[method-assign]
    filler, _ = make(policy)
    assert len(asyncio.run(filler.fill(3, step=0)).prompts) == 3
    assert filler.counts.given_out == 3 + filler.counts.cancelled


def test_what_was_chosen_for_a_cancelled_fill_is_dropped():
    policy = Policy()

    async def main() -> tuple[Filler, Curriculum]:
        filler, curriculum = make(policy)
        filling = asyncio.ensure_future(filler.fill(3, step=0))
        await asyncio.to_thread(policy.asked.wait, SECONDS)
        filling.cancel()
        await asyncio.sleep(0)
        filling.cancel()
        policy.released.set()
        with pytest.raises(asyncio.CancelledError):
            await filling
        return filler, curriculum

    filler, curriculum = asyncio.run(main())
    metrics = curriculum.metrics()
    assert metrics["selected"] == metrics["dropped"] == 1
    assert curriculum.free == 20
    assert filler.in_flight == 0


def test_an_error_of_the_choice_is_the_fills():
    policy = Policy()
    policy.answer = lambda: False  # type: ignore[method-assign]
    filler, curriculum = make(policy)
    with pytest.raises(AssertionError):
        asyncio.run(filler.fill(3, step=0))
    assert curriculum.free == 20
