"""Any interleaving of select, observe, drop, refusals and resumes keeps the port's promises."""

import json
import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.methods.prediction.judging import Scripted, by_number

from curro import Curriculum, ExhaustedError, RewardError, TicketError

SIZE, GROUP = 12, 4
SELECTIONS = [
    "uniform",
    "least-visited",
    "scheduled",
    "pspo",
    "pspo:statistics=smoothed,priority=mean,normalize=all",
    "prioritized-replay",
    "prioritized-replay:variant=published,draw=proportional,exploration=0.5",
    "prioritized-replay:variant=published,initial_priority=inf",
    "prioritized-replay:variant=published,exploration=0.5,retest_every=2,tolerance=0.3",
    "posterior",
    "posterior:target=none,candidates=2,exploration=0.5",
    "sec:categories=3",
    "adcl:chunks=3",
    "metis:candidates=2,exploration=0.3,failed=zero,spread=true",
    "pcl:candidates=2,hidden=3,batch=4",
    "frontier",
    "frontier:candidates=4",
]
TEXTS = [{"prompt": f"{'abcd'[i % 4]} {i}", "source": "ab"[i % 2]} for i in range(SIZE)]
"""The last selection learns from texts, the others know the number of prompts alone."""
REWARDS = {
    "0/1": lambda rng, shape: rng.integers(0, 2, shape).astype(float),
    "equal": lambda rng, shape: np.full(shape, 0.1),
    "continuous": lambda rng, shape: rng.normal(size=shape),
    "huge": lambda rng, shape: rng.uniform(-1e15, 1e15, shape),
}


def written(curriculum):
    """The state as a text, to the bit; NumPy compares nested lists a hundred times as slowly."""
    return json.dumps(curriculum.state_dict(), default=lambda array: array.tobytes().hex())


class Port(RuleBasedStateMachine):
    """Runs a curriculum that is saved and restored again and again beside one that never is."""

    spec = "uniform"
    advantage = "smoothed:alpha=0.5"

    def __init__(self):
        super().__init__()
        self.resumed, self.steady = self.fresh(), self.fresh()
        self.step, self.in_flight = 0, {}
        self.settled, self.counts = [], {"selected": 0, "observed": 0, "dropped": 0}
        self.is_saved = True

    def fresh(self):
        prompts = TEXTS if self.spec == SELECTIONS[-1] else SIZE
        curriculum = Curriculum(self.spec, prompts, advantage=self.advantage, seed=3)
        curriculum.attach(Scripted(by_number))
        return curriculum

    def both(self, act):
        self.is_saved = False
        return act(self.resumed), act(self.steady)

    def some_in_flight(self, data):
        tickets = sorted(self.in_flight)
        return data.draw(st.lists(st.sampled_from(tickets), unique=True, min_size=1), label="tickets")

    def close(self, tickets, how):
        for ticket in tickets:
            del self.in_flight[ticket]
        self.settled += tickets
        self.counts[how] += len(tickets)

    def refused(self, error, act):
        for curriculum in (self.resumed, self.steady):
            before = written(curriculum)
            with pytest.raises(error):
                act(curriculum)
            assert written(curriculum) == before

    @rule(n=st.integers(1, SIZE), ahead=st.integers(0, 2))
    def select(self, n, ahead):
        free = SIZE - len(set(self.in_flight.values()))
        if n > free:
            self.refused(ExhaustedError, lambda curriculum: curriculum.select(n, step=self.step))
            return
        self.step += ahead
        draw, same = self.both(lambda curriculum: curriculum.select(n, step=self.step))
        np.testing.assert_equal(vars(draw), vars(same))
        assert len(draw) == n
        assert len(set(draw.prompts.tolist())) == n
        assert not set(draw.prompts.tolist()) & set(self.in_flight.values())
        assert draw.tickets.tolist() == list(range(self.counts["selected"], self.counts["selected"] + n))
        self.in_flight |= dict(zip(draw.tickets.tolist(), draw.prompts.tolist(), strict=True))
        self.counts["selected"] += n

    @precondition(lambda self: self.in_flight)
    @rule(
        data=st.data(), kind=st.sampled_from(sorted(REWARDS)), seed=st.integers(0, 999), holes=st.booleans()
    )
    def observe(self, data, kind, seed, holes):
        tickets, rng = self.some_in_flight(data), np.random.default_rng(seed)
        rewards = REWARDS[kind](rng, (len(tickets), GROUP))
        if holes:
            rewards = np.where(rng.random(rewards.shape) < 0.4, rewards, np.nan)
        verdict, same = self.both(lambda curriculum: curriculum.observe(tickets, rewards))
        np.testing.assert_equal(asdict(verdict), asdict(same))
        some = np.isfinite(rewards).any(axis=1)
        lost = [ticket for ticket, fine in zip(tickets, some, strict=True) if not fine]
        assert not verdict.admitted[~some].any()
        self.close(lost, "dropped")
        self.close([t for t in tickets if t not in lost], "observed")

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data())
    def drop(self, data):
        tickets = self.some_in_flight(data)
        self.both(lambda curriculum: curriculum.drop(tickets))
        self.close(tickets, "dropped")

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data(), how=st.sampled_from(["settled", "twice", "unknown", "-inf", "inf", "shape"]))
    def refuse(self, data, how):
        tickets = self.some_in_flight(data)
        rewards = np.ones((len(tickets), GROUP))
        if how == "settled":
            tickets = tickets[:-1] + self.settled[-1:]
        if how == "unknown":
            tickets = [*tickets[:-1], data.draw(st.sampled_from([-1, self.counts["selected"], 10**12]))]
        if how == "twice":
            tickets, rewards = [*tickets, tickets[0]], np.ones((len(tickets) + 1, GROUP))
        if how in ("-inf", "inf"):
            rewards[-1, -1] = float(how)
        if how == "shape":
            rewards = rewards[0]
        if how in ("-inf", "inf", "shape"):
            self.refused(RewardError, lambda curriculum: curriculum.observe(tickets, rewards))
        elif len(tickets) == len(rewards):
            self.refused(TicketError, lambda curriculum: curriculum.observe(tickets, rewards))
            self.refused(TicketError, lambda curriculum: curriculum.drop(tickets))

    @precondition(lambda self: not self.is_saved)
    @rule()
    def resume(self):
        self.is_saved = True
        with tempfile.TemporaryDirectory() as folder:
            self.resumed.save(Path(folder) / "curriculum")
            self.resumed = self.fresh()
            self.resumed.load(Path(folder) / "curriculum")

    @invariant()
    def nothing_is_lost(self):
        for curriculum in (self.resumed, self.steady):
            metrics = curriculum.metrics()
            assert metrics["selected"] == metrics["observed"] + metrics["dropped"] + metrics["in_flight"]
            assert {name: metrics[name] for name in self.counts} == self.counts
            in_flight = sorted(set(self.in_flight.values()))
            assert np.flatnonzero(curriculum.table["in_flight"]).tolist() == in_flight
            assert curriculum.free == SIZE - len(in_flight)
            assert curriculum.table["visits"].sum() == self.counts["observed"]


def machine(spec, **attributes):
    case = type("Port", (Port,), {"spec": spec, **attributes}).TestCase
    case.settings = settings(max_examples=6, stateful_step_count=30, deadline=None)
    return case


@pytest.mark.parametrize("spec", SELECTIONS)
def test_any_interleaving(spec):
    machine(spec)("runTest").runTest()
