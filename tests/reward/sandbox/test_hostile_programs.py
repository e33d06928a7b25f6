"""Programs that want to do harm: each ends, none leaves anything behind, and the machine goes on.

Every program runs in bubblewrap, and where the kernel has Landlock under that too. A machine on which one of
them does not work fails here, and runs none.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from curro.reward.sandbox import Limits, ProgramNotBegun, ProgramRun, bubblewrap, landlock, program_tests, run
from curro.reward.sandbox import confinement as confinement_module
from curro.reward.sandbox.confinement import BUBBLEWRAP, LANDLOCK, LentUser
from curro.reward.sandbox.run import memory_file

run_module = importlib.import_module("curro.reward.sandbox.run")  # in the package it is the function

LIMITS = Limits(seconds=60.0, memory_mib=256, processes=12, files_mib=4, output_kib=64)


@pytest.fixture(params=[BUBBLEWRAP, LANDLOCK][: 1 + bool(landlock.version())], ids=lambda one: one.name)
def go(request):
    """Runs a program in a confinement."""
    why_not = {"bubblewrap": bubblewrap.why_not, "landlock": landlock.why_not}[request.param.name]
    assert why_not() == ""

    def go(code: str, stdin: bytes = b"", **options: float) -> ProgramRun:
        limits = Limits(**{**vars(LIMITS), **options})
        return run(code, request.param, limits, stdin=stdin)

    go.name = request.param.name
    return go


def alive(marker: str) -> list[str]:
    """The command lines of processes that hold the marker."""
    found = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{number}/cmdline", "rb") as file:
                line = file.read().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if marker in line:
            found.append(line)
    return found


FORKS = """
import os, time
made = 0
try:
    for _ in range(50):
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        made += 1
except OSError:
    pass
print(made)
"""


def test_fifty_forks_stop_at_the_limit(go):
    done = go(FORKS)
    assert done.status == 0
    assert (go.name == "bubblewrap") <= int(done.output) <= 11 * (go.name == "bubblewrap")


def test_a_fork_bomb_ends_with_its_time(go):
    """Run only where fifty forks stop at the limit: the test before this one, called again."""
    test_fifty_forks_stop_at_the_limit(go)
    started = time.monotonic()
    done = go(
        "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass", seconds=2
    )
    assert done.status is None
    assert time.monotonic() - started < 300


@pytest.mark.parametrize(
    "code",
    [
        "x = bytearray(10 << 30)",
        "x = []\nwhile True: x.append(bytearray(1 << 20))",
        "def f(): f()\nimport sys\nsys.setrecursionlimit(10**9)\nf()",
        "open('/tmp/x', 'wb').write(bytes(40 << 20))",
        "for i in range(40): open(f'/dev/shm/{i}', 'wb').write(bytes(1 << 20))",
        "for i in range(40): open(f'/tmp/{i}', 'wb').write(bytes(1 << 20))",
        "open('/tmp/x', 'w').close()\nwith open('/x', 'w'): pass",
        "import os\nos.mkdir('/usr/x')",
        "import os\nos.listdir('/home')",
        "import os\nos.kill(1, 9)\nos.listdir('/root/.ssh')",
        "files = [open('/dev/null') for _ in range(200)]",
        "import socket\nsocket.create_connection(('127.0.0.1', 22), 1)",
        "import socket\nsocket.getaddrinfo('example.org', 80)",
        "import socket\ns = socket.socket(type=socket.SOCK_DGRAM)\ns.sendto(b'x', ('192.0.2.1', 9))",
        "import numpy",
        "import os\nos.setuid(0)",
        "import ctypes\nassert ctypes.CDLL(None).mount(b'none', b'/tmp', b'tmpfs', 0, None) == 0",
    ],
)
def test_what_is_refused_ends_the_program(go, code):
    assert go(code).status != 0


def test_endless_output_is_cut_and_sleep_is_ended(go):
    started = time.monotonic()
    done = go("while True: print('x' * 1000)")
    assert done.status != 0
    assert len(done.output) == 64 * 1024
    assert go("import time\ntime.sleep(3600)", seconds=1).status is None
    assert time.monotonic() - started < 300


def test_it_can_kill_nobody_and_sees_nobody(go):
    code = """
import os, signal
try:
    print(*(name for name in os.listdir('/proc') if name.isdigit() and int(name) >= 10))
