"""A script in two processes of torch.distributed, as a user would start it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[3]


def in_two_processes(script: str, folder: Path) -> list[Any]:
    """Run a script that lies here with `folder` as its argument; what each rank wrote there."""
    run_two_processes(script, folder)
    return of_both_ranks(folder)


def of_both_ranks(folder: Path) -> list[Any]:
    """What each rank wrote into the folder, `rankN.json`."""
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)]


def run_two_processes(script: str, folder: Path) -> None:
    """Run a script that lies here with `folder` as its argument."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": f"{REPOSITORY / 'src'}:{REPOSITORY}"}
    done = subprocess.run(
        [*command, str(Path(__file__).with_name(script)), str(folder)],
        env=environment, capture_output=True, text=True, timeout=300, cwd=REPOSITORY,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
