"""Run by `two_processes.py`: METIS on two processes, one step with the second loss and one without it."""

import json
import sys
from pathlib import Path

import torch
from tests.hosts.trl.judging import judge_gradient, trained_with_and_without, value_of, weights
from tests.hosts.trl.setup import Diary

from curro.methods.prediction.metis import predictor

torch.set_num_threads(1)
predictor.read_prediction = value_of
folder = Path(sys.argv[1])
report = {}
SCHEDULES = {
    "at once": {"per_device_train_batch_size": 8, "loss_type": "dr_grpo"},
    "more slots than auxiliary samples": {
        "per_device_train_batch_size": 2, "gradient_accumulation_steps": 4, "loss_type": "dapo",
    },
    "filled": {"per_device_train_batch_size": 8, "admission": "band:0.4,0.6", "loss_type": "dapo"},
}  # fmt: skip
for name, schedule in SCHEDULES.items():
    diary = Diary()
    model, host, further = trained_with_and_without(folder, diary, weights, **schedule)
    entry = {"weights": float(weights(host.model).abs().sum())}
    parts = [record.verdict.auxiliary_samples for record in diary.records]
    entry["auxiliary_samples"] = sum(len(part.advantages) for part in parts)
    if parts:
        shares = [len(part.advantages) / entry["auxiliary_samples"] for part in parts]
        gradients = [judge_gradient(model, part) for part in parts]
        expected = sum(share * gradient for share, gradient in zip(shares, gradients, strict=True))
        mean_length = host.state.log_history[0]["completions/mean_length"]
        expected = expected / {"dr_grpo": host.max_completion_length}.get(host.loss_type, mean_length)
        entry["error"] = float((further - 0.5 * expected).abs().max())
        entry["size"] = float(expected.abs().max())
    entry["logged"] = "judge/loss" in host.state.log_history[0]
    report[name] = entry
rank = host.accelerator.process_index
(folder / f"rank{rank}.json").write_text(json.dumps(report))