except OSError:
    print()
for number in (1, os.getppid(), -1):
    try:
        os.kill(number, signal.SIGKILL)
    except OSError:
        pass
print('still here')
"""
    assert go(code).output.splitlines()[0] == b""


def test_files_of_one_program_are_gone_for_the_next(go, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("42")
    assert go("open('/tmp/left', 'w').write('x')").status == (go.name == "landlock")
    assert go("open('/tmp/left')").status == 1
    assert go(f"open({str(secret)!r})").status == 1
    known = {
        "HOME",
        "LANG",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "PATH",
        "PWD",
        "PYTHONDONTWRITEBYTECODE",
    }
    assert {*go("import os\nprint(*os.environ)").output.decode().split(), "PWD"} == known


@pytest.fixture
def open_to_all():
    """A folder in which everybody may do everything, with a file and a listening socket."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    folder.chmod(0o777)
    (folder / "file").write_text("precious")
    (folder / "file").chmod(0o666)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(folder / "socket"))
    (folder / "socket").chmod(0o777)
    server.listen()
    yield folder
    server.close()
    shutil.rmtree(folder)


ACTS = [
    "open(FILE)",
    "open(FILE, 'w')",
    "os.open(FILE, os.O_RDONLY | os.O_TRUNC)",
    "os.truncate(FILE, 0)",
    "os.chmod(FILE, 0)",
    "os.chown(FILE, os.getuid(), os.getgid())",
    "os.utime(FILE, (0, 0))",
    "os.setxattr(FILE, 'user.x', b'1')",
    "os.unlink(FILE)",
    "os.rename(FILE, FILE + '2')",
    "os.symlink(FILE, FILE + '2')",
    "os.link(FILE, FILE + '2')",
    "os.mkdir(FILE + '2')",
    "os.mkfifo(FILE + '2')",
    "os.listdir(os.path.dirname(FILE))",
    "socket.socket(socket.AF_UNIX).connect(os.path.dirname(FILE) + '/socket')",
    "socket.socketpair(type=socket.SOCK_DGRAM)[0].sendto(b'x', os.path.dirname(FILE) + '/socket')",
    "socket.socketpair()[0].sendmsg([b'x'], [], 0, os.path.dirname(FILE) + '/socket')",
    "os.kill(PARENT, 0)",
    "signal.pidfd_send_signal(os.pidfd_open(PARENT), 0)",
    "os.setpriority(os.PRIO_PROCESS, PARENT, 19)",
    "resource.prlimit(PARENT, resource.RLIMIT_NOFILE, (9, 9))",
    "fcntl.fcntl(0, fcntl.F_SETOWN, PARENT)",
    "os.open(f'/proc/{PARENT}/mem', os.O_RDWR)",
    "os.open(f'/proc/{PARENT}/environ', os.O_RDONLY)",
    "check(libc.ptrace(16, PARENT, 0, 0))",
    "check(libc.shmget(12345, 4096, 0o1666))",
    "check(libc.syscall(425, 8, ctypes.create_string_buffer(120)))",  # io_uring_setup
    "check(libc.unshare(0x10000000))",
    "check(libc.mount(b'none', b'/var', b'tmpfs', 0, None))",
    "check(libc.syscall(56, 0x10000011, 0, 0, 0, 0))",  # clone with a namespace of users
    "check(libc.unshare(0x10020000))",
    "os.memfd_create('x')",
    "check(libc.syscall(447, 0))",  # memfd_secret
    "check(libc.syscall(323, 0))",  # userfaultfd
    "socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)",  # MPTCP, whose queues nothing tells
    "socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)",
    "mmap.mmap(-1, 4096)",  # shared: it stays whole while one page of it is mapped
    "mmap.mmap(os.open('/dev/zero', os.O_RDWR), 4096)",
    "fcntl.fcntl(os.pipe()[0], fcntl.F_SETPIPE_SZ, 1 << 20)",
    "check(libc.inotify_init())",  # 16,384 events of a file's name each that is made and removed
    "check(libc.epoll_create1(0))",  # a file is watched as often as it has had numbers
    "check(libc.syncfs(0))",  # which would write all that the machine has
    "socket.socketpair(type=socket.SOCK_DGRAM)",  # of which one keeps what thousands have sent and closed
]


