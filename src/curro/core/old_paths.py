"""Keep the import paths of version 0.2 for one release: `curro.selection.base` is `curro.core.bases`."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
import warnings
from collections.abc import Sequence
from types import ModuleType

_CORE = (
    "curriculum", "prompts", "tickets", "groups", "verdicts", "meters", "policy", "errors", "configuration",
    "loading", "registry", "text", "intervals",
)  # fmt: skip

MOVED = {
    **{f"curro.{name}": f"curro.core.{name}" for name in _CORE},
    "curro.selection.base": "curro.core.bases",
    "curro.admission.gate": "curro.core.bases",
    "curro.advantage.base": "curro.core.bases",
    "curro.allocation.base": "curro.core.bases",
    "curro.prediction.base": "curro.core.bases",
    "curro.selection": "curro.methods.selection",
    "curro.admission": "curro.methods.admission",
    "curro.advantage": "curro.methods.advantage",
    "curro.allocation": "curro.methods.allocation",
    "curro.prediction": "curro.methods.prediction",
    "curro.index": "curro.methods.index",
    "curro.environments.bfcl": "curro.contrib.bfcl",
    "curro.reward.function_calls": "curro.contrib.bfcl.function_calls",
    "curro.environments": "curro.reward.environments",
    "curro.evaluation": "curro.training.evaluation",
    "curro.report": "curro.runs.report",
    "curro.watch": "curro.contrib.watch",
    "curro.serve": "curro.contrib.serve",
    "curro.hosts.tinker": "curro.contrib.tinker",
    "curro.hosts.slime": "curro.contrib.slime",
    "curro.hosts.prime_rl": "curro.contrib.prime_rl",
    "curro.hosts.trinity": "curro.contrib.trinity",
    "curro.hosts.trl.asynchronous": "curro.contrib.trl_async",
}
"""Old path: new path. The longest old path that a name begins with decides."""


def new_path(name: str) -> str | None:
    """Where a module of version 0.2 is now; None where it has not moved."""
    parts = name.split(".")
    for n in range(len(parts), 1, -1):
        if (moved := MOVED.get(".".join(parts[:n]))) is not None:
            return ".".join([moved, *parts[n:]])
    return None


class _Alias(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import the new module under its old name, with a warning.

    The finder comes first: a package that has moved still has its `__path__`, by which the next finder would
    run its files a second time under their old names.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith("curro.") or new_path(fullname) is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        path = new_path(spec.name) or spec.name
        warnings.warn(
            f"{spec.name} has moved to {path}; the old path works in this release only",
            DeprecationWarning,
            stacklevel=2,
        )
        module = importlib.import_module(path)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module back its own spec; it has already run under its new name."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


def install() -> None:
    """Make the old paths importable."""
    if not any(isinstance(finder, _Alias) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Alias())
