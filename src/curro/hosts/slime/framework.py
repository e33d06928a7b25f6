"""slime or miles, whichever runs: both have the same classes under their own name."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from curro.errors import ConfigError

NAMES = ("slime", "miles")


def load(name: str) -> Any:
    """What `name` ("rollout.data_source:RolloutDataSource") is in the framework.

    Raises:
        ConfigError: neither is installed.
    """
    running = [framework for framework in NAMES if framework in sys.modules]
    found = running or [framework for framework in NAMES if find_spec(framework)]
    if not found:
        raise ConfigError("curro.hosts.slime needs slime or miles: install one of them from its source")
    module, _, attribute = name.partition(":")
    return getattr(import_module(f"{found[0]}.{module}"), attribute)
