"""In whatever order groups end, fill and curriculum agree and every admitted group is trained on once."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.rollout.fill_promises import check, end_batch

import curro
from curro.rollout.fill import Fill, draw_fresh
from curro.rollout.fill_settings import WHEN_SHORT, FillSettings

SELECTIONS = ["uniform", "uniform:replacement=true", "prioritized-replay", "pspo", "least-visited"]
GATES = ["everything", "band:0,1", "band:0.4,0.6"]


class Machine(RuleBasedStateMachine):
    @initialize(
        selection=st.sampled_from(SELECTIONS), gate=st.sampled_from(GATES), seed=st.integers(0, 99),
        limit=st.sampled_from([1.0, 2.0, 10.0]), when_short=st.sampled_from(WHEN_SHORT), n=st.integers(1, 5),
    )  # fmt: skip
    def start(self, selection, gate, seed, limit, when_short, n):
        self.curriculum = curro.Curriculum(selection, 8, admission=gate, seed=seed)
        repeats = self.curriculum.selection.repeats
        self.fill = Fill(FillSettings(limit, when_short), size=8, may_repeat=repeats)
        self.rng = np.random.default_rng(seed)
        self.step, self.admitted, self.trained, self.topped, self.had = 0, [], [], [], []
        self.fill.begin(n, 0)

    @precondition(lambda self: not self.fill.reason)
    @rule(n=st.integers(1, 4))
    def draw(self, n):
        try:
            draw = draw_fresh(self.curriculum, self.fill, n, step=self.step)
        except curro.ExhaustedError:
            assert self.fill.reason == "prompts"
        else:
            if not self.fill.may_repeat:
                assert not set(draw.prompts.tolist()) & set(self.had)
            self.had += draw.prompts.tolist()

    @precondition(lambda self: self.fill.in_flight)
    @rule(data=st.data(), right=st.integers(0, 4))
    def observe(self, data, right):
        ticket = data.draw(st.sampled_from(sorted(self.fill.in_flight)))
        rewards = np.arange(4) < right
        verdict = self.curriculum.observe([ticket], rewards[None].astype(float))
        if verdict.admitted[0]:
            self.fill.admit(ticket, ticket)
            self.admitted.append(ticket)
        else:
            variance = float(verdict.informativeness[0])
            self.fill.reject(ticket, ticket, informativeness=variance, reward=right / 4)

    @precondition(lambda self: self.fill.in_flight)
    @rule(data=st.data(), why=st.sampled_from(["failed", "stale", "cancelled"]))
    def lose(self, data, why):
        ticket = data.draw(st.sampled_from(sorted(self.fill.in_flight)))
        self.curriculum.drop([ticket])
        self.fill.lose(ticket, why)

    @precondition(lambda self: self.fill.admitted)
    @rule(data=st.data(), why=st.sampled_from(["filtered", "expired"]))
    def withdraw(self, data, why):
        ticket = data.draw(st.sampled_from(sorted(self.fill.admitted)))
        self.fill.withdraw(ticket, why)
        self.admitted.remove(ticket)

    @rule(n=st.integers(1, 5), cancel=st.booleans())
    def finish(self, n, cancel):
        groups = end_batch(self.fill, self.curriculum, self.admitted, cancel=cancel)
        self.trained += [ticket for ticket in groups if ticket in self.admitted]
        self.topped += [ticket for ticket in groups if ticket not in self.admitted]
        self.step += 1
        self.fill.begin(n, self.step)
        self.had = list(self.fill.prompts_given_out.values())

    @invariant()
    def promises(self):
        check(self.fill, self.curriculum)
        trained = self.trained + self.topped
        assert len(set(trained)) == len(trained)
        assert sorted(self.admitted) == sorted([*self.trained, *self.fill.admitted])
        assert self.fill.counts.topped_up == len(self.topped)


TestMachine = Machine.TestCase
TestMachine.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