def test_what_everybody_may_do_is_closed_to_it(go, open_to_all):
    code = f"""
import ctypes, fcntl, mmap, os, resource, signal, socket
FILE, PARENT = {str(open_to_all / "file")!r}, {os.getpid()}
libc = ctypes.CDLL(None)
def check(result):
    if result == -1:
        raise OSError
    if result == 0:
        os._exit(0)
for act in {ACTS}:
    try:
        exec(act)
    except OSError:
        print(act, flush=True)
"""
    done = go(code)
    assert done.output.decode().splitlines() == ACTS
    assert done.status == 0
    assert (open_to_all / "file").read_text() == "precious"
    assert sorted(os.listdir(open_to_all)) == ["file", "socket"]


def test_what_a_program_needs_is_open_to_it(go):
    code = f"""
import asyncio, collections, json, random, subprocess, sys, threading, time, concurrent.futures
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    assert list(pool.map(abs, [-1, 2])) == [1, 2]
assert asyncio.run(asyncio.sleep(0.01, 5)) == 5
if {go.name == "bubblewrap"}:
    assert subprocess.run([sys.executable, '-c', 'print(3)'], capture_output=True).stdout in (b'3\\n', b'')
    assert subprocess.run(['/usr/bin/env', 'true']).returncode == 0
print(random.random() < 1, time.time() > 0, json.dumps([1]))
"""
    assert go(code).output == b"True True [1]\n"


def test_no_memory_is_uncounted_in_a_namespace_of_its_own(go):
    """Root's program too, and after an execv, which gives back no rights."""
    code = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
if len(sys.argv) < 2:
    os.execv(sys.executable, [sys.executable, "-c", SOURCE, "again"])
if libc.unshare(0x10020000) == 0:
    open("/proc/self/setgroups", "w").write("deny")
    open("/proc/self/uid_map", "w").write(f"0 {os.getuid()} 1")
    libc.mount(b"none", b"/tmp", b"tmpfs", 0, b"size=64m")
    with open("/tmp/x", "wb") as file:
        for _ in range(40):
            file.write(bytes(1 << 20))
    print("40 MiB where 4 are allowed")
"""
    assert go(f"SOURCE = {code!r}\n" + code).output == b""


HELD = {
    "processes that each keep to the limit of one": (
        """
for _ in range(8):
    if os.fork() == 0:
        held = bytearray(N << 20)
        end()
for _ in range(8):
    os.wait()
""", 80, 10, {}),
    "threads whose process's first one has ended": (
        """
def work():
    time.sleep(0.5)  # meanwhile the first thread ends, so that /proc says nothing of the process
    kept = bytearray(b"x") * (110 << 20)
    end()
for _ in range(N):
    if not os.fork():
        break
threading.Thread(target=work).start()
ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)
""", 2, 0, {}),
    "pages far from each other, which cost two pages of tables each": (
        """
map = ctypes.CDLL(None).mmap
map.restype = ctypes.c_void_p
map.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
for place in range(1 << 44, (1 << 44) + 60_000 * N, N):
    ctypes.string_at(map(place, 4096, 1, 0x22, -1, 0), 1)
""", 1 << 30, 8192, {"memory_mib": 400}),
    "pairs of sockets of many processes, 12 MB each": (
        """
for _ in range(N - 1):
    if not os.fork():
        break
pairs = []
try:
    while True:
        pairs.append(socket.socketpair())
        for side in pairs[-1]:
            side.setblocking(False)
            try:
                while True:
                    side.send(bytes(1 << 15))
            except BlockingIOError:
                pass
except OSError:
    pass
""", 12, 1, {"memory_mib": 128}),
    "connections of a network of its own, after its last child has ended": (
        """
if not os.fork():
    os._exit(0)  # and is not waited for
server = socket.create_server(("127.0.0.1", 0))
pairs = []
for _ in range(N):
    sender = socket.create_connection(server.getsockname())
    pairs.append((sender, server.accept()[0]))
    sender.setblocking(False)
    for _ in range(200):
        try:
            sender.send(bytes(1 << 16))
        except BlockingIOError:
            time.sleep(0.001)
""", 28, 2, {"memory_mib": 80, "processes": 3}),
    "empty files": (
        """
for number in range(N):
    os.close(os.open("/tmp/%d" % number, os.O_CREAT | os.O_WRONLY))
""", 400_000, 1_000, {"memory_mib": 80, "processes": 3}),
    "empty files, after its last child has ended": (
        """
