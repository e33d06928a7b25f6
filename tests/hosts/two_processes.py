"""Run by `torchrun`: each process writes what it rolled out, what it was told and its weights."""

import json
import sys
from pathlib import Path

import torch
from tests.hosts.trl_setup import Diary, trainer

import curro

torch.set_num_threads(1)
folder = Path(sys.argv[1])
rows: list[list[int]] = []


def reward(row, completion_ids, **_):
    rows.append(row)
    return [float(ids[0] % 2 == 0) for ids in completion_ids]


def broken(row, **_):
    return [float("inf")] * len(row)


diary = Diary()
host = trainer(
    folder / "run",
    per_device_train_batch_size=8,
    reward_funcs=reward,
    on_groups=diary,
    ddp_backend="gloo",
    save_strategy="steps",
    save_steps=3,
)
host.train()
refilled = Diary()
filled = trainer(
    folder / "filled",
    per_device_train_batch_size=8,
    curriculum=curro.Curriculum("pspo", 24, advantage="smoothed", admission="band:0.4,0.6", seed=5),
    on_groups=refilled,
    ddp_backend="gloo",
)
trained: list[float] = []
compute_loss = filled._compute_loss
filled._compute_loss = lambda model, inputs: (
    trained.append(len(inputs["advantages"])) or compute_loss(model, inputs)
)
filled.train()
seeing = trainer(
    folder / "seeing",
    per_device_train_batch_size=8,
    curriculum={"name": "frontier", "candidates": 2, "features": "hidden"},
    max_steps=10,
    ddp_backend="gloo",
)
seeing.train()
failing = trainer(folder / "bad", per_device_train_batch_size=8, reward_funcs=broken, ddp_backend="gloo")
try:
    failing.train()
    error = ""
except Exception as caught:
    error = f"{type(caught).__name__}: {caught}"
rank = host.accelerator.process_index
weights = sum(float(p.double().abs().sum()) for p in host.model.parameters())
report = {
    "rows": rows,
    "draws": diary.draws(),
    "observed": host.curriculum.metrics()["observed"],
    "weights": weights,
    "error": error,
    "seeing_weights": sum(float(p.double().abs().sum()) for p in seeing.model.parameters()),
    "seeing": seeing.curriculum.metrics().get("posterior/strength"),
    "filled_weights": sum(float(p.double().abs().sum()) for p in filled.model.parameters()),
    "filled_rows": trained,
    "filled_logs": {name: list(filled._logs[name]) for name in ("prompt", "advantages")},
    "filled_history": [entry for entry in filled.state.log_history if "refill/groups" in entry],
    "groups": [
        [record.draw.prompts.tolist(), record.rewards.tolist(), record.verdict.advantages.tolist()]
        for record in refilled.records
    ],
    "admitted": [record.verdict.admitted.tolist() for record in refilled.records],
}
(folder / f"rank{rank}.json").write_text(json.dumps(report))
