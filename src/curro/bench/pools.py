"""The pass rates of a task's prompts under its warm model, measured once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from curro.bench.tasks import Task
from curro.data import load_prompts
from curro.runs import replacing

SAMPLES = 16


def warm_rates(task: Task, folder: Path) -> np.ndarray:
    """The mean reward of 16 uncounted rollouts of each prompt, float64 (N,); kept in `folder`."""
    path = folder / f"{task.name.replace('/', '-')}.parquet"
    if not path.exists():
        rates = _measure(task)
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part:
            pq.write_table(pa.table({"prompt": np.arange(len(rates)), "rate": rates}), part)
    return pq.read_table(path)["rate"].to_numpy()


def _measure(task: Task) -> np.ndarray:
    import torch

    from curro.evaluation.sampling import sample
    from curro.hosts.models import load_model
    from curro.hosts.trl.settings import TrainSettings
    from curro.reward import resolve_reward

    prompts = load_prompts(task.data, limit=task.prompts)
    settings = TrainSettings(task.data).complete(len(prompts))
    model, tokenizer = load_model(settings.model or task.data)
    reward = resolve_reward("auto", prompts)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    texts = sample(
        model.eval(),
        tokenizer,
        [row["prompt"] for row in prompts],
        n=SAMPLES,
        max_new_tokens=settings.max_completion_length or 1,
    )
    rows = [row for row in prompts for _ in range(SAMPLES)]
    scores = reward.score([text for group in texts for text in group], rows)
    return np.array([score or 0.0 for score in scores]).reshape(-1, SAMPLES).mean(axis=1)
