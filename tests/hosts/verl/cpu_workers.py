"""verl's own actor workers in processes on the CPU: FSDP over gloo, and a tiny model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ray
import torch
import transfer_queue as tq
from simulation import SimulatedParts
from verl.single_controller.base.decorator import Dispatch, register
from verl.single_controller.ray import RayClassWithInitArgs, RayResourcePool, RayWorkerGroup
from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp import transformer_impl
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead
from verl.workers.engine_workers import ActorRolloutRefWorker

from curro.hosts.verl.trainer import CurriculumTrainerColocateAsync, CurriculumTrainerSync
from curro.lab.model import build_model, build_tokenizer

EngineRegistry.register("language_model", "fsdp2", device="cpu")(FSDPEngineWithLMHead)

# of a reference model: verl pins its memory, which only a machine with an accelerator can
_offload = transformer_impl.CPUOffloadPolicy
transformer_impl.CPUOffloadPolicy = lambda pin_memory: _offload(pin_memory=False)


class CPUWorker(ActorRolloutRefWorker):
    """verl would ask for the backend "cpu:gloo,cpu:gloo", which PyTorch refuses."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        torch.distributed.init_process_group("gloo")

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def init_model(self) -> None:
        super().init_model()
        self.before = self._weights()

    def _weights(self) -> torch.Tensor:
        """This process's share of the weights, as they are trained."""
        part = self.actor or self.ref
        shares = [
            getattr(weight, "to_local", lambda weight=weight: weight)()
            for weight in part.engine.module.parameters()
        ]
        return torch.cat([share.detach().float().flatten() for share in shares]).clone()

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def renew(self, config: Any) -> None:
        """Start again with another configuration: a process takes ten seconds to import all that it needs."""
        ActorRolloutRefWorker.__init__(self, config=config, role=self.role)
        self.init_model()

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def changed(self) -> tuple[float, float]:
        """The share of the weights that have changed since the start, and the norm of the change."""
        change = self._weights() - self.before
        return (change != 0).float().mean().item(), change.norm().item()


def start_workers(config: Any, ranks: int, role: str = "actor") -> RayWorkerGroup:
    """The worker group of an actor, or of a reference model."""
    made = RayClassWithInitArgs(ray.remote(CPUWorker), config=config.actor_rollout_ref, role=role)
    pool = RayResourcePool([ranks], use_gpu=False, max_colocate_count=1)
    environment = {"VERL_PLATFORM": "cpu", "VERL_USE_EXTERNAL_MODULES": "cpu_platform"}
    group = RayWorkerGroup(pool, made, device_name="cpu", worker_env=environment)
    group.init_model()
    return group


def stop_workers(group: RayWorkerGroup) -> None:
    """End the processes and give back their share of Ray's processors."""
    for worker in group.workers:
        ray.kill(worker)
    for placement in group.resource_pool.pgs:
        ray.util.remove_placement_group(placement)


_kept: dict[tuple[int, str], RayWorkerGroup] = {}


def kept_workers(config: Any, ranks: int, role: str) -> RayWorkerGroup:
    """As `start_workers`, in processes that later runs with as many ranks take over, until `stop_kept`."""
    for other in [key for key in _kept if key[0] != ranks]:
        stop_workers(_kept.pop(other))
    if (ranks, role) in _kept:
        _kept[ranks, role].renew(config.actor_rollout_ref)
    else:
        _kept[ranks, role] = start_workers(config, ranks, role)
    return _kept[ranks, role]


def stop_kept() -> None:
    """Leave Ray's processors to what comes next."""
    while _kept:
        stop_workers(_kept.popitem()[1])


class CPUParts(SimulatedParts):
    """Rollouts are simulated; the actor is verl's own.

    Attributes:
        batches: what the workers were given in each step.
    """

    def _setup(self) -> None:
        super()._setup()
        self.actor_rollout_wg = kept_workers(self.config, self.ranks, "actor")
        self.ref_in_actor = False
        if self.use_reference_policy:
            self.ref_policy_wg = kept_workers(self.config, self.ranks, "ref")
        self.batches: list[Any] = []

    def _update_actor(self, batch: Any, metrics: dict[str, Any]) -> Any:
        self.batches.append(tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id))
        return super()._update_actor(batch, metrics)


class CPUSync(CPUParts, CurriculumTrainerSync): ...


class CPUAsync(CPUParts, CurriculumTrainerColocateAsync): ...


def save_model(folder: Path) -> Path:
    """A model with random weights, whose tokens include those of the simulated rollouts."""
    torch.manual_seed(0)
    tokenizer = build_tokenizer()
    for part in (build_model(tokenizer, width=32, layers=1), tokenizer):
        part.save_pretrained(folder)
    return folder


FLOAT32 = "{param_dtype:fp32,reduce_dtype:fp32,buffer_dtype:fp32}"


def on_cpu(model: Path) -> list[str]:
    """Overrides of verl's configuration, for a model on the CPU."""
    parts = [f"actor_rollout_ref.{part}" for part in ("actor", "ref")]
    return [
        f"actor_rollout_ref.model.path={model}",
        "actor_rollout_ref.model.use_remove_padding=False",
        "+actor_rollout_ref.model.override_config.attn_implementation=eager",
        *(f"{part}.strategy=fsdp2" for part in parts),
        *(f"{part}.fsdp_config.strategy=fsdp2" for part in parts),
        *(f"{part}.use_torch_compile=False" for part in parts),
        *(f"{part}.fsdp_config.use_torch_compile=False" for part in parts),
    ]


def overrides(model: Path) -> list[str]:
    """`on_cpu`, in 32 bits with a large learning rate."""
    actor = "actor_rollout_ref.actor"
    return [*on_cpu(model), f"+{actor}.fsdp_config.mixed_precision={FLOAT32}", f"{actor}.optim.lr=1e-3"]
