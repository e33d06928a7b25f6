"""Scripts in two processes of torch.distributed, as a user would start it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.forks import python

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


def under_fsdp2(*words: str, folder: Path, precision: str = "bf16") -> None:
    """Run a script with arguments in two processes on the CPU, with the recipes' configuration for FSDP2.

    Args:
        folder: the working directory.
        precision: of accelerate's autocast.
    """
    config = ["--config_file", str(REPOSITORY / "recipes" / "trl" / "fsdp.yaml"), "--num_processes", "2"]
    config += ["--main_process_port", "0"]  # a free one: by default it is the same for all
    on_cpu = str(Path(__file__).with_name("fsdp_on_cpu.py"))
    command = [python(), "-m", "accelerate.commands.launch", *config, "--mixed_precision", precision]
    succeed([*command, on_cpu, *words], folder)


def _run(folder: Path) -> None:
    command = [python(), "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    succeed([*command, str(Path(__file__).with_name("two_processes.py")), str(folder)], REPOSITORY)


def succeed(command: list[str], folder: Path) -> None:
    """Run a command in a folder."""
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": f"{REPOSITORY / 'src'}:{REPOSITORY}:{REPOSITORY / 'recipes'}",
    }
    environment |= {"PYTHON_EXEC": python()}  # what torch.distributed.run starts the processes with
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=3600, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
