"""Runs a script under FSDP2 on the CPU: `accelerate launch ... fsdp_on_cpu.py SCRIPT ARGUMENTS`.

accelerate splits weights on accelerators alone; PyTorch's FSDP2 itself also works over gloo.
"""

from __future__ import annotations

import runpy
import sys
from typing import Any

import torch
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedType

_begin = AcceleratorState.__init__


def _with_fsdp(self: AcceleratorState, *args: Any, fsdp_plugin: Any = None, **options: Any) -> None:
    _begin(self, *args, fsdp_plugin=fsdp_plugin, **options)
    if fsdp_plugin is not None:
        if self._mixed_precision != "no":
            fsdp_plugin.set_mixed_precision(self._mixed_precision)
        self.fsdp_plugin = fsdp_plugin
    if getattr(self, "fsdp_plugin", None) is not None:
        self.distributed_type = DistributedType.FSDP


AcceleratorState.__init__ = _with_fsdp
torch.set_num_threads(1)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
