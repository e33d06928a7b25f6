"""Python programs without the ten seconds of importing torch: forks of a process that has imported it.

`python()` is a command like `sys.executable`, for programs whose process is not what is tested: arguments,
working directory, environment, open files, signals and exit status are those of a process of its own. Only
modules that are imported already, by `PRELOAD` or another file, do not read the environment again. One
process serves all workers of a test run and ends with it.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import json
import os
import runpy
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

CLIENT = """\
#!{interpreter} -IS
import json, os, signal, socket, sys

def receive():
    line = b""
    while not line.endswith(b"\\n"):
        part = server.recv(1)
        if not part:
            sys.exit("the process that forks has ended")
        line += part
    return int(line)

FORWARDED = signal.SIGINT, signal.SIGTERM
signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    program = {{"words": {words!r} + sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}}
    socket.send_fds(server, [b"-"], [0, 1, 2])
    server.sendall(json.dumps(program).encode() + b"\\n")
    process = receive()
    for number in FORWARDED:
        signal.signal(number, lambda number, frame: os.kill(process, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    status = receive()
if status < 0:
    if -status != signal.SIGKILL:
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
"""
PROGRAMS = {
    "python": [],
    "curro": ["-c", "from curro.cli import main; main()"],
    "transformers": ["-c", "from transformers.cli.transformers import main; main()"],
}


PRELOAD = Path(__file__).parents[1] / "src" / "curro" / "cli" / "preload.py"


@functools.cache
def commands(preload: Path = PRELOAD) -> Path:
    """A folder with the commands of `PROGRAMS`; what they run is forked where `preload` was run.

    All callers of a test run give the same file.
    """
    worker = "PYTEST_XDIST_WORKER" in os.environ
    name = os.environ["PYTEST_XDIST_TESTRUNUID"] if worker else uuid.uuid4().hex
    folder = Path(tempfile.gettempdir()) / f"forks-{name}"
    if folder.exists():
        return folder
    made = Path(tempfile.mkdtemp(prefix="forks-"))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(made / "socket"))
        listener.listen(64)
        for name, words in PROGRAMS.items():
            file = made / name
            text = CLIENT.format(interpreter=sys.executable, address=str(folder / "socket"), words=words)
            file.write_text(text)
            file.chmod(0o700)
        try:
            made.rename(folder)
        except OSError:  # another worker was first
            shutil.rmtree(made)
            return folder
        os.set_inheritable(listener.fileno(), True)
        run = os.getppid() if worker else os.getpid()
        arguments = [
            sys.executable,
            "-P",
            __file__,
            str(folder),
            str(listener.fileno()),
            str(run),
            str(preload),
        ]
        closed = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1)]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        os.posix_spawn(sys.executable, arguments, environment, file_actions=closed)
    return folder


def python(preload: Path = PRELOAD) -> str:
    """The command that runs a Python program in a fork."""
    return str(commands(preload) / "python")


class Forked:
    """In place of a `multiprocessing.Process` of `curro.cli.side_by_side`, whose server would import anew."""

    def __init__(self, target: Callable[..., None], args: tuple[str, ...]) -> None:
        self._text = (
            f"import os\nos.setsid = lambda: None  # as the fork has done\n"
            f"from {target.__module__} import {target.__name__}\n{target.__name__}(*{args!r})"
        )

    def start(self) -> None:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        self._process = subprocess.Popen([python(), "-c", self._text], env=environment)
        self.pid, self.join = self._process.pid, self._process.wait

    def is_alive(self) -> bool:
        return self.exitcode is None

    @property
    def exitcode(self) -> int | None:
        return self._process.poll()


class Program:
    """A program that a client asks for, and its process.

    Attributes:
        words: of the command line, without the interpreter.
        files: descriptors of its standard input, output and error.
    """

    def __init__(self, client: socket.socket) -> None:
        self.client = client
        _, self.files, _, _ = socket.recv_fds(client, 1, 3)
        with client.makefile("rb") as lines:
            asked = json.loads(lines.readline())
        self.words, self.folder, self.environment = (
            asked[name] for name in ("words", "folder", "environment")
        )

    def tell(self, number: int) -> None:
        """Send the client a number, unless it was killed meanwhile."""
        with suppress(OSError):
            self.client.sendall(b"%d\n" % number)

    def enter(self) -> None:
        """Become the program's process."""
        os.setsid()
        for number, file in enumerate(self.files):
            os.dup2(file, number)
            os.close(file)
        self.client.close()
        os.environ.clear()
        os.environ.update(self.environment)
        os.chdir(self.folder)
        while self.words[0] == "-u":
            del self.words[0]
        kind = self.words[0]
        first = {"-m": self.folder, "-c": ""}.get(kind, str(Path(kind).absolute().parent))
        own = [entry for entry in self.environment.get("PYTHONPATH", "").split(os.pathsep) if entry]
        sys.path[:] = [first, *own, *sys.path]
        sys.argv = self.words[1:] if kind == "-m" else ["-c", *self.words[2:]] if kind == "-c" else self.words
        if any((Path(entry) / "sitecustomize.py").exists() for entry in own):
            sys.modules.pop("sitecustomize", None)
            importlib.import_module("sitecustomize")


def serve(listener: socket.socket, run: int) -> Program:
    """Fork for all who ask, until the process `run` has ended; returns in each fork, with its program."""
    running: dict[int, tuple[Program, int]] = {}
    with selectors.DefaultSelector() as selector:
        ended = os.pidfd_open(run)
        selector.register(ended, selectors.EVENT_READ)
        selector.register(listener, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if selector.get_map().get(key.fd) is not key:
                    continue  # its program ended by an event before this one
                if key.fileobj == ended:
                    for _, process in running.values():
                        os.kill(process, signal.SIGKILL)
                    raise SystemExit
                if key.fileobj is listener:
                    try:
                        program = Program(listener.accept()[0])
                    except (OSError, ValueError):  # the client was killed before it had asked
                        continue
                    process = os.fork()
                    if process == 0:
                        break
                    program.tell(process)
                    for file in program.files:
                        os.close(file)
                    watch = os.pidfd_open(process)
                    running[watch] = (program, process)
                    selector.register(watch, selectors.EVENT_READ)
                    selector.register(program.client, selectors.EVENT_READ, process)
                elif key.data is not None:  # the client was killed
                    selector.unregister(key.fileobj)
                    os.kill(key.data, signal.SIGKILL)
                else:
                    program, process = running.pop(key.fd)
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    _, status = os.waitpid(process, 0)
                    if program.client in selector.get_map():
                        selector.unregister(program.client)
                    program.tell(os.waitstatus_to_exitcode(status))
                    program.client.close()
            else:
                continue
            break
    listener.close()
    for watch, (other, _) in running.items():
        os.close(watch)
        other.client.close()
    return program


def main() -> list[str]:
    """Serve, and return in each fork with the words of what to run there."""
    folder, listener, run, preload = sys.argv[1:]
    runpy.run_path(preload)
    try:
        program = serve(socket.socket(fileno=int(listener)), int(run))
    except SystemExit:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    program.enter()
    return program.words


def run(words: list[str]) -> None:
    """A module after -m, a text after -c, or a script, as `__main__`."""
    if words[0] == "-m":
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        runpy.run_path(words[0], run_name="__main__")


def status_of(words: list[str]) -> int:
    """Run a program to its end; what it raises is reported as Python does it."""
    try:
        run(words)
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return stop.code or 0
        print(stop.code, file=sys.stderr)
        return 1
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    return 0


if __name__ == "__main__":
    status = status_of(main())
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)  # Python would take half a second to take all modules apart
