"""METIS on two processes: the second loss is (9) over all auxiliary samples, however they are shared out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]


def test_the_gradient_of_both_processes_together_is_that_of_equation_9(tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": f"{REPOSITORY / 'src'}:{REPOSITORY}"}
    script = [str(REPOSITORY / "tests" / "hosts" / "trl" / "two_processes_metis.py"), str(tmp_path)]
    done = subprocess.run(
        command + script, env=environment, capture_output=True, text=True, timeout=300, cwd=REPOSITORY
    )
    assert done.returncode == 0, done.stdout + done.stderr
    owner, other = (json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(2))
    assert len(owner) == 8
    for name, found in owner.items():
        assert found["weights"] == other[name]["weights"], name
        assert other[name]["auxiliary_samples"] == 0, "the curriculum is the owner's"
        assert found["auxiliary_samples"] >= 4, name
        assert found["size"] > 0.01, name
        assert found["error"] < 1e-3 * found["size"], name
        assert found["logged"], name
