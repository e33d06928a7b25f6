"""A run that kills itself after the step CURRO_TEST_KILL; arguments: folder, overrides."""

import sys
from pathlib import Path

from setup_run import run

run(Path(sys.argv[1]), *sys.argv[2:], steps=5, actor=True)