if not os.fork():
    os._exit(0)
for number in range(N):
    os.close(os.open("/tmp/%d" % number, os.O_CREAT | os.O_WRONLY))
""", 400_000, 1_000, {"memory_mib": 80, "processes": 3}),
}  # fmt: skip
"""What no limit of a process counts: a program, with how much it is ended and with how little it goes on."""


@pytest.mark.parametrize("what", HELD)
def test_all_that_a_program_holds_counts_as_memory(go, what):
    code, many, few, limits = HELD[what]
    if go.name == "landlock" and any(needed in code for needed in ("fork", "127.0.0.1", "/tmp")):
        return  # it has no processes, no network and no folder there
    start = """
import ctypes, os, socket, threading, time
def end():
    time.sleep(300 if N == MANY else 1)
    os.write(1, b"all of it ")
    os._exit(0)
"""
    start = start.replace("MANY", str(many))
    assert go(f"N = {many}{start}{code}\nend()", seconds=600.0, **limits) == ProgramRun(None, b"")
    assert set(go(f"N = {few}{start}{code}\nend()", **limits).output.split(b" ")) >= {b"all"}


def test_no_memory_is_kept_in_queues_of_sockets(go):
    """A program cannot make a socket hold more than is counted for it."""
    code = """
import os, socket, time
sent = 0
try:
    while True:
        pair = socket.socketpair()
        globals().setdefault("pairs", []).append(pair)
        for side, buffer in ((pair[0], socket.SO_SNDBUF), (pair[1], socket.SO_RCVBUF)):
            try:
                side.setsockopt(socket.SOL_SOCKET, buffer, 1 << 23)
            except PermissionError:
                pass
        pair[0].setblocking(False)
        try:
            while True:
                sent += pair[0].send(bytes(1 << 16))
        except BlockingIOError:
            pass
except OSError:
    pass
