"""Run by `two_processes.py`: each process writes what it rolled out, what it was told and its weights."""

import json
import sys
from pathlib import Path
from unittest.mock import patch

import torch
from tests.hosts.trl.setup import Diary, given_to_the_loss, trainer

import curro
from curro.hosts.trl.fast import accelerated

torch.set_num_threads(1)
folder = Path(sys.argv[1])
rows: list[list[int]] = []


def made(name, **options):
    """A trainer on both processes, and what it says of its groups."""
    diary = Diary()
    arguments = {"per_device_train_batch_size": 8, "ddp_backend": "gloo", "on_groups": diary} | options
    return trainer(folder / name, **arguments), diary


def size_of(trained):
    return sum(float(p.double().abs().sum()) for p in trained.model.parameters())


def reward(row, completion_ids, **_):
    rows.append(row)
    return [float(ids[0] % 2 == 0) for ids in completion_ids]


def broken(row, **_):
    return [float("inf")] * len(row)


host, diary = made("run", reward_funcs=reward, save_strategy="steps", save_steps=3)
host.train()
halves = {
    "steps_per_generation": 2,
    "per_device_train_batch_size": 4,
    "save_strategy": "steps",
    "save_steps": 1,
}
made("half", max_steps=1, **halves)[0].train()
resumed, resumed_diary = made("half", max_steps=2, **halves)
# older versions of transformers ask PyTorch for "cpu:0", which it does not know
with patch(
    "torch.load", lambda *file, load=torch.load, **options: load(*file, **options | {"map_location": "cpu"})
):
    resumed.train(resume_from_checkpoint=True)
gated = curro.Curriculum("pspo", 24, advantage="smoothed", admission="band:0.4,0.6", seed=5)
# three groups of four on two processes of six rows: one group is on both
filled, filled_diary = made("filled", curriculum=gated, per_device_train_batch_size=6)
filled_inputs = given_to_the_loss(filled)
filled.train()
probing = curro.Curriculum(
    "prioritized-replay",
    24,
    advantage="leave-one-out",
    allocation="probe:first=2",
    admission="signal",
    seed=5,
)
staged, staged_diary = made("staged", curriculum=probing)
staged_inputs = given_to_the_loss(staged)
staged.train()
by_entropy = {"name": "frontier", "candidates": 2, "features": "entropy"}
seeing, _ = made("seeing", curriculum=by_entropy, max_steps=10)
seeing.train()
failing, _ = made("bad", reward_funcs=broken)
try:
    failing.train()
    error = ""
except Exception as caught:
    error = f"{type(caught).__name__}: {caught}"


def signal_in_the_first_half(row, completion_ids, **_):
    return [float(number >= 12 or ids[0] % 2 == 0) for number, ids in zip(row, completion_ids, strict=True)]


def flat_weights(name):
    """The weights after three steps: both processes have signal, then the first has, then neither."""
    flat, _ = made(
        name,
        gradient_accumulation_steps=2,
        curriculum="scheduled",
        reward_funcs=signal_in_the_first_half,
        optim="sgd",
        learning_rate=0.1,
    )
    flat.train()
    return torch.cat([p.detach().flatten() for p in flat.model.parameters()])


flat = flat_weights("flat")
accelerated.only_advantages_teach = lambda trainer: False
report = {
    "rows": rows,
    "draws": diary.draws(),
    "resumed": [
        resumed.state.global_step,
        resumed.curriculum.metrics()["observed"],
        len(resumed_diary.records),
    ],
    "resumed_weights": size_of(resumed),
    "observed": host.curriculum.metrics()["observed"],
    "weights": size_of(host),
    "error": error,
    "flat_weights": float(flat.double().abs().sum()),
    "flat_difference": float((flat - flat_weights("whole")).abs().max()),
    "seeing_weights": size_of(seeing),
    "seeing": seeing.curriculum.selection.predictor.posterior.is_fitted,
    "filled_weights": size_of(filled),
    "filled_rows": [len(inputs["advantages"]) for inputs in filled_inputs],
    "filled_rewards_are_their_own": all(
        torch.equal(inputs["advantages"] > 0, inputs["completion_ids"][:, 0] % 2 == 0)
        for inputs in filled_inputs
    ),
    "staged_weights": size_of(staged),
    "staged_rows": [inputs["advantages"].tolist() for inputs in staged_inputs],
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
    "filled_history": [entry for entry in filled.state.log_history if "fill/given_out" in entry],
    "groups": [
        [record.draw.prompts.tolist(), record.rewards.tolist(), record.verdict.advantages.tolist()]
        for record in filled_diary.records
    ],
}
(folder / f"rank{host.accelerator.process_index}.json").write_text(json.dumps(report))
