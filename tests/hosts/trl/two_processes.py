"""Run by `torchrun`: the scripts `two_processes_NAME.py`, each with a folder NAME as its argument."""

import runpy
import sys
from pathlib import Path

NAMES = ("groups", "episodes", "metis")

base = Path(sys.argv[1])
for name in NAMES:
    folder = base / name
    folder.mkdir(exist_ok=True)
    sys.argv = [name, str(folder)]
    runpy.run_path(str(Path(__file__).with_name(f"two_processes_{name}.py")))
