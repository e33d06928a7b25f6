"""Ray, once for all tests of a process: apart, so that its workers need not import verl.

`FORKED` in the environment names the command that runs Python in a fork of a process that has imported what
verl needs: programs and Ray's workers are started by it.
"""

from __future__ import annotations

import os
from pathlib import Path

import ray

FORKED = "CURRO_TEST_PYTHON"
STARTS = 20
"""How often to start Ray, which gives its processes 30 seconds to come up, however busy the machine is."""


def forked() -> dict[str, str]:
    """Ray's `runtime_env` whose workers are forked."""
    return {"py_executable": os.environ[FORKED]}


def python_path() -> str:
    """For a process that is to find these modules."""
    return os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])


def start_ray() -> None:
    """Ray, if it does not run yet; in a process that a test starts, the Ray of `RAY_ADDRESS`."""
    if ray.is_initialized():
        return
    os.environ["PYTHONPATH"] = python_path()
    if "RAY_ADDRESS" in os.environ:
        ray.init(log_to_driver=False, runtime_env=forked())
    else:  # its own, whatever else runs on the machine
        own = {"include_dashboard": False, "object_store_memory": 200 * 2**20}
        for _ in range(STARTS):
            try:
                ray.init("local", num_cpus=4, log_to_driver=False, runtime_env=forked(), **own)
                return
            except Exception as error:
                if "timed out during startup" not in str(error):
                    raise
                ray.shutdown()
        raise RuntimeError(f"Ray did not start in {STARTS} attempts")


def ray_address() -> str:
    """Where the Ray of this process is, for `RAY_ADDRESS` of another."""
    start_ray()
    return ray.get_runtime_context().gcs_address
