"""Whose advantages the policy is trained on."""

from __future__ import annotations

import numpy as np
import pytest
from setup_run import BATCH, SIZE, run
from twin import Twin


def test_smoothed_advantages_times_importance_weights_reach_the_update(tmp_path):
    done = run(tmp_path / "out", "+curro.selection=pspo", "+curro.advantage=smoothed", steps=6)
    twin = Twin(done)
    for step in range(1, 7):
        twin.step(step, BATCH)
    for update in done.trainer.actor_rollout_wg.updates:
        given: dict[str, list[float]] = {}
        for uid, advantage in update["rollouts"]:
            given.setdefault(uid, []).append(advantage)
        for uid, advantages in given.items():
            np.testing.assert_allclose(sorted(advantages), sorted(twin.credit[uid]), rtol=1e-6)
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
