"""A run that kills itself after the step CURRO_TEST_KILL; arguments: method, folder, overrides."""

import sys
from pathlib import Path

from setup_run import run

method, folder, *overrides = sys.argv[1:]
run(Path(folder), *overrides, steps=5, actor=method == "metis")
