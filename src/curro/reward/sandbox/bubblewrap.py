"""Bubblewrap: namespaces and mounts in which there is nothing but Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path

from curro.reward.sandbox.limits import MIB, Limits


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


Environment = tuple[tuple[str, str], ...]


def why_not() -> str:
    """Why bubblewrap does not work; "" where it does."""
    if shutil.which("bwrap") is None:
        return "it is not installed (apt install bubblewrap)"
    command = [
        *arguments(Limits(), packages=False, environment=()),
        os.path.realpath(sys.executable),
        "-I",
        "-c",
        "print(7)",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.stdout == "7\n":
        return ""
    return done.stderr.strip()[-300:] or f"a trial ended with status {done.returncode}"


@cache
def arguments(limits: Limits, packages: bool, environment: Environment) -> list[str]:
    """What stands before the command that is to be confined."""
    files = str(limits.files_mib * MIB)
    read = [folder for folder in readable(packages) if os.path.exists(folder)]
    links = [name for name in ("/bin", "/lib", "/lib64", "/sbin") if os.path.islink(name)]
    folders = [name for name in ("/lib", "/lib64") if os.path.isdir(name) and name not in links]
    found = ["bwrap", "--die-with-parent", "--new-session", "--clearenv"]
    found += [f"--unshare-{kind}" for kind in ("ipc", "pid", "net", "uts", "cgroup-try")]
    for parent in sorted({parent for folder in read for parent in Path(folder).parents}):
        found += ["--perms", "0755", "--dir", str(parent)]  # which another user than root may enter
    for folder in [*folders, *read]:
        found += ["--ro-bind", folder, folder]
    for link in links:
        found += ["--symlink", os.readlink(link), link]
    for folder in [] if packages else package_folders():
        found += ["--size", "4096", "--tmpfs", folder, "--remount-ro", folder]
    found += ["--proc", "/proc", "--dev", "/dev", "--size", files, "--tmpfs", "/dev/shm"]
    found += [
        "--size",
        files,
        "--tmpfs",
        "/tmp",
        "--chmod",
        "1777",
        "/tmp",
        "--chmod",
        "1777",
        "/dev/shm",
    ]
    found += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp"]
    for name, value in environment:
        found += ["--setenv", name, value]
    if os.getuid() == 0:  # to become another user, which only root can, and only without a user namespace
        found += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        found += ["--unshare-user"]
    return [*found, "--"]
