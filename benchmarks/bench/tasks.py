"""The tasks of the benchmark: pools of prompts, and the settings that suit uniform sampling."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from curro.core.errors import ConfigError
from curro.core.files import read_toml, replacing
from curro.core.text import did_you_mean

if TYPE_CHECKING:
    from curro.training.settings import TrainSettings


@dataclass(frozen=True)
class Task:
    """A pool of prompts, a warm model, and the settings that were chosen with uniform sampling.

    Attributes:
        name: FAMILY/POOL; the lab's pools are hard and easy.
        data: as `curro train --data` takes it; its warm model and held-out prompts come with it.
        learning_rate: the best with uniform sampling of those in `chosen_by`, which has the pass@1 that each
            had when about the budget was spent, one seed.
        rollouts: the budget of a run: uniform sampling is still gaining then.
        prompts: how many there are to choose from; by default all.
        prompts_per_step, rollouts_per_prompt: P and G of a step. With so few the gradient is noisy, and the
            learning rate that suits uniform sampling is limited by that noise, which choosing can lessen.
        judge: the options with which METIS asks this model for judgments; None: it cannot judge.
        train: further settings of `curro train`, by name.
    """

    name: str
    data: str
    learning_rate: float
    rollouts: int
    chosen_by: str = ""
    prompts: int | None = None
    prompts_per_step: int = 4
    rollouts_per_prompt: int = 8
    judge: str | None = None
    train: tuple[tuple[str, Any], ...] = ()

    @property
    def step(self) -> int:
        """Rollouts of a step."""
        return self.prompts_per_step * self.rollouts_per_prompt

    def settings(self) -> TrainSettings:
        """Of `curro train`, without what a run has of its own: method, rate, budget and seed."""
        from curro.training.settings import TrainSettings

        return TrainSettings(
            self.data,
            limit=self.prompts,
            prompts_per_step=self.prompts_per_step,
            rollouts_per_prompt=self.rollouts_per_prompt,
            learning_rate=self.learning_rate,
            rollouts=self.rollouts,
            **dict(self.train),
        )


def pool_of(name: str) -> str:
    """The second part of a task's name."""
    return name.partition("/")[2]


LAB_JUDGE = "template=lab,max_tokens=12"
AS_HARD = "as on the hard pool"
EASY = 1_600
"""Rollouts of a run on an easy pool: uniform sampling has learnt most of it by then."""

TASKS = {
    task.name: replace(task, prompts=1000)
    for task in (
        Task(
            "chains/hard", "lab:chains_judge", 3e-4, 4_800, "1.5e-4 .27, 3e-4 .33, 6e-4 .12", judge=LAB_JUDGE
        ),
        Task("chain_sum/hard", "lab:chain_sum", 1.5e-4, 3_200, "1e-4 .16, 1.5e-4 .18, 3e-4 .15"),
        Task("spell_backward/hard", "lab:spell_backward", 3e-4, 6_400, "1.5e-4 .11, 3e-4 .18, 6e-4 .00"),
        Task("chains_share/hard", "lab:chains_share", 3e-4, 4_800, "3e-4 .31, 6e-4 .27"),
        Task("locks/hard", "lab:locks", 1e-3, 3_200, "3e-4 .28, 6e-4 .43, 1e-3 .54, 1.5e-3 .49"),
        Task("chains/easy", "lab:chains_judge/easy", 3e-4, EASY, "1.5e-4 .80, 3e-4 .85", judge=LAB_JUDGE),
        Task("chain_sum/easy", "lab:chain_sum/easy", 1.5e-4, EASY, AS_HARD),
        Task("spell_backward/easy", "lab:spell_backward/easy", 3e-4, EASY, "1.5e-4 .91, 3e-4 .95"),
        Task("chains_share/easy", "lab:chains_share/easy", 3e-4, EASY, AS_HARD),
        Task("locks/easy", "lab:locks/easy", 1e-3, EASY, "5e-4 .93, 1e-3 .98"),
    )
}


