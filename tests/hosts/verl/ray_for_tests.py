"""Ray, once for all tests of a process: apart, so that its workers need not import verl."""

from __future__ import annotations

import os
from pathlib import Path

import ray


def python_path() -> str:
    """For a process that is to find these modules."""
    return os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])


def start_ray() -> None:
    """Ray, if it does not run yet; in a process that a test starts, the Ray of `RAY_ADDRESS`."""
    if ray.is_initialized():
        return
    os.environ["PYTHONPATH"] = python_path()
    if "RAY_ADDRESS" in os.environ:
        ray.init(log_to_driver=False)
    else:  # its own, whatever else runs on the machine
        ray.init(
            "local", num_cpus=4, include_dashboard=False, log_to_driver=False, object_store_memory=200 * 2**20
        )


def ray_address() -> str:
    """Where the Ray of this process is, for `RAY_ADDRESS` of another."""
    start_ray()
    return ray.get_runtime_context().gcs_address
