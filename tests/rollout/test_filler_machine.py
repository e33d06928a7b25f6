"""Whatever fails, hangs, crashes, is cancelled or comes twice: the counts agree, no admitted group is lost,
and none is trained on twice."""

import asyncio
from collections import Counter

import numpy as np
from benchmarks.common import run
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rollout.fill_promises import check
from tests.rollout.filler_setup import FakeEngine

from curro import Curriculum, RewardError
from curro.core.errors import EngineError, FillError
from curro.rollout.engines.engine import Rollout
from curro.rollout.fill_settings import WHEN_SHORT, FillSettings
from curro.rollout.filler import Filler

GROUP = 3
ALLOCATIONS = [None, "knapsack:least=1", "probe:first=2,most=5"]
ENGINE = {
    "fine": 12, "failed": 2, "partly": 2, "few": 1, "many": 1, "raises": 1, "hangs": 1, "stubborn": 1,
    "wrong": 1, "quits": 1, "dead": 0.3,
}  # fmt: skip
SCORER = {
    "fine": 14, "some": 2, "none": 1, "raises": 1, "hangs": 1, "quits": 1, "nan": 0.3, "short": 0.2,
    "dead": 0.2,
}  # fmt: skip


class World:
    """A filler whose engine and scorer do at random whatever can go wrong."""

    def __init__(self, seed, selection, admission, allocation=None, **options):
        self.rng = np.random.default_rng(seed)
        self.curriculum = Curriculum(selection, 14, admission=admission, allocation=allocation, seed=seed)
        self.engine = FakeEngine(self.answer)
        self.made = Counter()
        self.filler = Filler(
            self.curriculum, self.engine, str, self.score, rollouts_per_prompt=GROUP, timeout=5.0,
            score_timeout=5.0, **options,
        )  # fmt: skip
        self.admitted, self.trained, self.topped = [], [], []
        settle = self.filler._settler.settle

        def watched(group):
            settle(group)
            if group.admitted:
                self.admitted.append(group.ticket)
            self.check()

        self.filler._settler.settle = watched

    def pick(self, kinds):
        weights = np.array(list(kinds.values()))
        return self.rng.choice(list(kinds), p=weights / weights.sum())

    def rollouts(self, n):
        return [Rollout(str(self.rng.integers(2))) for _ in range(n)]

    async def answer(self, prompt, n):
        self.check()
        kind = self.pick(ENGINE)
        # whole seconds, so that many things happen in the same instant
        await asyncio.sleep(float(self.rng.integers(4)))
        if kind == "dead":
            raise EngineError("dead")
        if kind == "raises":
            raise OSError("reset")
        if kind == "quits":
            raise asyncio.CancelledError
        if kind == "hangs":
            await asyncio.sleep(1e9)
        if kind == "stubborn":
            try:
                await asyncio.sleep(8.0)
            except asyncio.CancelledError:
                await asyncio.sleep(1.0)
        if kind == "wrong":
            return None
        rollouts = self.rollouts({"few": n - 1, "many": 2 * n}.get(kind, n))
        for place in range(n if kind == "failed" else kind == "partly"):
            rollouts[place] = Rollout("", error="failed")
        return rollouts

    async def score(self, prompt, completions):
        self.check()
        assert 0 < len(completions) <= GROUP or self.curriculum.has_allocation
        assert all(rollout.error is None for rollout in completions)
        kind = self.pick(SCORER)
        await asyncio.sleep(float(self.rng.integers(2)))
        if kind == "dead":
            raise EngineError("the judge is dead")
        if kind == "raises":
            raise ZeroDivisionError
        if kind == "quits":
            raise asyncio.CancelledError
        if kind == "hangs":
            await asyncio.sleep(1e9)
        scores = [float(rollout.text) for rollout in completions]
        if kind == "nan":
            scores[0] = np.nan
        if kind == "some":
            scores[0] = None
        if kind == "none":
            scores = [None] * len(scores)
        return scores[1:] if kind == "short" else scores

    def check(self):
        filler = self.filler
        check(filler._fill, self.curriculum)
        assert len(filler._tasks.running) <= filler.max_in_flight
        assert self.engine.running <= filler.max_in_flight

    def take(self, batch, n, step):
        filler = self.filler
        assert len(batch) <= n
        assert len(batch) == n or filler._fill.settings.when_short == "finish"
        assert batch.admitted.all() or filler._fill.settings.when_short == "top-up"
        assert len(set(batch.prompts)) == len(batch)
        assert (step - batch.steps[~batch.admitted] <= filler.max_staleness).all()
        assert batch.rewards.shape == batch.advantages.shape
        widths = [len(rollouts) for rollouts in batch.rollouts]
        assert batch.rewards.shape == (len(batch), max(widths, default=GROUP))
        assert set(widths) <= {GROUP} or self.curriculum.has_allocation
        scored_PG = ~np.isnan(batch.rewards)
        assert scored_PG.any(axis=1).all()
        assert not batch.advantages[~scored_PG].any()
        for rollouts, scored in zip(batch.rollouts, scored_PG, strict=True):
            assert not any(one.error and fine for one, fine in zip(rollouts, scored, strict=False))
            assert not scored[len(rollouts) :].any()
        self.trained += batch.tickets[batch.admitted].tolist()
        self.topped += batch.tickets[~batch.admitted].tolist()

    async def live(self, plan, carries):
        for step, (n, patience, pause, same) in enumerate(plan):
            now = step // 2 if same else step
            fill = asyncio.create_task(self.filler.fill(n, step=now))
            await asyncio.wait([fill], timeout=patience)
            for _ in range(1 + step % 2):  # some are cancelled again while they wait for the engine
                fill.cancel()
                await asyncio.sleep(0.5)
            try:
                self.take(await fill, n, now)
            except (EngineError, RewardError, FillError, asyncio.CancelledError) as error:
                dead = isinstance(error, EngineError)
            else:
                dead = False
            self.check()
            assert self.curriculum.metrics()["in_flight"] == self.filler.in_flight
            if dead or not carries:
                assert self.engine.running == self.filler.in_flight == 0
            await asyncio.sleep(pause)
        await self.filler.close()
        self.check()
        assert self.curriculum.metrics()["in_flight"] == self.engine.running == 0
        kept = list(self.filler._fill.admitted)
        assert sorted(self.admitted) == sorted(self.trained + kept)
        assert len(set(self.trained + self.topped)) == len(self.trained + self.topped)
        assert self.filler.counts.topped_up == len(self.topped)
        assert self.filler.counts.admitted == len(self.admitted)


