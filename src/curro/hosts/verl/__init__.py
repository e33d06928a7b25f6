"""curro in verl: trainer modes whose prompts are chosen by a curriculum, found by verl as a plugin.

Tested with verl 0.9.1, Ray 2.60, transformers 5.10 and PyTorch 2.13 on a CPU with Python 3.11.
"""

import sys
from importlib.metadata import PackageNotFoundError, version

from curro.core.errors import ConfigError


def _check_verl() -> None:
    """Refuse a missing verl, which `pip install '.[verl]'` leaves out on Python 3.13, and older ones.

    verl 0.8 has neither plugins nor the trainers that curro's are subclasses of.
    """
    try:
        has = f"this is {version('verl')}"
        is_known = tuple(map(int, version("verl").split(".")[:2])) >= (0, 9)
    except PackageNotFoundError:
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        has, is_known = f"none is installed (it takes Python 3.10 to 3.12, and this is {python})", False
    if not is_known:
        raise ConfigError(f"curro.hosts.verl needs verl 0.9.1 or later, and {has}: see docs/verl.md")


_check_verl()