OF_TRAIN = (
    "model", "eval_data", "reward", "reward_range", "environment", "device_batch", "temperature",
    "max_completion_length", "loss_type",
)  # fmt: skip
"""Settings of `curro train` that a task may have besides its own."""
NEEDED = ("data", "learning_rate", "rollouts")
NEEDED_OUTSIDE_THE_LAB = ("model", "eval_data")


def read_tasks(path: Path) -> dict[str, Task]:
    """The tasks of a file, by name: a table each, named FAMILY/POOL.

    Its keys are `Task`'s and `OF_TRAIN`; `NEEDED` must be there, and for data that is not the lab's
    `NEEDED_OUTSIDE_THE_LAB`. METIS asks the model, with the options `judge` if any, unless `judge` is false.
    """
    tables = read_toml(path)
    if not tables:
        raise ConfigError(f'{path} has no tasks: write a table ["FAMILY/POOL"] for each')
    tasks = {}
    for name, table in tables.items():
        try:
            tasks[name] = _task(name, table)
        except ConfigError as error:
            raise ConfigError(f"task {name!r} in {path}: {error}") from None
    return tasks


def _task(name: str, table: Any) -> Task:
    if not isinstance(table, dict) or not re.fullmatch(r"\w+/\w+", name):
        raise ConfigError('a task is a table ["FAMILY/POOL"], in letters and digits; a pool is "hard", say')
    kinds = _kinds()
    for key, value in table.items():
        if key not in kinds:
            hint = did_you_mean(key, kinds)
            raise ConfigError(f"there is no setting {key!r}{hint}; there are: {', '.join(kinds)}")
        if not _is(value, kinds[key]):
            raise ConfigError(f"{key} is not {value!r}")
    needed = NEEDED if str(table.get("data")).startswith("lab:") else (*NEEDED, *NEEDED_OUTSIDE_THE_LAB)
    missing = [key for key in needed if key not in table]
    if missing:
        raise ConfigError(f"it lacks {', '.join(missing)}")
    train = tuple((key, _setting(table[key])) for key in OF_TRAIN if key in table)
    judge = {False: None, True: ""}.get(table.get("judge", True), table.get("judge"))
    options = {key: value for key, value in table.items() if key not in (*OF_TRAIN, "judge")}
    task = Task(name, **options, train=train, judge=judge)
    task.settings().complete(task.prompts or task.prompts_per_step)
    if task.rollouts < task.step:
        raise ConfigError(f"{task.rollouts} rollouts do not pay for a step of {task.step}")
    return task


def _kinds() -> dict[str, Any]:
    """What type the value of each key has."""
    from curro.training.settings import TrainSettings

    task, train = get_type_hints(Task), get_type_hints(TrainSettings)
    names = [item.name for item in fields(Task) if item.name not in ("name", "train", "chosen_by")]
    kinds = {name: task[name] for name in names} | {name: train[name] for name in OF_TRAIN}
    return kinds | {"judge": str | bool, "reward_range": list}


def _is(value: Any, kind: Any) -> bool:
    if isinstance(value, bool):
        return kind == str | bool
    if kind is list:
        return isinstance(value, list) and [type(end) in (int, float) for end in value] == [True, True]
    return isinstance(value, kind) or (isinstance(value, int) and isinstance(1.0, kind))


def _setting(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


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
    encoded_identity = json.dumps(identity, sort_keys=True).encode()
    if path.exists():
        table = pq.read_table(path)
        if (table.schema.metadata or {}).get(b"curro.task") == encoded_identity:
            return table["rate"].to_numpy()
    rates = _measure(task, len(prompts))
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part:
        columns: dict[str, Any] = {"prompt": np.arange(len(rates)), "rate": rates}
        pq.write_table(pa.table(columns, metadata={"curro.task": encoded_identity}), part)
    return rates


def _measure(task: Task, count: int) -> np.ndarray:
    import torch
    from benchmarks.common import sampled_rewards

    from curro.rollout.engines.engine import SamplingSettings
    from curro.training.plan import plan

    prepared = plan(task.settings())
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
