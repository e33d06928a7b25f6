"""Fillers over engines that answer as a plan says, in virtual time."""

import asyncio

from tests.rollout.fake_engine import FakeEngine, InOrder, by_text, rollouts

from curro import Curriculum
from curro.rollout.fill_settings import FillSettings
from curro.rollout.filler import Filler

GOOD, EASY, HARD = "1100", "1111", "0000"


def make(plan, *, prompts=20, score=by_text, curriculum=None, **options):
    """A filler over an engine that answers prompt i with `plan(i, n)` = (seconds, marks or an error)."""
    curriculum = curriculum or Curriculum(InOrder(), prompts, admission="band:0,1")

    async def answer(prompt, n):
        seconds, marks = plan(int(prompt), n)
        await asyncio.sleep(seconds)
        if isinstance(marks, Exception):
            raise marks
        return rollouts(marks)

    engine = FakeEngine(answer)
    options = {"rollouts_per_prompt": 4, "max_in_flight": 4} | options
    settings = {name: options.pop(name) for name in ("limit", "when_short") if name in options}
    options["fill"] = FillSettings(**({"when_short": "error"} | settings))
    return Filler(curriculum, engine, str, score, **options), engine, curriculum


def settled(filler, curriculum):
    """Asserts that the counts agree with the curriculum's and returns them."""
    counts, port = filler.counts, curriculum.metrics()
    assert counts.given_out == counts.admitted + counts.rejected + counts.dropped + filler.in_flight
    assert port["selected"] == counts.given_out + counts.repeats
    assert port["observed"] == counts.admitted + counts.rejected
    assert port["dropped"] == counts.dropped + counts.repeats
    assert port["in_flight"] == filler.in_flight
    assert port["admitted"] == counts.admitted
    return counts
