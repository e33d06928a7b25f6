"""TRL's settings as users combine them with a curriculum: each trains two steps, and groups are counted.

Other losses, entropies, LoRA and iterations train in `fast/`, where they are compared with TRL's own.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig
from tests.hosts.trl.setup import PROMPTS, dataset, first_token_is_even, trainer
from transformers import TrainerCallback

from curro.hosts.trl import FillSettings, KeepRollouts
from curro.lab.model import build_model, build_tokenizer
from curro.runs.folder import RunFolder


def short(completion_ids: list[list[int]], **_: Any) -> list[float | None]:
    """A reward that some rollouts lack."""
    return [None if ids[0] % 3 == 0 else float(len(ids) < 4) for ids in completion_ids]


async def later(completion_ids: list[list[int]], **_: Any) -> list[float]:
    """A reward that is awaited."""
    return [float(ids[0] % 2) for ids in completion_ids]


LORA = LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM")
HELD_OUT = {"eval_dataset": dataset().select(range(4)), "per_device_eval_batch_size": 8}

SETTINGS: dict[str, dict[str, Any]] = {
    "scaled by the batch, a low temperature": {"scale_rewards": "batch", "temperature": 0.5},
    "GSPO, a repetition penalty": {
        "importance_sampling_level": "sequence", "epsilon": 3e-4, "epsilon_high": 4e-4,
        "repetition_penalty": 1.2,
    },
    "a reference model that follows, an unbiased KL": {
        "beta": 0.04, "sync_ref_model": True, "ref_model_sync_steps": 1, "use_bias_correction_kl": True,
    },
    # batches
    "a generation batch, padding to eight": {
        "per_device_train_batch_size": 8, "generation_batch_size": 16, "pad_to_multiple_of": 8,
    },
    "micro-batches within a group": {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 8},
    "one group a step of one token": {"per_device_train_batch_size": 4, "max_completion_length": 1},
    "all prompts in a step": {"per_device_train_batch_size": 4 * PROMPTS},
    "epochs, truncated sampling": {
        "max_steps": -1, "num_train_epochs": 1 / 3, "top_p": 0.9, "top_k": 8, "min_p": 0.01,
    },
    # rewards
    "each reward normalised, one awaited": {
        "reward_funcs": [first_token_is_even, later],
        "multi_objective_aggregation": "normalize_then_sum",
    },
    "rollouts without a reward, options of generate": {
        "reward_funcs": short, "generation_kwargs": {"min_new_tokens": 2},
    },
    # models and optimisers
    "a float32 head, SGD with a cosine": {
        "cast_lm_head_to_fp32": True, "optim": "sgd", "lr_scheduler_type": "cosine", "warmup_steps": 1,
    },
    "an optimiser and a callback of one's own": {"optimizers": "own", "callbacks": [TrainerCallback()]},
    # data, evaluation and output
    "fewer rollouts in evaluation": {
        **HELD_OUT, "eval_strategy": "steps", "eval_steps": 1, "num_generations_eval": 2,
    },
    "the best model at the end": {
        **HELD_OUT, "eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 1,
        "load_best_model_at_end": True, "metric_for_best_model": "eval_reward", "save_total_limit": 1,
    },
    "printed completions": {"log_completions": True, "num_completions_to_print": 1},
    # with more of a curriculum
    "a gate in micro-batches": {"admission": "signal", "per_device_train_batch_size": 8,
                                "steps_per_generation": 2, "fill": FillSettings(limit=3)},
    "a gate, LoRA and a reference": {"admission": "signal", "peft_config": LORA, "beta": 0.04},
    "a gate on messages, two iterations": {
        "admission": "signal", "num_iterations": 2, "train_dataset": dataset(conversational=True),
    },
    "kept rollouts, empty steps skipped": {"keep": KeepRollouts(2), "skip_empty_steps": True},
}  # fmt: skip


@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)
def test_a_setting_trains(tmp_path, model_folder, options):
    options = {"max_steps": 2, **copy.deepcopy(options)}  # PEFT writes into the settings it is given
    if "beta" in options:
        options["model"] = model_folder
    if "optimizers" in options:
        model = build_model(build_tokenizer(), width=32, layers=1)
        options |= {"model": model, "optimizers": (torch.optim.SGD(model.parameters(), lr=1e-2), None)}
    host = trainer(tmp_path, **options)
    before = [weight.detach().clone() for weight in host.model.parameters()]
    host.train()
    after = [weight.detach() for weight in host.model.parameters()]
    assert host.state.global_step == 2
    assert all(bool(weight.isfinite().all()) for weight in after)
    metrics = host.curriculum.metrics()
    assert metrics["selected"] == metrics["observed"] + metrics["dropped"]
    assert metrics["in_flight"] == 0
    args = host.args
    steps_each = args.steps_per_generation // args.gradient_accumulation_steps * args.num_iterations
    generations = -(-2 // steps_each)
    folder = RunFolder.open(tmp_path)
    lines = [line for line in folder.metrics() if "reward" in line]
    assert [line["step"] for line in lines] == [1, 2][:generations]
    groups = folder.groups()
    assert metrics["observed"] == sum(not np.isnan(line["mean"]) for line in groups)
    if "admission" not in options:
        assert metrics["selected"] == generations * args.generation_batch_size / 4
    has_signal = any(line["admitted"] and line["variance"] > 0 for line in groups)
    if has_signal:
        assert any(not torch.equal(a, b) for a, b in zip(after, before, strict=True))
