"""verl's own actor workers, two processes on the CPU, train on the curriculum's batch."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from cpu_workers import FLOAT32, CPUAsync, CPUSync, on_cpu, overrides, save_model
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from setup_run import BATCH, SIZE, TRAINERS, Run, run, write_data

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


@pytest.mark.parametrize("aggregation", ["token-mean", "seq-mean-token-mean"])
@pytest.mark.parametrize(("mode", "trainer"), [("curro_sync", CPUSync), ("curro_colocate_async", CPUAsync)])
def test_ragged_groups_train_to_the_loss_of_padded_ones(tmp_path, monkeypatch, mode, trainer, aggregation):
    """The gradient is that of the real rows alone, though groups have 2 and 6 rollouts where verl expects 4.

    All responses have the same length, so that both means over rows are one mean.
    """
    monkeypatch.setitem(TRAINERS, mode, trainer)
    folder = save_model(tmp_path / "model")
    ragged = ["+curro.selection=uniform", "+curro.allocation='simulation:Ragged'", "+curro.admission=signal"]
    done = run(
        tmp_path / "out", *ragged, *overrides(folder), f"trainer.v1.trainer_mode={mode}",
        f"actor_rollout_ref.actor.loss_agg_mode={aggregation}", steps=1, ranks=2,
    )  # fmt: skip
    model, _ = load_checkpoint(folder)
    (batch,) = done.trainer.batches
    real = [row for row in range(len(batch)) if batch["response_mask"][row].sum() > 0]
    groups = Counter(str(getattr(batch["uid"][row], "data", batch["uid"][row])) for row in real)
    assert len(groups) == BATCH
    assert set(groups.values()) <= {SIZE - 2, SIZE, SIZE + 2}
    assert len(set(groups.values())) > 1
    assert len(batch) - len(real) < 8  # the padding of one micro-batch a worker
    loss = 0.0
    for row in real:
        ids_T, answer_R = batch["input_ids"][row], batch["responses"][row]
        every_T = model(ids_T[None]).logits.log_softmax(-1)[0, :-1].gather(-1, ids_T[1:, None])[:, 0]
        loss = loss - (batch["advantages"][row] * every_T[-len(answer_R) :]).mean() / len(real)
    loss.backward()
    norm = torch.cat([weights.grad.flatten() for weights in model.parameters()]).norm().item()
    assert norm > 0.01
    assert done.history[0]["actor/grad_norm"] == pytest.approx(norm, rel=1e-3)


RECIPES = Path(__file__).parents[3] / "recipes"
TRAINED = sorted((RECIPES / "verl").glob("*.yaml"))
"""The small recipes train as two of these do, which tests/hosts/verl/test_recipes.py compares."""


def recipe_in_small(path: Path, model: Path, out: Path, *more: str) -> Any:
    """A recipe as verl's command line composes it, with few prompts a step, rollouts simulated."""
    files, validation = write_data()
    # a quarter of the simulated prompts is inside a band, and none is drawn twice for a batch
    batch = 2 if path.stem == "difficulty_filtering" else 8
    places = [
        f"hydra.searchpath=[pkg://verl.trainer.config,file://{RECIPES / 'verl'}]",
        f"data.train_files=[{','.join(files)}]",
        f"data.val_files={validation}",
        "data.filter_overlong_prompts=False",
        f"data.train_batch_size={batch}",
        f"actor_rollout_ref.actor.ppo_mini_batch_size={min(batch, 4)}",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4",
        "trainer.device=cpu",
        "trainer.n_gpus_per_node=1",
        "trainer.logger=[]",
        "trainer.val_before_train=False",
        "trainer.test_freq=-1",
        "trainer.save_freq=-1",
        "trainer.total_training_steps=2",
        f"trainer.default_local_dir={out}",
        "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
        *on_cpu(model),
        *more,
    ]
    if "metis" in path.stem:
        places += ["curro.selection.candidates=2", "curro.selection.max_tokens=128"]
    with initialize_config_dir(str(path.parent), version_base=None):
        config = compose(path.stem, places)
    config.transfer_queue.enable = True
    OmegaConf.resolve(config)
    return config


EXACT = {"prioritized_replay_guru", "metis_dapo"}
"""One recipe with verl's loss alone, and one with auxiliary samples."""


@pytest.mark.parametrize("path", TRAINED, ids=lambda path: path.stem)
def test_a_recipe_trains(path, tmp_path, monkeypatch):
    """Half of the weights move at the recipe's own rate and precision, as far as they do in float32."""
    monkeypatch.setitem(TRAINERS, "curro_sync", CPUSync)
    monkeypatch.syspath_prepend(RECIPES)
    model = save_model(tmp_path / "model")
    precision = f"++actor_rollout_ref.actor.fsdp_config.mixed_precision={FLOAT32}"
    changes = []
    runs = {"own": []} | ({"exact": [precision]} if path.stem in EXACT else {})
    unchecked = "++curro.no_check=true"  # the rows in small are sums, whatever the recipe's reward reads
    for name, more in runs.items():
        done = Run(recipe_in_small(path, model, tmp_path / name, unchecked, *more))
        changes += done.trainer.actor_rollout_wg.changed()
    (share, norm), *exact = changes
    assert share > 0.5
    assert all(norm == pytest.approx(other, rel=0.1) for _, other in exact)
