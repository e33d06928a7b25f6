"""The curriculum's credit in verl's batch, and the loss that workers compute from it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from setup_run import BATCH, PROMPTS, SIZE, groups_of, overridden, run, verls_configuration
from simulation import Engine
from tensordict import TensorDict
from twin import Twin
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.tensordict_utils import assign_non_tensor_data
from verl.workers.utils.losses import ppo_loss

from curro.hosts.verl.credit import AUXILIARY, credit_of_rows, ppo_loss_with_auxiliary
from curro.hosts.verl.replay import ADVANTAGE, WEIGHT


@pytest.mark.parametrize("gate", [[], ["+curro.admission=signal"]], ids=["one draw", "filled"])
def test_smoothed_advantages_times_importance_weights_reach_the_update(tmp_path, gate):
    done = run(tmp_path / "out", "+curro.selection=pspo", "+curro.advantage=smoothed", *gate, steps=6)
    twin = Twin(done)
    for step in range(1, 7):
        twin.step(step, BATCH)
    for update in done.trainer.actor_rollout_wg.updates:
        given = groups_of(update)
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


def test_verls_advantages_of_solved_prompts_that_stay_solved_are_0(tmp_path, monkeypatch):
    """All are right by the signal, so that from the second step on all of a batch are solved ones."""
    monkeypatch.setattr(Engine, "extra", {"math": 1.0})
    method = "+curro.selection='prioritized-replay-published:retest_every=1,retest_solved=4'"
    done = run(tmp_path / "out", method, "+curro.signal=math", steps=3)
    first, *others = [
        [advantage for _, advantage in update["rollouts"]] for update in done.trainer.actor_rollout_wg.updates
    ]
    assert any(first)
    assert any(len(set(rewards)) > 1 for rewards in list(done.engine.rewards.values())[BATCH:])
    assert others == [[0.0] * (BATCH * SIZE)] * 2


def test_verls_advantages_of_rollouts_without_the_signal_are_0(tmp_path, monkeypatch):
    """The first session of each group has a score, but no `math`; verl's mean counts it all the same."""
    monkeypatch.setattr(Engine, "unchecked", dict.fromkeys(range(PROMPTS), 1))
    done = run(tmp_path / "out", "+curro.selection=uniform", "+curro.signal=math", steps=2)
    nonzero = 0
    for update in done.trainer.actor_rollout_wg.updates:
        for uid, given in groups_of(update).items():
            rewards = np.array(done.engine.rewards[uid])
            expected = (rewards - rewards.mean()) / (rewards.std(ddof=1) + 1e-6)
            nonzero += abs(expected[0]) > 0.1
            np.testing.assert_allclose(sorted(given), sorted([0.0, *expected[1:]]), atol=1e-5)
    assert nonzero


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


DIVISORS = {
    "token-mean": 3.5,  # two rollouts of 3 and 4 tokens
    "seq-mean-token-mean": 3.5,
    "seq-mean-token-sum": 1,
    "seq-mean-token-sum-norm": 7,  # loss_scale_factor
    "token-sum": 0.5,
}
"""What verl divides a rollout's sum over tokens by, beside the number of rollouts."""


def actor(mode: str, **changes: float):
    config = overridden(
        verls_configuration(),
        [
            f"actor_rollout_ref.actor.loss_agg_mode={mode}", "actor_rollout_ref.model.path=/none",
            "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4",
            "actor_rollout_ref.rollout.name=vllm",
            "actor_rollout_ref.actor.loss_scale_factor=7",
            *(f"actor_rollout_ref.actor.{name}={value}" for name, value in changes.items()),
        ],
    )  # fmt: skip
    return omega_conf_to_dataclass(config.actor_rollout_ref.actor)


def jagged(rows):
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


def batch(auxiliary_samples: bool):
    """Two rollouts of a prompt, and two auxiliary samples of other lengths."""
    generator = torch.Generator().manual_seed(0)
    lengths = [(2, 3), (2, 4), *([(5, 2), (4, 6)] if auxiliary_samples else [])]
    rollout = [1, 1, 0, 0][: len(lengths)]
    masks = [torch.full((answer,), kept) for (_, answer), kept in zip(lengths, rollout, strict=True)]
    floats = [mask.float() for mask in masks]
    data = TensorDict(
        {
            "prompts": jagged([torch.ones(p, dtype=torch.int64) for p, _ in lengths]),
            "responses": jagged([torch.ones(r, dtype=torch.int64) for _, r in lengths]),
            "response_mask": jagged(masks),
            "old_log_probs": jagged([torch.zeros(r) - 1 for _, r in lengths]),
            "advantages": jagged([mask * (1.5 - i) for i, mask in enumerate(floats)]),
        },
        batch_size=len(lengths),
    )
    tokens = sum(int(mask.sum()) for mask in masks)
    for name, value in (("dp_size", 2), ("batch_num_tokens", tokens), ("global_batch_size", 2)):
        assign_non_tensor_data(data, name, value)
    width = sum(p + r for p, r in lengths)
    log_probs = (torch.randn(100, generator=generator) * 0.1 - 1)[:width].requires_grad_()
    return data, log_probs, jagged_like(log_probs, lengths)


def jagged_like(values, lengths):
    offsets = torch.tensor([0, *torch.tensor([p + r for p, r in lengths]).cumsum(0).tolist()])
    return torch.nested.nested_tensor_from_jagged(values, offsets)


@pytest.mark.parametrize("mode", DIVISORS)
@pytest.mark.parametrize("changes", [{}, {"entropy_coeff": 0.1}], ids=["plain", "entropy"])
def test_the_gradient_is_verls_plus_the_auxiliary_samples(mode, changes):
    config = actor(mode, **changes)
    plain, plain_values, plain_log_probs = batch(auxiliary_samples=False)
    entropy = {"entropy": plain_log_probs * -1} if changes else {}
    expected, metrics = ppo_loss(config, {"log_probs": plain_log_probs} | entropy, plain)
    expected.backward()
    data, values, log_probs = batch(auxiliary_samples=True)
    data[AUXILIARY] = torch.tensor([[0.0], [0.0], [0.3], [-0.2]])
    entropy = {"entropy": log_probs * -1} if changes else {}
    loss, with_auxiliary = ppo_loss_with_auxiliary(config, {"log_probs": log_probs} | entropy, data)
    loss.backward()
    rollouts = len(plain_values)
    torch.testing.assert_close(values.grad[:rollouts], plain_values.grad)
    # a token's log-probability stands one place before it: answers of 2 after 5 and of 6 after 4
    first, second = values.grad[rollouts : rollouts + 7], values.grad[rollouts + 7 :]
    per_weight = 2 / DIVISORS[mode]  # 2 workers
    torch.testing.assert_close(first, per_weight * -0.3 * torch.tensor([0, 0, 0, 0, 1.0, 1, 0]))
    torch.testing.assert_close(second, per_weight * 0.2 * torch.tensor([0, 0, 0, 1.0, 1, 1, 1, 1, 1, 0]))
    for name, metric in metrics.items():
        assert with_auxiliary[name].values == pytest.approx(metric.values), name
    assert "judge/loss" in with_auxiliary