@settings(max_examples=300, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    selection=st.sampled_from(["uniform", "uniform:replacement=true", "prioritized-replay"]),
    admission=st.sampled_from(["band:0,1", "everything", "band:0.4,0.6"]),
    allocation=st.sampled_from(ALLOCATIONS),
    slots=st.integers(1, 9),
    staleness=st.integers(0, 2),
    retries=st.integers(0, 2),
    least=st.integers(1, GROUP),
    max_failures=st.sampled_from([2, 5, 100]),
    max_seconds=st.sampled_from([4.0, 30.0, np.inf]),
    limit=st.sampled_from([1.0, 2.5, 10.0]),
    when_short=st.sampled_from(WHEN_SHORT),
    same=st.booleans(),
    plan=st.lists(
        st.tuples(
            st.integers(1, 6), st.sampled_from([1.0, 3.0, 7.0, 1e9]), st.sampled_from([0.0, 2.0, 50.0])
        ),
        min_size=1,
        max_size=6,
    ),
)
def test_faults_break_no_promise(
    seed, selection, admission, allocation, slots, staleness, retries, least, max_failures, max_seconds,
    limit, when_short, same, plan,
):  # fmt: skip
    world = World(
        seed, selection, admission, allocation, max_in_flight=slots, max_staleness=staleness, retries=retries,
        least_rollouts=least, max_failures=max_failures, max_seconds=max_seconds,
        fill=FillSettings(limit, when_short),
    )  # fmt: skip
    run(world.live([(*fill, same) for fill in plan], staleness > 0))
