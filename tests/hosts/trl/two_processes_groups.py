"""Run by `two_processes.py`: each process writes what it rolled out, what it was told and its weights."""

import json
import sys
from pathlib import Path

import torch
from tests.hosts.trl.setup import Diary, trainer

import curro
from curro.hosts.trl import trainer as trainer_module

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
filled_diary = Diary()
filled = trainer(
    folder / "filled",
    per_device_train_batch_size=8,
    curriculum=curro.Curriculum("pspo", 24, advantage="smoothed", admission="band:0.4,0.6", seed=5),
    on_groups=filled_diary,
    ddp_backend="gloo",
)
trained: list[float] = []
compute_loss = filled._compute_loss
filled._compute_loss = lambda model, inputs: (
    trained.append(len(inputs["advantages"])) or compute_loss(model, inputs)
)
filled.train()
staged_diary = Diary()
staged = trainer(
    folder / "staged",
    per_device_train_batch_size=8,
    curriculum=curro.Curriculum(
        "uniform",
        24,
        advantage="leave-one-out",
        allocation="knapsack:least=1",
        admission="signal",
        seed=5,
    ),
    on_groups=staged_diary,
    ddp_backend="gloo",
)
staged_rows: list[list[float]] = []
compute_staged = staged._compute_loss
staged._compute_loss = lambda model, inputs: (
    staged_rows.append(inputs["advantages"].tolist()) or compute_staged(model, inputs)
)
staged.train()
seeing = trainer(
    folder / "seeing",
    per_device_train_batch_size=8,
    curriculum={"name": "frontier", "candidates": 2, "features": "entropy"},
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


def signal_in_the_first_half(row, completion_ids, **_):
    return [float(number >= 12 or ids[0] % 2 == 0) for number, ids in zip(row, completion_ids, strict=True)]


def flat_weights(name):
    """The weights after three steps: both processes have signal, then the first has, then neither."""
    made = trainer(
        folder / name,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=2,
        curriculum="scheduled",
        reward_funcs=signal_in_the_first_half,
        optim="sgd",
        learning_rate=0.1,
        ddp_backend="gloo",
    )
    made.train()
    return torch.cat([p.detach().flatten() for p in made.model.parameters()])


flat = flat_weights("flat")
trainer_module.only_advantages_teach = lambda trainer: False
difference = float((flat - flat_weights("whole")).abs().max())
rank = host.accelerator.process_index
weights = sum(float(p.double().abs().sum()) for p in host.model.parameters())
report = {
    "rows": rows,
    "draws": diary.draws(),
    "observed": host.curriculum.metrics()["observed"],
    "weights": weights,
    "error": error,
    "flat_weights": float(flat.double().abs().sum()),
    "flat_difference": difference,
    "seeing_weights": sum(float(p.double().abs().sum()) for p in seeing.model.parameters()),
    "seeing": seeing.curriculum.selection.predictor.posterior.is_fitted,
    "filled_weights": sum(float(p.double().abs().sum()) for p in filled.model.parameters()),
    "filled_rows": trained,
    "staged_weights": sum(float(p.double().abs().sum()) for p in staged.model.parameters()),
    "staged_rows": staged_rows,
    "staged_groups": [
        [record.step, size, bool(admitted), row[:size]]
        for record in staged_diary.records
        for size, admitted, row in zip(
            record.sizes.tolist(),
            record.verdict.admitted,
            staged.curriculum.credit(record.verdict).tolist(),
            strict=True,
        )
    ],
    "filled_logs": {name: list(filled._logs[name]) for name in ("prompt", "advantages")},
    "filled_history": [entry for entry in filled.state.log_history if "fill/given_out" in entry],
    "groups": [
        [record.draw.prompts.tolist(), record.rewards.tolist(), record.verdict.advantages.tolist()]
        for record in filled_diary.records
    ],
    "admitted": [record.verdict.admitted.tolist() for record in filled_diary.records],
}
(folder / f"rank{rank}.json").write_text(json.dumps(report))
