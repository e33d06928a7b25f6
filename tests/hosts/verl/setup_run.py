"""A run of verl as its `TaskRunnerV1` does it, with the simulated parts, in this process."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import datasets
import ray
import transfer_queue as tq
import verl
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf, open_dict
from ray_for_tests import start_ray
from simulation import Engine, SimulatedParts, StandaloneServers

from curro.hosts.verl.owner import CurriculumClient, CurriculumOwner, start_owner
from curro.hosts.verl.trainer import (
    CurriculumTrainerColocateAsync,
    CurriculumTrainerSeparateAsync,
    CurriculumTrainerSync,
)
from curro.lab import load

CONFIG = str(Path(verl.__file__).parent / "trainer" / "config")
PROMPTS = 24
BATCH, SIZE = 4, 4

SEPARATE = [
    "trainer.v1.trainer_mode=curro_separate_async",
    "trainer.v1.separate_async.parameter_sync_step=2",
    f"actor_rollout_ref.actor.ppo_mini_batch_size={BATCH // 2}",
    "actor_rollout_ref.rollout.nnodes=1",
    "actor_rollout_ref.rollout.n_gpus_per_node=1",
    "actor_rollout_ref.rollout.checkpoint_engine.backend=nccl",
]


class SimulatedSync(SimulatedParts, CurriculumTrainerSync): ...


class SimulatedColocateAsync(SimulatedParts, CurriculumTrainerColocateAsync): ...


class SimulatedSeparateAsync(StandaloneServers, SimulatedParts, CurriculumTrainerSeparateAsync): ...


TRAINERS = {
    "curro_sync": SimulatedSync,
    "curro_colocate_async": SimulatedColocateAsync,
    "curro_separate_async": SimulatedSeparateAsync,
}


@cache
def write_data() -> tuple[list[str], str]:
    """Training rows in two files whose `index` values are equal, and a file of validation rows."""
    folder = Path(tempfile.mkdtemp())

    def rows(numbers: range) -> datasets.Dataset:
        return datasets.Dataset.from_list(
            [
                {
                    "data_source": "sums",
                    "prompt": [{"role": "user", "content": f"problem {number}"}],
                    "reward_model": {"ground_truth": str(number), "style": "rule"},
                    "extra_info": {"index": place},
                    "category": "even" if number % 2 == 0 else "odd",
                    "pass_rate": 1 - number / PROMPTS,
                }
                for place, number in enumerate(numbers)
            ]
        )

    half = PROMPTS // 2
    files = [str(folder / "a.parquet"), str(folder / "b.parquet")]
    rows(range(half)).to_parquet(files[0])
    rows(range(half, PROMPTS)).to_parquet(files[1])
    rows(range(5)).to_parquet(folder / "val.parquet")
    return files, str(folder / "val.parquet")


@cache
def write_model() -> str:
    """A folder with the lab's model for chains, of which a value model is made."""
    folder = tempfile.mkdtemp()
    for part in load("chains"):
        part.save_pretrained(folder)
    return folder


def overrides_of(folder: Path, *overrides: str, steps: int = 4) -> list[str]:
    """The command line of a small run in this folder, with some of it given."""
    files, validation = write_data()
    base = [
        f"data.train_files=[{','.join(files)}]",
        f"data.val_files={validation}",
        f"data.train_batch_size={BATCH}",
        "data.dataloader_num_workers=0",
        f"actor_rollout_ref.rollout.n={SIZE}",
        "actor_rollout_ref.rollout.name=vllm",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4",
        f"actor_rollout_ref.actor.ppo_mini_batch_size={BATCH}",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4",
        "actor_rollout_ref.model.path=/none",
        "algorithm.adv_estimator=grpo",
        f"trainer.total_training_steps={steps}",
        "trainer.logger=[]",
        "trainer.val_before_train=False",
        "trainer.n_gpus_per_node=1",
        "trainer.device=cpu",
        f"trainer.default_local_dir={folder}",
        "trainer.v1.trainer_mode=curro_sync",
        "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
        "+curro.selection=uniform",
    ]
    given = [override.split("=", 1)[0].lstrip("+") for override in overrides]
    kept = [line for line in base if not _is_given(line.split("=", 1)[0].lstrip("+"), given)]
    return [*kept, *overrides]


