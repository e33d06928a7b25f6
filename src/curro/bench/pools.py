"""The pass rates of a task's prompts under its warm model, measured once."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from curro.bench.tasks import Task
from curro.storage.atomic import replacing

SAMPLES = 16
MOST = 1000
"""Prompts of a larger data set that are measured, at random; the others are NaN."""
MATTERS = (
    "data", "limit", "model", "reward", "reward_range", "environment", "temperature", "max_completion_length",
)  # fmt: skip
"""Settings that the rates depend on."""


def warm_rates(task: Task, folder: Path) -> np.ndarray:
    """The mean of 16 uncounted rollouts of each prompt, float64 (N,), on the scale of success rates.

    Kept in `folder`, with what they depend on: for another model or other data they are measured again.
    """
    from curro.data import load_prompts

    path = folder / f"{task.name.replace('/', '-')}.parquet"
    settings = asdict(task.settings())
    prompts = load_prompts(task.data, limit=task.prompts)
    identity = {name: settings[name] for name in MATTERS} | {"fingerprint": prompts.fingerprint}
    told = json.dumps(identity, sort_keys=True).encode()
    if path.exists():
        table = pq.read_table(path)
        if (table.schema.metadata or {}).get(b"curro.task") == told:
            return table["rate"].to_numpy()
    rates = _measure(task, len(prompts))
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part:
        columns: dict[str, Any] = {"prompt": np.arange(len(rates)), "rate": rates}
        pq.write_table(pa.table(columns, metadata={"curro.task": told}), part)
    return rates


def _measure(task: Task, count: int) -> np.ndarray:
    import torch

    from curro.evaluation.pass_rates import sampled_rewards
    from curro.rollout.engines.sampling_settings import SamplingSettings
    from curro.training.prepared import prepare

    prepared = prepare(task.settings())
    model = prepared.model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    measured = np.arange(count)
    if count > MOST:
        measured = np.sort(np.random.default_rng(0).choice(count, MOST, replace=False))
    rewards_PG = sampled_rewards(
        model,
        prepared.tokenizer,
        [prepared.prompts[i] for i in measured.tolist()],
        prepared.reward,
        environment=prepared.environment,
        samples=SAMPLES,
        settings=SamplingSettings(
            prepared.settings.max_completion_length or 1, prepared.settings.temperature
        ),
    )
    model.to("cpu")
    torch.cuda.empty_cache()  # the runs are other processes
    low = prepared.settings.reward_range[0]
    rates = np.full(count, np.nan)
    rates[measured] = prepared.curriculum.table.success_rate(np.nan_to_num(rewards_PG, nan=low).mean(axis=1))
    return rates
