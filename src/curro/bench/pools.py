"""The pass rates of a task's prompts under its warm model, measured once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from curro.bench.tasks import Task
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

    from curro.evaluation.sampling import attempts
    from curro.hosts.trl.run import prepare
    from curro.hosts.trl.settings import TrainSettings

    settings = {name: value for name, value in task.train if name != "eval_data"}
    prepared = prepare(TrainSettings(task.data, limit=task.prompts, **settings))
    torch.set_num_threads(1)
    torch.manual_seed(0)
    texts, rows = attempts(
        prepared.model.to("cuda" if torch.cuda.is_available() else "cpu").eval(),
        prepared.tokenizer,
        list(prepared.prompts),
        environment=prepared.environment,
        n=SAMPLES,
        max_new_tokens=prepared.settings.max_completion_length or 1,
        temperature=prepared.settings.temperature,
    )
    scores = prepared.reward.score(texts, rows)
    return np.array([score or 0.0 for score in scores]).reshape(-1, SAMPLES).mean(axis=1)
