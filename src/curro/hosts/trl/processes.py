"""The main process owns the curriculum and decides; every process rolls out an equal share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list
from torch.distributed.tensor import DTensor

from curro.core.errors import ConfigError

T = TypeVar("T")

_DECIDED, _GATHER = "decided", "gather"
"""What the main process tells the others: the decision, or that it needs the weights first."""


class MainProcess:
    """Decides on the main process. The others wait for the decision, and help to gather split weights.

    Under FSDP2 every process has a part of each weight, and gathering a weight takes all of them. While they
    wait in `decide`, the main process may use `whole_model`, as often as it has to ask the policy.

    Args:
        host: the trainer, of which the accelerator and the model as that has prepared it are used.
    """

    def __init__(self, host: Any) -> None:
        self._host, self.accelerator = host, host.accelerator
        self._copy: Any = None

    def decide(self, decision: Callable[[], T]) -> T:
        """Call `decision` on the main process; return its result, or raise its error, on every process."""
        if self.accelerator.num_processes == 1:
            return decision()
        outcome: list[Any] = [_DECIDED, None, None]
        if self.accelerator.is_main_process:
            try:
                outcome[1] = decision()
            except Exception as error:
                outcome[2] = error
        broadcast_object_list(outcome)
        while outcome[0] == _GATHER:
            self._gather()
            broadcast_object_list(outcome)
        if outcome[2] is not None:
            raise outcome[2]
        return outcome[1]

    @contextmanager
    def whole_model(self) -> Iterator[Any]:
        """Give the main process, within `decide`, the model with all of its weights.

        Weights that FSDP2 has split are gathered into a plain copy, in the number format in which FSDP2
        computes. Between the calls the copy is kept on the CPU.
        """
        model = self._host.model_wrapped
        if not (self._host.is_fsdp_enabled or self._host.is_deepspeed_enabled):
            yield model
            return
        if not self.accelerator.is_fsdp2 or hasattr(model, "peft_config"):
            raise ConfigError(
                "the main process answers for the policy and needs all of its weights: train with FSDP2 "
                "(`fsdp_version: 2` in accelerate's configuration, as recipes/trl/fsdp.yaml has it) and "
                "without adapters, with DDP, or with one process; not with DeepSpeed or FSDP1"
            )
        broadcast_object_list([_GATHER, None, None])
        weights = self._gather()
        if self._copy is None:
            with torch.random.fork_rng():
                self._copy = type(model)(model.config)  # makes an object of the class without FSDP
        self._copy.load_state_dict(weights, assign=True)
        self._copy.tie_weights()
        try:
            yield self._copy.to(self.accelerator.device)
        finally:
            self._copy.to("cpu")

    def _gather(self) -> dict[str, torch.Tensor]:
        """Gather the weights by name for the main process; the others keep nothing of them."""
        precision = self.accelerator.state.fsdp_plugin.mixed_precision_policy
        weights: dict[str, torch.Tensor] = {}
        for name, weight in self._host.model_wrapped.state_dict().items():
            if isinstance(weight, DTensor):
                dtype = getattr(precision, "param_dtype", None) or weight.dtype
                weight = cast(DTensor, weight.to(dtype)).full_tensor()
            if self.accelerator.is_main_process:
                weights[name] = weight
        return weights


def own_share(accelerator: Accelerator, everyone: Any) -> Any:
    """Cut this process's equal part from what all processes have, one after the other."""
    rank, rows = accelerator.process_index, len(everyone) // accelerator.num_processes
    return everyone[rank * rows : (rank + 1) * rows]
