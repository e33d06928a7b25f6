"""verl's own actor workers in processes on the CPU: FSDP over gloo, and a tiny model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ray
import torch
import transfer_queue as tq
from simulation import SimulatedParts
from verl.single_controller.ray import RayClassWithInitArgs, RayResourcePool, RayWorkerGroup
from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead
from verl.workers.engine_workers import ActorRolloutRefWorker

from curro.hosts.verl.trainer import CurriculumTrainerSync
from curro.lab.model import build_model, build_tokenizer

EngineRegistry.register("language_model", "fsdp2", device="cpu")(FSDPEngineWithLMHead)


class CPUWorker(ActorRolloutRefWorker):
    """verl would ask for the backend "cpu:gloo,cpu:gloo", which PyTorch refuses."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        torch.distributed.init_process_group("gloo")


def start_workers(config: Any, ranks: int) -> RayWorkerGroup:
    """The worker group of an actor."""
    made = RayClassWithInitArgs(ray.remote(CPUWorker), config=config.actor_rollout_ref, role="actor")
    pool = RayResourcePool([ranks], use_gpu=False, max_colocate_count=1)
    environment = {"VERL_PLATFORM": "cpu", "VERL_USE_EXTERNAL_MODULES": "cpu_platform"}
    group = RayWorkerGroup(pool, made, device_name="cpu", worker_env=environment)
    group.init_model()
    return group


def stop_workers(group: RayWorkerGroup) -> None:
    """End the processes and give back their place in Ray."""
    for worker in group.workers:
        ray.kill(worker)
    for place in group.resource_pool.pgs:
        ray.util.remove_placement_group(place)


class CPUSync(SimulatedParts, CurriculumTrainerSync):
    """Rollouts are simulated; the actor is verl's own.

    Attributes:
        batches: what the workers were given in each step.
    """

    def _setup(self) -> None:
        super()._setup()
        self.actor_rollout_wg = start_workers(self.config, self.ranks)
        self.batches: list[Any] = []

    def _update_actor(self, batch: Any, metrics: dict[str, Any]) -> Any:
        self.batches.append(tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id))
        return super()._update_actor(batch, metrics)


def save_model(folder: Path) -> Path:
    """A model with random weights, whose tokens include those of the simulated rollouts."""
    torch.manual_seed(0)
    tokenizer = build_tokenizer()
    for part in (build_model(tokenizer, width=32, layers=1), tokenizer):
        part.save_pretrained(folder)
    return folder


def overrides(model: Path) -> list[str]:
    """Of verl's configuration, for a model on the CPU in 32 bits."""
    actor, precision = "actor_rollout_ref.actor", "{param_dtype:fp32,reduce_dtype:fp32,buffer_dtype:fp32}"
    return [
        f"actor_rollout_ref.model.path={model}",
        "actor_rollout_ref.model.use_remove_padding=False",
        "+actor_rollout_ref.model.override_config.attn_implementation=eager",
        f"{actor}.strategy=fsdp2",
        f"{actor}.fsdp_config.strategy=fsdp2",
        f"{actor}.use_torch_compile=False",
        f"{actor}.fsdp_config.use_torch_compile=False",
        f"+{actor}.fsdp_config.mixed_precision={precision}",
        f"{actor}.optim.lr=1e-3",
    ]
