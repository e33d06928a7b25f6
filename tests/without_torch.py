"""A plugin for pytest: the tests that run with it import no torch, nor what needs it."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from typing import Any

HEAVY = ("accelerate", "datasets", "torch", "transformers", "trl")


class RefuseHeavyImports(MetaPathFinder):
    """Raises where one of `HEAVY` is imported, whether or not it is installed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] in HEAVY:
            raise ImportError(f"{name} is imported by a test that `make fast` runs without it")


sys.meta_path.insert(0, RefuseHeavyImports())
