"""One process owns the curriculum and tells the others what it decided; each rolls out an equal share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from accelerate import Accelerator
from accelerate.utils import broadcast_object_list

T = TypeVar("T")


def on_owner(accelerator: Accelerator, decide: Callable[[], T]) -> T:
    """What `decide` returns on the main process, on every process; what it raises is raised on all."""
    outcome: list[object] = [None, None]
    if accelerator.is_main_process:
        try:
            outcome[0] = decide()
        except Exception as error:
            if accelerator.num_processes == 1:
                raise
            outcome[1] = error
    if accelerator.num_processes > 1:
        broadcast_object_list(outcome)
    if isinstance(outcome[1], Exception):
        raise outcome[1]
    return outcome[0]  # type: ignore[return-value]


def own_share(accelerator: Accelerator, everyone: Any) -> Any:
    """This process's part of what all processes have in equal parts, one after the other."""
    rank, rows = accelerator.process_index, len(everyone) // accelerator.num_processes
    return everyone[rank * rows : (rank + 1) * rows]