print(sent >> 20)
"""
    assert 0 < int(go(code).output) < 32


@pytest.mark.parametrize(
    ("code", "many", "few"),
    [
        ("file = open('x', 'w')\nfor i in range(N): fcntl.lockf(file, fcntl.LOCK_EX, 1, 2 * i)",
         3000, 300),
        ("servers = [socket.create_server(('127.0.0.1', 0), backlog=4000) for _ in range(8)]\n"
         "for i in range(N): socket.create_connection(servers[i // 3500].getsockname()).close()",
         25_000, 300),
        ("server = socket.create_server(('127.0.0.1', 0))\n"
         "sender = socket.create_connection(server.getsockname())\n"
         "for _ in range(N): sender.send(b'x', 0x80)", 1, 0),  # MSG_EOR: a buffer of its own for each byte
    ],
)  # fmt: skip
def test_locks_and_connections_count_as_memory(code, many, few):
    limits = Limits(seconds=60.0, memory_mib=80, processes=3, files_mib=4)
    code = f"import fcntl, socket, time\n{code}\nif N > 1000: time.sleep(300)\nprint('all of it')"
    assert run(f"N = {many}\n{code}", BUBBLEWRAP, limits).output == b""
    assert run(f"N = {few}\n{code}", BUBBLEWRAP, limits).output == b"all of it\n"


@pytest.fixture
def bubblewrap_is(tmp_path, monkeypatch):
    """Puts a script of the shell in the place of bubblewrap, which the script finds as $bwrap."""
    bwrap = shutil.which("bwrap")

    def put(script: str) -> None:
        path = tmp_path / "bwrap"
        path.write_text(f"#!/bin/sh\nbwrap={bwrap}\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        bubblewrap.arguments.cache_clear()

    yield put
    bubblewrap.arguments.cache_clear()


def test_files_of_others_are_not_counted_while_bubblewrap_starts():
    """It has not mounted folders of its own yet, and a process sees those of the machine."""
    with subprocess.Popen(["sleep", "600"]) as process:
        assert run_module._entries([process.pid]) == 0
        process.kill()


@pytest.fixture
def clock(monkeypatch):
    """The seconds by which the clock of whoever waits for programs is ahead, as a list of one number."""
    ahead = [0.0]
    later = SimpleNamespace(monotonic=lambda: time.monotonic() + ahead[0])
    monkeypatch.setattr(run_module, "time", later)
    return ahead


def test_the_start_of_bubblewrap_takes_nothing_of_a_program_s_time(
    bubblewrap_is, clock, tmp_path, monkeypatch
):
    start = run_module.start

    def start_slowly(*arguments, **options):
        started = start(*arguments, **options)
        while not (tmp_path / "here").exists():
            time.sleep(0.01)
        (tmp_path / "here").unlink()
        clock[0] += 40.0
        (tmp_path / "go").touch()
        return started

    bubblewrap_is(
        f'touch {tmp_path}/here\nwhile [ ! -e {tmp_path}/go ]; do sleep 0.01; done\nexec $bwrap "$@"'
    )
    for module in (run_module, program_tests):
        monkeypatch.setattr(module, "start", start_slowly)
    limits = Limits(seconds=30.0)
    asserts = ["assert f(1) == 2", "assert f(1) == 3"]
    assert program_tests.run_asserts("def f(x): return x + 1", asserts, BUBBLEWRAP, limits) == [True, False]


def test_a_program_that_ended_in_time_counts_however_late_it_is_looked_at(go, clock, monkeypatch):
    def look_late(program):
        os.waitid(os.P_PID, program.process.pid, os.WEXITED | os.WNOWAIT)
        clock[0] += 1000.0
        return False

    monkeypatch.setattr(run_module, "_holds_too_much", look_late)
    assert go("import time; time.sleep(1); print(7)", seconds=60.0) == ProgramRun(0, b"7\n")


@pytest.mark.parametrize(("waited", "sleeps", "status"), [(0.0, 3600, None), (1000.0, 1, 0)])
def test_time_in_which_a_program_waited_for_a_processor_is_not_its_own(
    go, clock, monkeypatch, waited, sleeps, status
):
    looks = iter([5.0, 5.0 + waited])
    monkeypatch.setattr(run_module, "_waited", lambda started, seconds: next(looks))

    def look(program):
        clock[0] = 700.0  # after the program's time, and before that with its wait
        return False

    monkeypatch.setattr(run_module, "_holds_too_much", look)
    assert go(f"import time; time.sleep({sleeps})", seconds=300.0).status == status


def test_the_wait_for_a_processor_is_known_and_none_where_it_is_for_the_program_itself():
    """Two that compute share one processor."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    with memory_file() as nothing:
        options = {"stdin": nothing, "stdout": nothing, "packages": False}
        both = [run_module.start("while True: pass", BUBBLEWRAP, LIMITS, **options) for _ in range(2)]
        try:
            while not all(run_module._waited([program], 1000.0) > 0.05 for program in both):
                time.sleep(0.01)
            assert run_module._waited(both, 1000.0) > 0.1
            assert run_module._waited(both, 0.0) == 0.0
        finally:
            os.sched_setaffinity(0, before)
            run_module.end(both)


def test_a_program_that_could_not_begin_has_not_failed(bubblewrap_is):
    bubblewrap_is("exit 1")
    with pytest.raises(ProgramNotBegun, match=r"^the process of a program ended before it began$"):
        run("print(7)", BUBBLEWRAP, LIMITS)
    with pytest.raises(ProgramNotBegun):
        program_tests.run_asserts("def f(x): return x", ["assert f(1) == 1"], BUBBLEWRAP, LIMITS)


def test_a_program_that_does_not_come_to_its_beginning_is_ended(bubblewrap_is, clock, monkeypatch):
    bubblewrap_is("exec sleep 3600")
    monkeypatch.setattr(run_module, "START_SECONDS", 0.2)
    with pytest.raises(ProgramNotBegun, match=r"^a program had not begun after 0.2 s$"):
        run("print(7)", BUBBLEWRAP, LIMITS)


@pytest.mark.skipif(os.getuid() != 0, reason="programs of an ordinary user have no users of their own")
def test_no_two_programs_on_the_machine_have_one_user_at_a_time(go):
    """The kernel would count the processes of both against the limit of each."""
    code = "import os; print(os.getuid())"
    lent = LentUser()
    try:
        elsewhere = subprocess.run(
            [sys.executable, "-c", f"import os; os.getpid = lambda: {os.getpid()}\n{LENT}"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert lent.number > 60000
        assert lent.number not in (int(go(code).output), int(elsewhere.stdout))
    finally:
        lent.give_back()
    for _ in range(1000):  # more than there are
        LentUser().give_back()


def test_a_forked_process_keeps_no_user_of_its_parent_s_programs(monkeypatch):
    """There is one user, of whom no other process on the machine knows."""
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setattr(confinement_module, "_USERS", range(100_000 + os.getpid(), 100_001 + os.getpid()))
    lent = LentUser()
    with pytest.raises(OSError, match=r"^1 programs run on this machine$"):
        LentUser()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, b"1")
        time.sleep(3600)
    try:
        assert os.read(reader, 1) == b"1"
        lent.give_back()
        again = LentUser()
        assert again.number == lent.number
        again.give_back()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)


