"""One process owns the curriculum and tells the others what it decided; each rolls out an equal share."""

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
"""What the owner tells the others: the decision, or that it needs the weights first."""


class MainProcess:
    """The main process decides. The others wait for the decision, and help it to gather split weights.

    Under FSDP2 every process has a part of each weight, and gathering a weight takes all of them. So while
    they wait in `decide`, the owner may use `whole_model`, as often as it has to ask the policy.

    Args:
        accelerator: of this process.
        model: gives the model that is trained, as the accelerator has prepared it.
        is_split: tells whether its weights are split over the processes.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        model: Callable[[], Any] = lambda: None,
        is_split: Callable[[], bool] = lambda: False,
    ) -> None:
        self.accelerator, self._model, self._is_split = accelerator, model, is_split
        self._copy: Any = None

    def decide(self, decision: Callable[[], T]) -> T:
        """What `decision` returns on the main process, on every process; what it raises is raised on all."""
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
        """On the owner, within `decide`: the model with all of its weights.

        Weights that FSDP2 has split are gathered into a plain copy, in the number format in which FSDP2
        computes. Between the calls the copy is kept on the CPU.
        """
        model = self._model()
        if not self._is_split():
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
        """The weights by name, on the owner; the other processes keep nothing of what they help to gather."""
        precision = self.accelerator.state.fsdp_plugin.mixed_precision_policy
        weights: dict[str, torch.Tensor] = {}
        for name, weight in self._model().state_dict().items():
            if isinstance(weight, DTensor):
                dtype = getattr(precision, "param_dtype", None) or weight.dtype
                weight = cast(DTensor, weight.to(dtype)).full_tensor()
            if self.accelerator.is_main_process:
                weights[name] = weight
        return weights


def own_share(accelerator: Accelerator, everyone: Any) -> Any:
    """This process's part of what all processes have in equal parts, one after the other."""
    rank, rows = accelerator.process_index, len(everyone) // accelerator.num_processes
    return everyone[rank * rows : (rank + 1) * rows]
