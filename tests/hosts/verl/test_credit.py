"""Whose advantages the policy is trained on."""

from __future__ import annotations

import numpy as np
import pytest
from setup_run import BATCH, SIZE, run
from twin import Twin

from curro.hosts.verl.credit import credit_of_rows
from curro.hosts.verl.replay import ADVANTAGE, WEIGHT


@pytest.mark.parametrize("gate", [[], ["+curro.admission=signal"]], ids=["one draw", "filled"])
def test_smoothed_advantages_times_importance_weights_reach_the_update(tmp_path, gate):
    done = run(tmp_path / "out", "+curro.selection=pspo", "+curro.advantage=smoothed", *gate, steps=6)
    twin = Twin(done)
    for step in range(1, 7):
        twin.step(step, BATCH)
    for update in done.trainer.actor_rollout_wg.updates:
        given: dict[str, list[float]] = {}
        for uid, advantage in update["rollouts"]:
            given.setdefault(uid, []).append(advantage)
        for uid, advantages in given.items():
            np.testing.assert_allclose(sorted(advantages), sorted(twin.credit[uid]), rtol=1e-6)
        assert set(given) <= set(twin.credit)
    if gate:
        assert len(twin.draws) > 6  # batches were put together from several draws
    weights = [abs(value) for credit in twin.credit.values() for value in credit]
    assert len({round(value, 4) for value in weights}) > 6  # weights and histories differ
    assert done.history[-1]["critic/advantages/max"] == pytest.approx(
        max(advantage for _, advantage in update["rollouts"])
    )


def test_without_an_advantage_they_are_verls(tmp_path):
    done = run(tmp_path / "out", "+curro.selection=pspo", steps=2)
    for update in done.trainer.actor_rollout_wg.updates:
        for uid in {uid for uid, _ in update["rollouts"]}:
            rewards = np.array(done.engine.rewards[uid])
            expected = (rewards - rewards.mean()) / (rewards.std(ddof=1) + 1e-6)
            given = [advantage for name, advantage in update["rollouts"] if name == uid]
            np.testing.assert_allclose(sorted(given), sorted(expected), atol=1e-5)


def test_credit_goes_with_rows_that_fill_up_a_batch(tmp_path):
    """A session that fails leaves a batch that verl pads."""
    done = run(
        tmp_path / "out", "+curro.selection=least-visited", "+curro.advantage=smoothed", steps=6, fail={3: 1}
    )
    updates = done.trainer.actor_rollout_wg.updates
    (update,) = [update for update in updates if len(update["rollouts"]) < BATCH * SIZE]
    assert update["rows"] == BATCH * SIZE
    assert len(update["rollouts"]) == BATCH * SIZE - 1


def test_weights_are_related_to_the_batch_and_not_to_rows_that_fill_it_up():
    """The largest weight of a batch is that of a group in it, whatever draw that came from."""
    tag = {ADVANTAGE: 1.0, WEIGHT: 0.5}
    rows = {
        "ticket-1_0_0": tag,
        "ticket-1_1_0": tag | {ADVANTAGE: -1.0},
        "ticket-7_0_0": {ADVANTAGE: 2.0, WEIGHT: 0.25},
        "pad0_0_0": {ADVANTAGE: 1.0, WEIGHT: 4.0, "is_padding": True},
    }
    asked = []

    def credit(groups):
        asked.append(groups.weights.tolist())
        return groups.advantages * (groups.weights / groups.weights.max())[:, None]

    by_row = credit_of_rows(list(rows), list(rows.values()), credit)
    assert by_row.tolist() == [1.0, -1.0, 1.0, 0.0]
    assert asked == [[0.5, 0.25]]
