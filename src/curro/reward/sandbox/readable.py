"""What a program may read."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path


def readable(packages: bool) -> list[str]:
    """The interpreter, its library and those of the system; other packages only where they are asked for."""
    paths = ["/usr", "/etc/ld.so.cache", sys.base_prefix]
    return [*dict.fromkeys([*paths, *([sys.prefix] if packages else [])])]


def package_folders() -> list[str]:
    """Where other packages lie within what is readable: they may hold data sets and their answers."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    found = [sysconfig.get_path("purelib", vars={"base": sys.base_prefix, "platbase": sys.base_prefix})]
    found += [f"{base}/lib/{name}/{kind}-packages" for base in ("/usr", "/usr/local", sys.base_prefix)
              for name in (version, "python3") for kind in ("site", "dist")]  # fmt: skip
    return [*dict.fromkeys(folder for folder in found if Path(folder).is_dir())]