def test_the_user_of_a_program_that_does_not_end_is_lent_to_no_other(monkeypatch):
    """Something holds the program's pipe, as a process does that cannot be killed. There is one user."""
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setattr(confinement_module, "_USERS", range(200_000 + os.getpid(), 200_001 + os.getpid()))
    monkeypatch.setattr(run_module, "END_SECONDS", 0.0)
    (begun, begin), (ended, held) = os.pipe(), os.pipe()
    process = subprocess.Popen([sys.executable, "-S", "-c", ""], start_new_session=True)
    run_module.end([run_module.Started(process, LentUser(), begun, ended, LIMITS, has_folder=False)])
    with pytest.raises(OSError, match=r"^1 programs run on this machine$"):
        LentUser()
    run_module._never_given_back.pop().give_back()
    process.wait()
    os.close(begin)
    os.close(held)


def test_a_program_that_cannot_be_started_leaves_no_file_open(monkeypatch):
    def refuse(*arguments, **options):
        raise BlockingIOError("no more processes")

    LentUser().give_back()  # what is opened once
    gc.collect()  # which would close what earlier tests have left
    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(run_module.subprocess, "Popen", refuse)
    with pytest.raises(ProgramNotBegun, match=r"^a program could not be started \(no more processes\)$"):
        run("print(7)", BUBBLEWRAP, LIMITS)
    with pytest.raises(ProgramNotBegun):
        program_tests.run_asserts("def f(x): return x", ["assert f(1) == 1"], BUBBLEWRAP, LIMITS)
    assert len(os.listdir("/proc/self/fd")) == before


LENT = "from curro.reward.sandbox.confinement import LentUser; print(LentUser().number)"


def test_orphans_that_have_ended_take_no_place_of_living_processes():
    code = """
import os, time
for _ in range(100):
    while True:
        try:
            child = os.fork()
            break
        except OSError:
            time.sleep(0.01)
    if child == 0:
        try:
            os.fork()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
print("done")
"""
    assert run(code, BUBBLEWRAP, LIMITS).output == b"done\n"


# what only shows for an ordinary user, who shares his limits with all else that he does


SCRIPT = """
import json, os, sys
from curro.reward.sandbox import Limits, run
from curro.reward.sandbox.confinement import BUBBLEWRAP, LANDLOCK, LIMITS
from curro.reward.sandbox.run import finish
confinement = {{one.name: one for one in (BUBBLEWRAP, LANDLOCK, LIMITS)}}[{name!r}]
done = run({code!r}, confinement, Limits(seconds=60.0, memory_mib=256, processes=12, files_mib=4))
print(json.dumps([done.status, done.output.decode()]))
"""
NOBODY = 65534


@pytest.fixture(params=["bubblewrap", *(["landlock"] if landlock.version() else []), "limits"])
def go_as_nobody(request):
    """Runs a program in a confinement as an ordinary user; a system's Python that he may read does it."""

    def go(code: str) -> tuple[int | None, str]:
        environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": "src", "SECRET": "precious"}
        script = SCRIPT.format(name=request.param, code=code)
        user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
        done = subprocess.run(
            ["/usr/bin/python3", "-c", script],
            env=environment,
            capture_output=True,
            text=True,
            timeout=900,
            **user,
        )
        assert done.stderr == ""
        status, output = json.loads(done.stdout)
        return status, output

    go.name = request.param
    return go


def test_a_program_never_sees_the_trainer_s_environment(go_as_nobody):
    code = """
import os
print("precious" in os.environ.get("SECRET", ""))
try:
    print(b"precious" in open("/proc/1/environ", "rb").read())
except OSError:
    print(False)
"""
    assert go_as_nobody(code) == (0, "False\nFalse\n")


