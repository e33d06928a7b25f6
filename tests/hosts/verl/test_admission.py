"""Batches are filled with admitted groups, one for one, and filling comes to an end."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from setup_run import BATCH, PROMPTS, SEPARATE, SIZE, groups_of, run
from simulation import Engine
from twin import Twin

import curro
from curro.core.errors import FillError

GATES = {
    "band": ["+curro.admission.name=band", "+curro.admission.low=0.2", "+curro.admission.high=0.8"],
    "band of the signal": [
        "+curro.admission.name=band", "+curro.admission.low=0", "+curro.admission.high=1",
        "+curro.signal=acc",
    ],
    "signal": ["+curro.admission=signal"],
}  # fmt: skip


@pytest.mark.parametrize("gate", ["band of the signal", "signal"])
def test_batches_are_full_of_admitted_groups_and_all_groups_are_observed(tmp_path, gate):
    done = run(tmp_path / "out", *GATES[gate], "+curro.selection=prioritized-replay", steps=3)
    twin = Twin(done)
    for step in range(1, 4):
        twin.step(step, BATCH)
    assert done.asked == twin.asked  # replacements too, and none too many
    updates = done.trainer.actor_rollout_wg.updates
    assert len(updates) == 3
    for groups in map(groups_of, updates):
        assert [len(advantages) for advantages in groups.values()] == [SIZE] * BATCH
        assert all(twin.admitted[uid] for uid in groups)
    rejected = sum(not admitted for admitted in twin.admitted.values())
    assert rejected > 0
    assert done.metrics["observed"] == len(done.asked)
    assert done.metrics["admitted"] == 3 * BATCH
    assert sum(entry["fill/rejected"] for entry in done.history) == rejected
    assert sum(entry["fill/given_out"] for entry in done.history) == len(done.asked)
    assert all(0 <= entry.get("fill/rejected_reward", 0) <= 1 for entry in done.history)
    assert not any("rollout_failure/evicted_samples" in name for entry in done.history for name in entry)
    repeats = sum(entry["fill/repeats"] for entry in done.history)
    assert done.metrics["dropped"] == twin.repeats == repeats
    assert done.metrics["in_flight"] == 0


@pytest.mark.parametrize("mode", ["curro_sync", "curro_colocate_async"])
def test_estimates_have_fewer_rollouts_and_are_not_trained_on(tmp_path, mode):
    """ADCL as published: one estimate of every prompt, then of every chunk before it is trained on."""
    adcl = ["+curro.selection.name=adcl", "+curro.selection.chunks=3"]
    allocation = f"+curro.allocation='estimates:estimate=2,train={SIZE}'"
    done = run(tmp_path / "out", *adcl, allocation, f"trainer.v1.trainer_mode={mode}", steps=5)
    trained = [uid for update in done.trainer.actor_rollout_wg.updates for uid, _ in update["rollouts"]]
    assert len(trained) == 5 * BATCH * SIZE
    sizes = {uid: len(rewards) for uid, rewards in done.engine.rewards.items()}
    assert {sizes[uid] for uid in trained} == {SIZE}
    assert sorted(number for _, number, uid in done.engine.asked[:PROMPTS]) == list(range(PROMPTS))
    assert {sizes[uid] for _, _, uid in done.engine.asked[:PROMPTS]} == {2}
    # the second chunk of 8 prompts is estimated again before it is trained on, from step 3 on
    assert sum(size == 2 for size in sizes.values()) >= PROMPTS + PROMPTS // 3
    if mode == "curro_sync":
        assert done.metrics["in_flight"] == 0
        twin = Twin(done)
        for step in range(1, 6):
            twin.step(step, BATCH)
        assert done.asked == twin.asked


@pytest.mark.parametrize(
    ("mode", "settings"),
    [
        ("curro_sync", ["+curro.admission=signal"]),
        ("curro_sync", ["+curro.advantage=group"]),
        ("curro_colocate_async", []),
    ],
)
def test_a_budget_is_divided_among_the_prompts_that_are_fetched_together(tmp_path, mode, settings):
    done = run(
        tmp_path / "out", "+curro.selection=prioritized-replay", "+curro.allocation='simulation:Ragged'",
        *settings, f"trainer.v1.trainer_mode={mode}",
        "actor_rollout_ref.actor.ppo_mini_batch_size=2", steps=3,
    )  # fmt: skip
    sizes = {uid: len(rewards) for uid, rewards in done.engine.rewards.items()}
    if "+curro.admission=signal" not in settings:  # what replaces rejected groups has the rows that are left
        assert set(sizes.values()) <= {SIZE - 2, SIZE, SIZE + 2}
    assert len(set(sizes.values())) > 1
    updates = done.trainer.actor_rollout_wg.updates
    assert len(updates) == 3 * BATCH // 2
    trained = Counter(uid for update in updates for uid, _ in update["rollouts"])
    assert trained == {uid: sizes[uid] for uid in trained}
    assert len(trained) == 3 * BATCH
    assert done.metrics["observed"] >= 3 * BATCH


@pytest.mark.parametrize(
    ("mode", "settings"),
    [
        ("curro_sync", []),
        ("curro_colocate_async", ["+curro.admission=signal", "+curro.advantage=leave-one-out"]),
        ("curro_separate_async", ["+curro.admission=signal", "+curro.advantage=leave-one-out"]),
    ],
)
def test_the_first_rewards_decide_who_gets_the_rest_of_a_steps_budget(tmp_path, mode, settings):
    is_separate = mode == "curro_separate_async"  # of which each step has two updates
    done = run(
        tmp_path / "out", *(SEPARATE if is_separate else [f"trainer.v1.trainer_mode={mode}"]),
        "+curro.selection=prioritized-replay", "+curro.allocation='probe:first=2,most=7'",
        *settings, "data.train_batch_size=2",
        f"actor_rollout_ref.actor.ppo_mini_batch_size={1 if is_separate else 2}", steps=3,
    )  # fmt: skip
    rewards = done.engine.rewards
    grown = {uid.split("_")[0]: rewards[uid.split("_")[0]] + rewards[uid] for uid in rewards if "_" in uid}
    groups = {uid: rewards[uid] for uid in rewards if "_" not in uid} | grown
    assert grown
    for group in groups.values():
        assert len(group) <= 7
        assert len(group) <= 2 if len(set(group[:2])) == 1 else len(group) >= SIZE
    updates = done.trainer.actor_rollout_wg.updates
    trained = Counter(uid.split("_")[0] for update in updates for uid, _ in update["rollouts"])
    assert trained == {uid: len(groups[uid]) for uid in trained}
    assert len(updates) == 3 * (1 + is_separate)
    assert len(trained) == 3 * 2
    for update in updates:  # each advantage is that of the whole group
        for uid, advantages in groups_of(update).items():
            assert sum(advantages) == pytest.approx(0, abs=1e-4)
            assert len(advantages) == len(groups[uid])


def test_filling_ends_when_nothing_is_admissible(tmp_path):
    nothing = ["+curro.admission.name=variance", "+curro.admission.low=0.26"]
    with pytest.raises(FillError, match=r"\(4 rejected by the gate\): widen curro\.admission, or"):
        run(tmp_path / "out", *nothing, "+curro.fill_limit=1")


def test_verls_own_filter_is_observed_before_it_clears_and_comes_to_an_end(tmp_path):
    filtered = "algorithm.filter_groups.enable=True"
    done = run(tmp_path / "one", filtered, "+curro.selection=prioritized-replay", steps=3)
    assert done.metrics["observed"] == len(done.asked) > 3 * BATCH
    assert sum(entry.get("training/filter_groups/evicted_samples", 0) for entry in done.history) > 0
    assert done.metrics["in_flight"] == 0
    assert int(done.state["table"]["visits"].sum()) == len(done.asked)
    with pytest.raises(FillError, match=r"own filter\): choose another algorithm.filter_groups.metric"):
        run(tmp_path / "two", "algorithm.filter_groups.metric=form", filtered, "+curro.fill_limit=3")


def test_groups_that_fail_altogether_are_replaced_where_batches_are_filled(tmp_path):
    done = run(
        tmp_path / "out", "+curro.admission=everything", steps=4,
        fail=dict.fromkeys(range(0, 24, 3), 2),
    )  # fmt: skip
    assert done.metrics["observed"] == done.metrics["admitted"] == 4 * BATCH
    repeats = sum(entry["fill/repeats"] for entry in done.history)
    assert done.metrics["dropped"] - repeats == sum(number % 3 == 0 for _, number in done.asked) > 0
    assert sum(entry.get("training/rollout_failure/evicted_samples", 0) for entry in done.history) > 0


def test_a_batch_of_failed_groups_names_their_failures(tmp_path):
    with pytest.raises(
        FillError, match=r"0 of 4 groups .* \(4 failed\): look for their errors in verl's log"
    ):
        run(tmp_path / "out", fail=dict.fromkeys(range(PROMPTS), 2))


def test_a_signal_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(curro.RewardError, match=r"decides by 'accuracy', and .* it has: acc, form"):
        run(tmp_path / "out", *GATES["band"], "+curro.signal=accuracy")


def test_a_number_that_a_model_wrote_does_not_end_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(Engine, "extra", {"answer": 1e20, "digits": 10**400, "acc": 1e20})
    with pytest.raises(curro.RewardError):  # none of these is a number, so that no group has the signal
        run(tmp_path / "one", *GATES["band of the signal"])
    done = run(tmp_path / "two", steps=2)
    assert done.metrics["observed"] == 2 * BATCH


@pytest.mark.parametrize("marked", [False, True], ids=["NaN", "marked"])
def test_a_session_without_a_reward_takes_no_part_in_verls_own_advantages(tmp_path, monkeypatch, marked):
    """It gets the mean of its group, so that its own advantage is 0, and no other one becomes NaN."""
    monkeypatch.setattr(Engine, "marks_unscored", marked)
    monkeypatch.setattr(Engine, "unscored", dict.fromkeys(range(PROMPTS), 1))
    done = run(tmp_path / "out", steps=3)
    varied = 0
    for update in done.trainer.actor_rollout_wg.updates:
        for uid, advantages in groups_of(update).items():
            assert np.isfinite(advantages).all()
            assert np.isclose(advantages, 0, atol=1e-5).any()
            assert sum(advantages) == pytest.approx(0, abs=1e-4)
            scored = np.array(done.engine.rewards[uid])[1:]
            varied += scored.std() > 0
            assert (np.abs(advantages).max() > 0.1) == (scored.std() > 0)
    assert varied > 0
    assert all(np.isfinite(entry["critic/score/mean"]) for entry in done.history)
    assert done.metrics["observed"] == 3 * BATCH


def test_a_group_without_any_reward_stays_with_advantages_of_0_where_verl_cannot_replace_it(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(Engine, "unscored", dict.fromkeys(range(0, PROMPTS, 3), SIZE))
    done = run(tmp_path / "out", steps=4)
    lost = {uid for uid, rewards in done.engine.rewards.items() if np.isnan(rewards).all()}
    updates = [rollout for update in done.trainer.actor_rollout_wg.updates for rollout in update["rollouts"]]
    assert len(updates) == 4 * BATCH * SIZE
    assert lost
    assert {advantage for uid, advantage in updates if uid in lost} == {0.0}
    assert all(np.isfinite(advantage) for _, advantage in updates)
    assert done.metrics["observed"] + done.metrics["dropped"] == 4 * BATCH
    assert done.metrics["dropped"] == len(lost)


def test_a_run_without_any_reward_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(Engine, "unscored", dict.fromkeys(range(PROMPTS), SIZE))
    monkeypatch.setattr(Engine, "marks_unscored", True)
    with pytest.raises(curro.RewardError, match=f"none of the first {BATCH} groups has a reward"):
        run(tmp_path / "out", *GATES["signal"])
