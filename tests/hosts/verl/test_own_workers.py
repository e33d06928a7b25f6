"""verl's own actor workers, two processes on the CPU, train on the curriculum's batch."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from cpu_workers import FLOAT32, CPUAsync, CPUSync, on_cpu, overrides, save_model, stop_kept
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from setup_run import BATCH, SIZE, TRAINERS, Run, run
from tests.recipes.harness import commands_of, prepared_folder
from verl.trainer.ppo import metric_utils
from verl.trainer.ppo.reward import get_custom_reward_fn

from curro.lab.model import load_checkpoint


@pytest.fixture(scope="module", autouse=True)
def _workers_end():
    yield
    stop_kept()


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


SYNC, ASYNC = ("curro_sync", CPUSync), ("curro_colocate_async", CPUAsync)


@pytest.mark.parametrize(
    ("mode", "trainer", "rule", "aggregation"),
    [
        (*SYNC, "simulation:Ragged", "token-mean"),
        (*SYNC, "probe:first=2,most=7", "seq-mean-token-mean"),
        (*ASYNC, "simulation:Ragged", "seq-mean-token-mean"),
        (*ASYNC, "probe:first=2,most=7", "seq-mean-token-mean"),
    ],
)
def test_ragged_groups_train_to_the_loss_of_padded_ones(
    tmp_path, monkeypatch, mode, trainer, rule, aggregation
):
    """The gradient is that of the real rows alone, though groups have 2 to 7 rollouts where verl expects 4.

    All responses have the same length, so that both means over rows are one mean.
    """
    monkeypatch.setitem(TRAINERS, mode, trainer)
    folder = save_model(tmp_path / "model")
    ragged = ["+curro.selection=uniform", f"+curro.allocation='{rule}'"]
    done = run(
        tmp_path / "out", *ragged, *overrides(folder), f"trainer.v1.trainer_mode={mode}",
        f"actor_rollout_ref.actor.loss_agg_mode={aggregation}",
        "trainer.v1.colocate_async.num_warmup_batches=0",  # all groups of the step are trained on in it
        steps=1, ranks=2,
    )  # fmt: skip
    model, _ = load_checkpoint(folder)
    (batch,) = done.trainer.batches
    real = [row for row in range(len(batch)) if batch["response_mask"][row].sum() > 0]
    groups = Counter(str(getattr(batch["uid"][row], "data", batch["uid"][row])) for row in real)
    assert len(groups) == BATCH
    assert set(groups.values()) <= set(range(2, 8))
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


RECIPES = Path(__file__).parents[3] / "recipes" / "verl"
HEADERS = sorted(RECIPES.glob("*.yaml"))
"""The small recipes train as two of these do, which tests/hosts/verl/test_recipes.py compares."""


def launched(path: Path, model: Path, out: Path, *more: str) -> Any:
    """The configuration of the header's launch command, with few prompts a step."""
    words = commands_of(path)[-1]
    start = words.index("verl.trainer.main_ppo")
    assert words[start + 1 :] == ["--config-dir", "recipes/verl", "--config-name", path.stem]
    # a quarter of the simulated prompts is inside a band, and programs take a while to run
    batch = 2 if path.stem in ("difficulty_filtering", "metis_code") else 8
    held_out = {"metis_code": 8, "difficulty_filtering": 100}.get(path.stem, 24)
    places = [
        "hydra.searchpath=[pkg://verl.trainer.config]",
        "data.filter_overlong_prompts=False",
        "data.seed=1",
        f"data.val_max_samples={held_out}",
        f"data.train_batch_size={batch}",
        f"actor_rollout_ref.actor.ppo_mini_batch_size={min(batch, 4)}",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4",
        "trainer.device=cpu",
        "trainer.n_gpus_per_node=1",
        "trainer.logger=[]",
        "trainer.val_before_train=False",
        "trainer.save_freq=-1",
        "trainer.total_training_steps=2",
        f"trainer.default_local_dir={out}",
        "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
        *on_cpu(model),
        *more,
    ]
    if "metis" in path.stem:
        places += ["curro.selection.candidates=2", "curro.selection.max_tokens=128"]
    with initialize_config_dir(str(Path.cwd() / words[start + 2]), version_base=None):
        config = compose(words[start + 4], places)
    config.transfer_queue.enable = True
    OmegaConf.resolve(config)
    return config


def of_few_samples(plain: Any = metric_utils.bootstrap_metric, **options: Any) -> Any:
    """verl's intervals by ten samples of a prompt's answers: its thousand take longer than the training."""
    return plain(**options | {"n_bootstrap": 10})


class Scored(Run):
    """A run whose simulated responses are scored by the recipe's own reward."""

    def before(self, engine: Any) -> None:
        config = self.trainer.config
        engine.validation_size = config.actor_rollout_ref.rollout.val_kwargs.n
        if (function := get_custom_reward_fn(config)) is None:
            return  # an environment scores the episodes
        # what curro's reward manager tells a reward beside the text
        is_told = config.reward.reward_manager.name == "curro"
        facts = {"completion_tokens": 5, "completion_cut": False} if is_told else None

        def score(prompt: dict[str, Any], right: bool) -> dict[str, float]:
            source, truth = prompt["data_source"], prompt["reward_model"]["ground_truth"]
            text = f"\\boxed{{{truth if right else 0}}}"
            if source.startswith("codecontests"):
                output = json.loads(truth)[0]["output"] if right else "no"
                text = f"```python\nprint({output!r})\n```"
            return function(data_source=source, solution_str=text, ground_truth=truth, extra_info=facts)

        engine.score = score


@pytest.mark.parametrize("path", HEADERS, ids=lambda path: path.stem)
def test_a_recipes_header_runs_as_it_stands(path, tmp_path, monkeypatch):
    """Prepare, train and validate: half of the weights move at the recipe's own rate, as far as in float32.

    What the paper's table has is logged under its name: mean@n of every test set.
    """
    monkeypatch.setitem(TRAINERS, "curro_sync", CPUSync)
    monkeypatch.setattr(metric_utils, "bootstrap_metric", of_few_samples)
    names = re.findall(r"--name ([A-Z][\w-]+)", path.read_text())
    with prepared_folder(path, tmp_path):
        if commands_of(path)[-1][0] == "PYTHONPATH=recipes":
            monkeypatch.syspath_prepend("recipes")
        model = save_model(tmp_path / "model")
        done = Scored(launched(path, model, tmp_path / "own"))
        ((share, norm),) = done.trainer.actor_rollout_wg.changed()
        assert share > 0.5
        validated = done.history[-1]
        samples = done.trainer.config.actor_rollout_ref.rollout.val_kwargs.n
        assert {f"val-core/{name}/acc/mean@{samples}" for name in names} <= set(validated)
        assert len([name for name in validated if name.startswith("val-core") and "mean@" in name]) >= 1
        if path.stem == "metis_dapo":  # which has auxiliary samples beside verl's loss
            precision = f"++actor_rollout_ref.actor.fsdp_config.mixed_precision={FLOAT32}"
            alone = "trainer.test_freq=-1"
            exact = Scored(launched(path, model, tmp_path / "exact", precision, alone))
            assert norm == pytest.approx(exact.trainer.actor_rollout_wg.changed()[0][1], rel=0.1)
