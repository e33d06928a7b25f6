"""verl's own actor workers, two processes on the CPU, train on the curriculum's batch."""

from __future__ import annotations

import pytest
import torch
from cpu_workers import CPUSync, overrides, save_model, stop_workers
from setup_run import SIZE, TRAINERS, run

from curro.lab.model import load_checkpoint


def columns(batch, *names):
    return [torch.stack(list(batch[name].unbind())) for name in names]


def leave_one_out(uids, rewards):
    """The credit of rows in any order, as verl deals them out to the workers."""
    groups: dict[str, list[float]] = {}
    names = [str(getattr(uid, "data", uid)) for uid in uids]
    for name, reward in zip(names, rewards, strict=True):
        groups.setdefault(name, []).append(reward)
    assert {len(group) for group in groups.values()} == {SIZE}
    return [
        reward - (sum(groups[name]) - reward) / (SIZE - 1)
        for name, reward in zip(names, rewards, strict=True)
    ]


def test_the_workers_gradient_is_that_of_the_curriculums_credit(tmp_path, monkeypatch):
    monkeypatch.setitem(TRAINERS, "curro_sync", CPUSync)
    folder = save_model(tmp_path / "model")
    settings = ["+curro.selection=uniform", "+curro.advantage=leave-one-out", *overrides(folder)]
    done = run(tmp_path / "out", *settings, steps=2, ranks=2)
    stop_workers(done.trainer.actor_rollout_wg)
    model, _ = load_checkpoint(folder)
    first, second = done.trainer.batches
    log_probs = []
    for batch in (first, second):
        ids_BT, answer_BR = columns(batch, "input_ids", "responses")
        every_BT = model(ids_BT).logits.log_softmax(-1)[:, :-1].gather(-1, ids_BT[:, 1:, None])[..., 0]
        log_probs.append(every_BT[:, -answer_BR.shape[1] :])
    advantages_BR, old_BR, scores_BR = columns(first, "advantages", "old_log_probs", "rm_scores")
    torch.testing.assert_close(old_BR, log_probs[0].detach(), rtol=1e-3, atol=1e-3)
    credit = leave_one_out([first["uid"][row] for row in range(len(first))], scores_BR.sum(1).tolist())
    torch.testing.assert_close(advantages_BR, torch.tensor(credit)[:, None].expand_as(advantages_BR))
    (-(advantages_BR * log_probs[0]).mean()).backward()
    norm = torch.cat([one.grad.flatten() for one in model.parameters()]).norm().item()
    assert norm > 0.01
    assert done.history[0]["actor/grad_norm"] == pytest.approx(norm, rel=1e-3)
    (second_old_BR,) = columns(second, "old_log_probs")
    assert (second_old_BR - log_probs[1].detach()).abs().max() > 0.001  # of weights that were updated
