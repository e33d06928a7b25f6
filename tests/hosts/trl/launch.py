"""Scripts in two processes of torch.distributed, as a user would start it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[3]


def in_two_processes(made_once: Callable[[str, Callable[[Path], object]], Path], name: str) -> list[Any]:
    """What each of two ranks wrote with `two_processes_NAME.py`, in `rankN.json` of its folder.

    All scripts run one after the other, once for all tests: starting two processes takes longer.
    """
    folder = folder_of(made_once, name)
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)]


def folder_of(made_once: Callable[[str, Callable[[Path], object]], Path], name: str) -> Path:
    """What `two_processes_NAME.py` wrote."""
    return made_once("two_processes", _run) / name


def _run(folder: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": f"{REPOSITORY / 'src'}:{REPOSITORY}"}
    done = subprocess.run(
        [*command, str(Path(__file__).with_name("two_processes.py")), str(folder)],
        env=environment, capture_output=True, text=True, timeout=300, cwd=REPOSITORY,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
