"""Run by `two_processes.py`: two processes play episodes, of which one process's all end after a turn."""

import json
import os
import sys
from pathlib import Path

import torch
from tests.hosts.trl.setup import PROMPTS, Diary, dataset, trainer

import curro
from curro.data.prompt_set import PromptSet

torch.set_num_threads(1)
folder, rank = Path(sys.argv[1]), int(os.environ["RANK"])


class Uneven:
    turns, turn_tokens = 4, 3

    def start(self, row, seed):
        return Session(seed)


class Session:
    def __init__(self, seed):
        self.seed, self.told = seed, 0

    def step(self, action):
        self.told += len(action)
        return None if rank == 0 else " total"

    def reward(self):
        return float((self.told + self.seed) % 2)


rows = [{**row, "answer": None, "key": f"row {row['row']}"} for row in dataset().to_list()]
report = {}
for name, admission in (("plain", None), ("filled", "signal")):
    diary = Diary()
    host = trainer(
        folder / name,
        per_device_train_batch_size=8,
        max_completion_length=20,
        train_dataset=PromptSet(rows).to_hf(),
        curriculum=curro.Curriculum("uniform", PROMPTS, admission=admission, seed=5),
        environment=Uneven(),
        on_groups=diary,
        ddp_backend="gloo",
    )
    write = host._generate_single_turn
    end = host._tokenizer.eos_token_id
    host._generate_single_turn = lambda *args, write=write, end=end, **kwargs: (
        [[*ids[:2], end] for ids in write(*args, **kwargs)[0]],
        None,
    )
    before = [p.clone() for p in host.model.parameters()]
    host.train()
    report[name] = {
        "weights": sum(float(p.double().abs().sum()) for p in host.model.parameters()),
        "moved": any(not torch.equal(a, b) for a, b in zip(before, host.model.parameters(), strict=True)),
        "groups": sum(len(record.draw) for record in diary.records),
    }
(folder / f"rank{rank}.json").write_text(json.dumps(report))
