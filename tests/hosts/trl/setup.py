"""A tiny random model, a data set of 24 prompts and a trainer on them, for the tests of the TRL host."""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from collections import Counter
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from trl import GRPOConfig

from curro.hosts.trl import CurriculumGRPOTrainer
from curro.lab.model import build_model, build_tokenizer

PROMPTS = 24


def dataset(conversational: bool = False) -> Dataset:
    texts = [f"{i} + {i} =" for i in range(PROMPTS)]
    prompts = [[{"role": "user", "content": text}] for text in texts] if conversational else texts
    return Dataset.from_dict({"prompt": prompts, "row": list(range(PROMPTS))})


def first_token_is_even(completion_ids: list[list[int]], **_: Any) -> list[float]:
    """A reward that a random model gets now and then."""
    return [float(ids[0] % 2 == 0) for ids in completion_ids]


def every_other(completion_ids: list[list[int]], **_: Any) -> list[float]:
    """0 and 1 in turn."""
    return [float(i % 2) for i in range(len(completion_ids))]


def config(folder: Any, **options: Any) -> GRPOConfig:
    """4 prompts of 4 rollouts a generation."""
    settings: dict[str, Any] = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 16,
        "num_generations": 4,
        "max_completion_length": 4,
        "max_steps": 3,
        "learning_rate": 1e-2,
        "lr_scheduler_type": "constant",
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": [],
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
        "seed": 3,
    }
    return GRPOConfig(**(settings | options))


def trainer(
    folder: Any, kind: type[CurriculumGRPOTrainer] = CurriculumGRPOTrainer, **options: Any
) -> CurriculumGRPOTrainer:
    """A trainer; options that GRPOConfig knows go there, the others to the trainer."""
    torch.manual_seed(0)
    tokenizer = build_tokenizer()
    known = GRPOConfig.__dataclass_fields__
    arguments: dict[str, Any] = {
        "model": build_model(tokenizer, width=32, layers=1),
        "processing_class": tokenizer,
        "train_dataset": dataset(),
        "reward_funcs": first_token_is_even,
        "curriculum": "prioritized-replay",
        "log_all_metrics": True,
        "args": config(folder, **{k: v for k, v in options.items() if k in known}),
    }
    arguments |= {k: v for k, v in options.items() if k not in known}
    if "environment" in options and "reward_funcs" not in options:
        del arguments["reward_funcs"]
    return kind(**arguments)


def given_to_the_loss(host: Any) -> list[dict[str, Any]]:
    """The inputs of every loss that a trainer computes from now on."""
    given: list[dict[str, Any]] = []
    compute = host._compute_loss
    host._compute_loss = lambda model, inputs: given.append(dict(inputs)) or compute(model, inputs)
    return given


def generated_by(host: Any) -> list[dict[str, Any]]:
    """TRL's output of every generation from now on."""
    outputs: list[dict[str, Any]] = []
    generate = host._generate_and_score_completions
    host._generate_and_score_completions = lambda inputs: outputs.append(generate(inputs)) or outputs[-1]
    return outputs


def generators_of(contexts: list[list[int]]) -> list[np.random.Generator]:
    """A generator for each context, seeded by its tokens and by its place among the contexts like it."""
    alike: Counter[tuple[int, ...]] = Counter()
    generators = []
    for ids in contexts:
        generators.append(np.random.default_rng([*ids, alike[tuple(ids)]]))
        alike[tuple(ids)] += 1
    return generators


class Diary:
    """Collects what `on_groups` hears."""

    def __init__(self) -> None:
        self.records: list[Any] = []

    def __call__(self, record: Any) -> None:
        self.records.append(record)

    def draws(self) -> list[tuple[int, ...]]:
        return [tuple(record.draw.prompts.tolist()) for record in self.records]

    def rewards(self) -> list[list[float]]:
        return [record.rewards.ravel().tolist() for record in self.records]


def resumed_and_whole(folder: Any, *, after: int, **options: Any) -> tuple[Any, Any]:
    """A trainer that resumed and one that was never interrupted; they drew and learnt the same."""
    whole, first, second = Diary(), Diary(), Diary()
    options |= {"save_strategy": "steps", "save_steps": after}
    uninterrupted = trainer(folder / "whole", on_groups=whole, **options)
    uninterrupted.train()
    trainer(folder / "cut", on_groups=first, **(options | {"max_steps": after})).train()
    resumed = trainer(folder / "cut", on_groups=second, **options)
    resumed.train(resume_from_checkpoint=str(folder / "cut" / f"checkpoint-{after}"))
    assert first.draws() + second.draws() == whole.draws()
    assert first.rewards() + second.rewards() == whole.rewards()
    states = [host.curriculum.state_dict()["selection"] for host in (resumed, uninterrupted)]
    np.testing.assert_equal(*states)
    for ours, theirs in zip(resumed.model.parameters(), uninterrupted.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    return resumed, uninterrupted
