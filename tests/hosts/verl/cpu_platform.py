"""The CPU as a platform of verl, by verl's own registry, for processes that are told `VERL_PLATFORM=cpu`.

verl imports this module where `VERL_USE_EXTERNAL_MODULES` names it.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry

for _name in (
    "memory_allocated",
    "memory_reserved",
    "max_memory_allocated",
    "max_memory_reserved",
    "empty_cache",
):
    setattr(torch.cpu, _name, lambda: 0)  # verl asks every device for these


def _nothing(*_: Any, **__: Any) -> None:
    """What most calls to an accelerator do on a CPU."""


Idle: Any = type("Idle", (PlatformBase,), dict.fromkeys(PlatformBase.__abstractmethods__, _nothing))


@PlatformRegistry.register(platform="cpu")
class PlatformCPU(Idle):
    """What verl asks of an accelerator, answered for the CPU."""

    device_name = "cpu"
    vendor_name = "cpu"
    device_module = torch.cpu
    nvtx_range = staticmethod(nullcontext)

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        return False  # never found by itself

    def current_device(self) -> Any:
        return torch.device("cpu")

    def device_count(self) -> int:
        return 1

    def communication_backend_name(self) -> str:
        return "gloo"

    def ray_resource_name(self) -> str:
        return "CPU"

    def visible_devices_envvar(self) -> str:
        return "CPU_VISIBLE_DEVICES"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None
