"""`python -m curro`."""

import os
import sys

if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:
    # `python -m` puts the working directory first, where a run from elsewhere may have a `matplotlib.py`
    del sys.path[0]

from curro.cli import main

main()