@cache
def verls_configuration() -> Any:
    """Composed once: it takes hydra a third of a second."""
    with initialize_config_dir(CONFIG, version_base=None):
        return compose("ppo_trainer")


def overridden(composed: Any, lines: Sequence[str]) -> Any:
    """A copy of a configuration with overrides of a command line, as hydra would compose them."""
    config = copy.deepcopy(composed)
    for override in OverridesParser.create().parse_overrides(list(lines)):
        name = override.key_or_group
        if override.is_delete():
            parent, _, key = name.rpartition(".")
            with open_dict(config):
                del OmegaConf.select(config, parent)[key]
        else:
            OmegaConf.update(config, name, override.value(), force_add=override.is_add())
    return config


def configuration(folder: Path, *overrides: str, steps: int = 4) -> Any:
    """verl's own configuration with these overrides."""
    config = overridden(verls_configuration(), overrides_of(folder, *overrides, steps=steps))
    config.transfer_queue.enable = True
    OmegaConf.resolve(config)
    return config


def _is_given(name: str, given: list[str]) -> bool:
    return any(other == name or other.startswith(f"{name}.") for other in given)


@cache
def start_queue() -> None:
    """The queue, once for all runs of a process; every run leaves it empty."""
    start_ray()
    tq.init(configuration(Path(tempfile.mkdtemp()) / "out").transfer_queue)


def clear_queue() -> None:
    for partition, items in (tq.kv_list() or {}).items():
        if items:
            tq.kv_clear(keys=list(items), partition_id=partition)


class Method:
    """A method of an actor in this process; what goes in and comes out is copied as Ray does it."""

    def __init__(self, method: Any) -> None:
        self.method = method

    def remote(self, *arguments: Any, **named: Any) -> ray.ObjectRef:
        arguments, named = ray.get(ray.put((arguments, named)))
        return ray.put(self.method(*arguments, **named))


class LocalActor:
    """An owner's handle whose owner is in this process: a worker of Ray takes seconds to start."""

    def __init__(self, owner: CurriculumOwner) -> None:
        self.owner = owner

    def __getattr__(self, name: str) -> Method:
        return Method(getattr(self.owner, name))


def local_owner(name: str, gpus: float) -> CurriculumClient:
    """As `start_owner`, which starts an actor."""
    return CurriculumClient(LocalActor(CurriculumOwner()))


class Run:
    """A run that has ended: the trainer with its history, and the engine with what it was asked.

    Args:
        actor: whether the owner is an actor of Ray, as in every real run, or in this process.
    """

    def __init__(
        self, config: Any, *, fail: dict[int, int] | None = None, ranks: int = 1, actor: bool = False
    ) -> None:
        self.trainer = TRAINERS[config.trainer.v1.trainer_mode](config)
        start_queue()
        with mock.patch("curro.hosts.verl.trainer.start_owner", start_owner if actor else local_owner):
            self.train(config, fail, ranks, actor)

    def train(self, config: Any, fail: dict[int, int] | None, ranks: int, actor: bool) -> None:
        try:
            self.trainer.ranks = ranks
            self.trainer.replay_buffer.poll_interval = 0.01
            self.trainer.init()
            self.engine = Engine(self.trainer.policy, config.actor_rollout_ref.rollout.n, fail)
            self.before(self.engine)
            self.trainer.fit(self.engine)
            self.state = self.trainer.owner.state_dict()
            self.metrics = self.trainer.owner.metrics()
        finally:
            if actor and hasattr(self.trainer, "owner"):
                ray.kill(self.trainer.owner.actor)
            clear_queue()

    def before(self, engine: Engine) -> None: ...

    @property
    def asked(self) -> list[tuple[int, int]]:
        """(step, number) of every training prompt, in order."""
        return [(step, number) for step, number, _ in self.engine.asked]

    @property
    def history(self) -> list[dict[str, Any]]:
        return self.trainer.history


def groups_of(update: dict[str, Any]) -> dict[str, list[float]]:
    """The advantages of the rollouts in an update of the simulated workers, by the uid of their group."""
    groups: dict[str, list[float]] = {}
    for uid, advantage in update["rollouts"]:
        groups.setdefault(uid, []).append(advantage)
    return groups


def run(folder: Path, *overrides: str, steps: int = 4, **options: Any) -> Run:
    return Run(configuration(folder, *overrides, steps=steps), **options)
