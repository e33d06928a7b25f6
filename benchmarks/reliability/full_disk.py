"""A disk that is full at every write of a run: one sentence, and what was saved before is resumed from.

    python -m benchmarks.reliability.full_disk              # 15 minutes; as root, or with user namespaces

`curro train` runs in a file system in memory that has room for so many bytes, or for so many files, and no
more: for every file that the run makes, and for many amounts in between. A run that fails has to end with one
sentence, no traceback. Then the disk is given room, and the run goes on with `--resume`, or is started anew
where not even its settings were saved; it has to end equal to one that always had room, byte for byte.
Likewise a folder that becomes read-only, and a full /tmp. All of it happens in a namespace of its own: no
other process sees these file systems, and they end with this one.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

os.environ.setdefault("OMP_NUM_THREADS", "1")

import typer
from benchmarks.reliability.kills import in_child

NEW_FILES, NEW_USERS = 0x00020000, 0x10000000
REMOUNT, READ_ONLY, PRIVATE = 0x20, 0x1, 0x4_0000 | 0x4000
ROOM = 1 << 30
ARGUMENTS = ["--data", "lab:chains", "--limit", "10", "--prompts-per-step", "2", "--rollouts", "32",
             "--eval-prompts", "2", "--eval-every", "0", "--save-every", "1"]  # fmt: skip
_libc = ctypes.CDLL(None, use_errno=True)


def enter_namespace() -> None:
    """File systems that are mounted from here on are this process's own. Before any thread is started."""
    user, group = os.getuid(), os.getgid()
    if _libc.unshare(NEW_FILES | (NEW_USERS if user else 0)):
        raise OSError(ctypes.get_errno(), "this machine lends no namespace: run as root")
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    mount("none", Path("/"), "", PRIVATE, "")


def mount(source: str, mounted: Path, kind: str, flags: int, options: str) -> None:
    if _libc.mount(source.encode(), bytes(mounted), kind.encode(), flags, options.encode()):
        raise OSError(ctypes.get_errno(), f"{mounted} cannot be mounted with {options!r}")


def disk(mounted: Path, size: int = ROOM, files: int = 100_000, flags: int = 0) -> None:
    """Room for so many bytes and files; what is there stays."""
    options = f"size={size},nr_inodes={files}"
    mount("tmpfs", mounted, "tmpfs", flags | (REMOUNT if os.path.ismount(mounted) else 0), options)


def used(mounted: Path) -> tuple[int, int]:
    """Bytes and files that are there."""
    now = os.statvfs(mounted)
    return (now.f_blocks - now.f_bfree) * now.f_frsize, now.f_files - now.f_ffree


def begin(arguments: list[str], log: Path) -> int:
    """`curro` in a process of its own, with its words in a new log; returns its number."""

    def program() -> None:
        sys.argv = ["curro", *arguments]
        from curro.cli import main

        main()

    log.unlink(missing_ok=True)
    return in_child(program, log)


def ended(number: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


def result(run: Path) -> tuple[bytes, bytes]:
    return (run / "groups.jsonl").read_bytes(), (run / "model" / "model.safetensors").read_bytes()


def one_sentence(said: str) -> str:
    """Say what is wrong with a command's end; "" if it is one sentence."""
    lines = [line for line in said.splitlines() if line.startswith("curro: ")]
    if "Traceback" in said:
        return "it ended with a traceback"
    return "" if len(lines) == 1 else f"it said {len(lines)} sentences"


class Cases:
    """Runs on a disk that fails, and what became of each."""

    def __init__(self, disk_path: Path, log: Path) -> None:
        self.disk_path, self.log, self.run = disk_path, log, disk_path / "run"
        self.full_tmp = disk_path.with_name("tmp")
        self.full_tmp.mkdir()
        self.wrong = self.failed = self.resumed = self.anew = 0
        disk(disk_path)
        marks = [used(disk_path)]
        number = begin(["train", *ARGUMENTS, "--out", str(self.run)], log)
        while not (done := os.waitpid(number, os.WNOHANG))[0]:
            if (now := used(disk_path)) != marks[-1]:
                marks.append(now)
            time.sleep(0.0005)
        if done[1]:
            raise RuntimeError(f"the run with room failed:\n{log.read_text()[-3000:]}")
        self.expected = result(self.run)
        self.sizes = sorted({size for size, _ in marks})
        self.files = max(files for _, files in marks)
        self.clean()

    def clean(self) -> None:
        disk(self.disk_path)
        shutil.rmtree(self.run, ignore_errors=True)

    def attempt(self, name: str, fail: Callable[[], None]) -> None:
        """A run on a disk that `fail` makes worse, and its end once there is room."""
        self.clean()
        fail()
        status = ended(begin(["train", *ARGUMENTS, "--out", str(self.run)], self.log))
        wrong = ""
        if status:
            self.failed += 1
            wrong = one_sentence(self.log.read_text())
            disk(self.disk_path)
            wrong = wrong or self.go_on()
        elif result(self.run) != self.expected:
            wrong = "it ended with another result"
        print(f"{name}: {'failed, and went on' if status else 'had room'}", flush=True)
        if wrong:
            self.wrong += 1
            print(f"{name}: {wrong}\n{self.log.read_text()[-1500:]}", flush=True)

    def fill_tmp(self) -> None:
        """Nothing can be written to the folder for temporary files."""
        mount("tmpfs", self.full_tmp, "tmpfs", 0, "size=4096,nr_inodes=1")
        os.environ["TMPDIR"] = str(self.full_tmp)
        tempfile.tempdir = None

    def go_on(self) -> str:
        if (self.run / "config.json").exists():
            self.resumed += 1
            arguments = ["--resume", str(self.run)]
        else:
            self.anew += 1
            arguments = [*ARGUMENTS, "--out", str(self.run)]
        if ended(begin(["train", *arguments], self.log)):
            return f"it did not go on by {arguments[0]}"
        return "" if result(self.run) == self.expected else "it went on to another result"


def main(
    sizes: Annotated[int, typer.Option(help="So many amounts of room.")] = 40,
    files: Annotated[int, typer.Option(help="So many numbers of files; 0: all.")] = 0,
) -> None:
    """Fill the disk of a run at every write."""
    enter_namespace()
    import curro.cli.train
    import curro.training.run  # noqa: F401 - imported once, before the forks

    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        disk_path, log = Path(folder) / "disk", Path(folder) / "log"
        disk_path.mkdir()
        cases = Cases(disk_path, log)
        rooms = cases.sizes[:: max(1, len(cases.sizes) // sizes)]
        numbers = range(2, cases.files + 1, max(1, cases.files // files) if files else 1)
        for room in rooms:
            cases.attempt(f"room for {room} bytes", lambda room=room: disk(disk_path, size=max(room, 4096)))
        for number in numbers:
            cases.attempt(f"room for {number} files", lambda number=number: disk(disk_path, files=number))
        cases.attempt("read-only", lambda: disk(disk_path, flags=READ_ONLY))
        cases.attempt("a full /tmp", cases.fill_tmp)
        print(
            f"{len(rooms)} amounts of room, {len(numbers)} numbers of files, read-only, a full /tmp: "
            f"{cases.failed} runs failed, of which {cases.resumed} were resumed and {cases.anew} started "
            f"anew; {cases.wrong} went wrong; {time.monotonic() - begun:.0f} s"
        )
        for mounted in (disk_path, cases.full_tmp):
            _libc.umount2(bytes(mounted), 2)
    raise SystemExit(1 if cases.wrong else 0)


if __name__ == "__main__":
    typer.run(main)