THREADS = """
import subprocess, sys, threading
def work():
    subprocess.run([sys.executable, '-S', '-c', 'pass'], check=True)
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("all done")
"""
MANY_THREADS = """
import threading, time
threading.stack_size(1 << 16)  # of which the limit of memory would let thousands be
for _ in range(40):
    threading.Thread(target=time.sleep, args=(300,), daemon=True).start()
time.sleep(5)
"""


def test_processes_of_the_user_s_own_take_none_of_a_program_s(go_as_nobody):
    user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
    others = [subprocess.Popen(["/usr/bin/sleep", "300"], **user) for _ in range(40)]
    try:
        is_bubblewrap = go_as_nobody.name == "bubblewrap"
        work = "subprocess.run([sys.executable, '-S', '-c', 'pass'], check=True)"
        code = THREADS if is_bubblewrap else THREADS.replace(work, "pass")
        assert go_as_nobody(code) == (0, "all done\n")
        assert go_as_nobody(MANY_THREADS)[0] != 0
        status, made = go_as_nobody(FORKS)
        assert status == 0
        assert is_bubblewrap <= int(made) <= 11 * is_bubblewrap
    finally:
        for other in others:
            other.kill()
            other.wait()


def test_nothing_outlives_a_program_that_leaves_its_group(go_as_nobody):
    marker = f"marker{os.getpid()}."
    code = (
        "import os\nif os.fork() == 0:\n    try:\n        os.setsid()\n    except OSError:\n        pass\n"
        f"    if os.fork() == 0:\n        os.execv('/usr/bin/sleep', ['{marker}', '300'])\n    os._exit(0)\n"
        "os.wait()\n"
    )
    assert go_as_nobody(code) == (0 if go_as_nobody.name == "bubblewrap" else 1, "")
    assert alive(marker) == []


def test_it_sends_the_trainer_no_signal(go_as_nobody):
    """Not without a sandbox either: it could stop or kill the trainer."""
    code = """
import os, signal
parent = os.getppid()
for number in {parent, os.getpgid(parent) if parent > 1 else 0, -1} - {0}:
    for what in (signal.SIGSTOP, signal.SIGKILL):
        try:
            os.kill(number, what)
        except OSError:
            pass
print("still here")
"""
    if go_as_nobody.name == "bubblewrap":
        code = code.replace("-1} - {0}", "1} - {0}")  # all that it can see there is itself
    assert go_as_nobody(code) == (0, "still here\n")


@pytest.mark.parametrize("name", ["bubblewrap", *(["landlock"] if landlock.version() else [])])
def test_python_below_the_folder_for_temporary_files(name, tmp_path, monkeypatch):
    """As with an environment in /tmp: what is readable there is, and nothing beside it."""
    home = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        (home / "lib").mkdir()
        (home / "lib" / "file").write_text("of Python's own")
        (home / "beside").write_text("precious")
        for path in (home, home / "lib"):
            path.chmod(0o755)
        before = bubblewrap.readable(False)
        for module in (bubblewrap, landlock):
            monkeypatch.setattr(module, "readable", lambda packages: [*before, str(home / "lib")])
        bubblewrap.arguments.cache_clear()
        landlock.rules_inside.cache_clear()
        confinement = {one.name: one for one in (BUBBLEWRAP, LANDLOCK)}[name]
        assert (
            run(f"print(open('{home}/lib/file').read())", confinement, LIMITS).output == b"of Python's own\n"
        )
        assert run(f"open('{home}/beside')", confinement, LIMITS).status == 1
    finally:
        bubblewrap.arguments.cache_clear()
        landlock.rules_inside.cache_clear()
        shutil.rmtree(home)


def test_of_conda_s_base_no_other_environment_is_readable(tmp_path, monkeypatch):
    base = tmp_path / "conda"
    for folder in ("bin", "lib/python3.11/site-packages", "envs/other/lib/python3.11/site-packages", "pkgs"):
        (base / folder).mkdir(parents=True)
    monkeypatch.setattr(sys, "base_prefix", str(base))
    monkeypatch.setattr(sys, "prefix", str(base))
    for packages in (False, True):
        own = [path for path in bubblewrap.readable(packages) if path.startswith(str(tmp_path))]
        assert own == [f"{base}/{part}" for part in ("bin", "lib", "lib64")]
    assert f"{base}/lib/python3.11/site-packages" in bubblewrap.package_folders()
