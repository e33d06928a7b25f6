"""A run whose node dies in step 3, and one that continues on the other node; arguments: folder, overrides.

Ray's cluster has two nodes on this machine. `resumed.json` in the folder is what the second run asked for,
and what its curriculum counted.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import ray
from ray.cluster_utils import Cluster
from ray.util import list_named_actors
from ray_for_tests import forked, python_path

folder, *overrides = sys.argv[1:]
os.environ["PYTHONPATH"] = python_path()
# Ray writes down there where the latest cluster is, and other processes' `ray.init()` would connect to it
os.environ["RAY_TMPDIR"] = tempfile.mkdtemp()


@ray.remote(num_cpus=1, max_retries=0)
def train(wait: str) -> dict[str, Any]:
    """What verl's TaskRunner does; the owner is on the node of this task."""
    os.environ["CURRO_TEST_WAIT"] = wait
    from setup_run import run

    done = run(Path(folder), *overrides, steps=5, actor=True)
    return {
        "asked": done.asked,
        "skill": done.trainer.policy.skill,
        "counts": {name: done.metrics[name] for name in ("selected", "observed", "dropped", "in_flight")},
        "visits": done.state["table"]["visits"].tolist(),
    }


NODE = {"num_cpus": 3, "object_store_memory": 150 * 2**20}
# Ray asks each node twice a second, and waits ten seconds for a slow one's answer
HEALTH = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500}
cluster = Cluster()
cluster.add_node(**NODE, include_dashboard=False, resources={"first": 1}, _system_config=HEALTH)
ray.init(address=cluster.address, log_to_driver=False, runtime_env=forked())
second = cluster.add_node(**NODE, resources={"second": 1})

cut = train.options(resources={"second": 1}).remote("3")
while not (Path(folder) / "waits").exists():
    if ray.wait([cut], timeout=0.2)[0]:
        ray.get(cut)  # raises: it ended before the third step
cluster.remove_node(second, allow_graceful=False)
try:
    ray.get(cut)
    sys.exit("the first run ended, although its node was killed")
except ray.exceptions.RayError:
    pass
while list_named_actors(all_namespaces=True):  # of the dead run: the owner, the queue
    time.sleep(0.1)
resumed = ray.get(train.options(resources={"first": 1}).remote(""))
(Path(folder) / "resumed.json").write_text(json.dumps(resumed))
ray.shutdown()
cluster.shutdown()
