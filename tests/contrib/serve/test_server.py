"""A real server, killed and started again while clients ask."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import warnings
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest

from curro import Curriculum
from curro.contrib import loopback
from curro.contrib.serve import ServedCurriculum, run
from curro.contrib.serve.application import Service
from curro.contrib.serve.command import read_config
from curro.contrib.serve.run import token_of
from curro.contrib.serve.saved import SavedCurriculum
from curro.core.errors import ConfigError, CurroError, ExhaustedError


def config_at(folder, **settings):
    lines = {"folder": str(folder / "live"), "prompts": 400} | settings
    text = "".join(f"{name} = {value!r}\n" for name, value in lines.items())
    path = folder / "serve.toml"
    path.write_text(text + '[curriculum]\nselection = "prioritized-replay"\nseed = 3\n')
    return path


@contextmanager
def server(config, *options):
    """A server that answers; ended in order unless the test has killed it."""
    command = [sys.executable, "-m", "curro", "serve", str(config), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            said = process.stdout.readline()
            assert " prompts at " in said, process.stderr.read()
            yield process, said.split(" prompts at ")[1].split(";")[0]
        finally:
            process.terminate()
            process.wait(600)


def rewards(prompts):
    return np.array([[float((prompt + place) % 3 == 0) for place in range(4)] for prompt in prompts.tolist()])


def test_killed_under_load_no_ticket_is_given_twice_and_none_counts_twice(tmp_path):
    """Three clients; the server is killed three times meanwhile, and comes back at the same port."""
    config, port_number, addresses = config_at(tmp_path), "0", []
    given: list[list[int]] = [[], [], []]
    said: list[str] = []
    stop, moved = threading.Event(), threading.Semaphore(0)
    in_order, steps = threading.Lock(), itertools.count()

    def work(tickets):
        port = ServedCurriculum(addresses[0], token_of(tmp_path / "live"), patience=600)
        while not stop.is_set():
            with in_order:  # steps only grow
                step = next(steps)
                draw = port.select(3, step=step)
            tickets.extend(draw.tickets.tolist())
            if step % 4:
                port.observe(draw.tickets, rewards(draw.prompts))
            else:
                port.drop(draw.tickets)
            moved.release()

    threads = [threading.Thread(target=work, args=(tickets,)) for tickets in given]
    (tmp_path / "live").mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_: said.append(str(message))
        try:
            for start in range(4):
                with server(config, "--port", port_number) as (process, address):
                    addresses.append(address)
                    port_number = address.rpartition(":")[2]
                    if not start:
                        for thread in threads:
                            thread.start()
                    for _ in range(30):
                        assert moved.acquire(timeout=900)
                    if start < 3:
                        process.send_signal(signal.SIGKILL)
                        process.wait(600)
                        continue
                    stop.set()
                    for thread in threads:
                        thread.join(600)
                    metrics = ServedCurriculum(address, token_of(tmp_path / "live")).metrics()
        finally:
            stop.set()
    assert len(set(addresses)) == 1
    tickets = [ticket for client in given for ticket in client]
    assert len(set(tickets)) == len(tickets)
    assert metrics["selected"] == metrics["observed"] + metrics["dropped"] + metrics["in_flight"]
    assert metrics["selected"] <= len(tickets)
    assert 3 <= len(said) <= 9  # each client once a restart that it has met


def test_a_served_curriculum_draws_what_one_here_draws(tmp_path):
    config = config_at(tmp_path)
    twin = Curriculum("prioritized-replay", 400, seed=3)
    with server(config, "--port", "0") as (process, address):
        port = ServedCurriculum(address, token_of(tmp_path / "live"), patience=600)
        for step in range(4):
            draw, expected = port.select(8, step=step), twin.select(8, step=step)
            for name, values in vars(expected).items():
                np.testing.assert_array_equal(getattr(draw, name), values)
            ours = port.observe(draw.tickets, rewards(draw.prompts), named={"a": rewards(draw.prompts)})
            theirs = twin.observe(expected.tickets, rewards(expected.prompts))
            for name, values in vars(theirs).items():
                np.testing.assert_array_equal(getattr(ours, name), values)
                assert getattr(getattr(ours, name), "dtype", None) == getattr(values, "dtype", None)
            np.testing.assert_array_equal(port.credit(ours), twin.credit(theirs))
        with pytest.raises(ExhaustedError):
            port.select(401, step=4)
        with pytest.raises(CurroError):
            port.observe([0], [[np.inf]])
        port.save("here")
        port.load("here")
        assert port.metrics()["in_flight"] == 0
        process.terminate()
        assert process.wait(600) == 0
    assert (tmp_path / "live" / "state.npz").exists()


def test_a_client_without_a_server_gives_up_in_time(tmp_path):
    port = ServedCurriculum("http://127.0.0.1:1", "token", patience=0.05)
    sentence = r"service at http://127.0.0.1:1 gave no reply for 0.05 seconds \(.*refused\): start it again"
    with pytest.raises(ConnectionError, match=sentence):
        port.select(1, step=0)
    with pytest.raises(ConfigError):
        ServedCurriculum("ftp://here", "token")


def test_a_client_of_a_server_that_hangs_gives_up_in_time():
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        address = f"http://127.0.0.1:{hanging.getsockname()[1]}"
        with pytest.raises(TimeoutError, match=f"service at {address} gave no reply for 0.05 seconds"):
            ServedCurriculum(address, "token", patience=0.05).metrics()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("= 3", "TOML"),
        ("prompts = 3\n[curriculum]\n", "`folder`"),
        ("prompts = 3\nfolder = 'x'", r"\[curriculum\]"),
        ("folder = 'x'\n[curriculum]\n", "either `data` or `prompts`"),
        ("prompts = 3\nlimit = 2\nfolder = 'x'\n[curriculum]\n", "'limit', which is for `data`"),
        ("prompts = 3\nfolder = 'x'\nspeed = 2\n[curriculum]\n", "'speed'"),
        ("folder = 'x'\ndata = 'd'\nkey_colum = 'k'\n[curriculum]\n", "did you mean 'key_column'"),
        ('prompts = 3\nfolder = "\\u0000"\n[curriculum]\n', "`folder` is a path"),
    ],
)
def test_a_wrong_file_gets_one_sentence(tmp_path, text, words):
    path = tmp_path / "serve.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words):
        read_config(path)


@pytest.mark.parametrize("selection", ["metis", "pcl", "uniform"])
def test_a_file_may_name_data_and_a_method_that_asks_the_policy_is_not_served(tmp_path, selection):
    path = tmp_path / "serve.toml"
    path.write_text(
        f"data = 'lab:chains'\nlimit = 70\nfolder = 'x'\n[curriculum]\nselection = '{selection}'\n"
    )
    if selection == "uniform":
        folder, curriculum = read_config(path)
        assert (folder.name, curriculum.table.size) == ("x", 70)
    else:
        with pytest.raises(ConfigError, match="asks the policy"):
            read_config(path)


@pytest.mark.parametrize("kind", ["device", "link", "pipe", "folder", "readable", "empty", "täken"])
def test_a_token_that_others_may_know_is_refused(tmp_path, kind):
    token = tmp_path / "token"
    if kind == "pipe":
        os.mkfifo(token, 0o600)
    elif kind in ("device", "link"):
        token.symlink_to("/dev/zero" if kind == "device" else "/etc/hostname")
    elif kind == "folder":
        token.mkdir(0o700)
    else:
        token.write_text("" if kind == "empty" else kind)
        token.chmod(0o644 if kind == "readable" else 0o600)
    with pytest.raises(ConfigError, match="remove it, and the next start makes a token"):
        token_of(tmp_path)


def test_whoever_holds_all_connections_open_keeps_nobody_out(tmp_path, monkeypatch):
    monkeypatch.setattr(loopback, "STRANGERS", 20)
    with serving(tmp_path) as address, contextlib.ExitStack() as opened:
        connect = partial(socket.create_connection, address, timeout=600)
        half = [opened.enter_context(connect()) for _ in range(50)]
        assert [connection.recv(1) for connection in half[:30]] == [b""] * 30
        assert answer(address, b"GET / HTTP/1.1\r\n" + TOKEN + b"\r\n").startswith(b"HTTP/1.1 200 ")


@contextmanager
def serving(folder):
    """The address of a server in this process, whose token is `secret`."""
    saved = SavedCurriculum(Curriculum("uniform", 5), folder / "live")
    with run.CurriculumServer(0, Service(saved, "secret")) as here:
        thread = threading.Thread(target=here.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield here.server_address
        finally:
            here.shutdown()
            thread.join()
            saved.close()


def answer(address, request):
    """Everything that is sent back before the connection is closed."""
    with socket.create_connection(address, timeout=600) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


TOKEN = b"Authorization: Bearer secret\r\n"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\n" + TOKEN + b"\r\n", 200),
        (b"GET /metrics HTTP/1.1\r\nAuthorization: Bearer wrong\r\n\r\n", 401),
        (b"GET /metrics HTTP/1.1\r\nAuthorization: Bearer s\xc3\xa9cret\r\n\r\n", 401),
        (b"POST /select HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 401),
        (b"POST /select HTTP/1.1\r\nContent-Length: 99999999999\r\n" + TOKEN + b"\r\n", 413),
        (b"POST /select HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n" + TOKEN + b"\r\n", 413),
        (b"POST /select HTTP/1.1\r\nContent-Length: -1\r\n" + TOKEN + b"\r\n", 411),
        (b"POST /select HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + TOKEN + b"\r\n", 411),
        (b"POST /select HTTP/1.1\r\n" + TOKEN + b"\r\n", 400),
        (b"\0 no request\r\n\r\n", 400),
        (b"DELETE / HTTP/1.1\r\n\r\n", 501),
        (b"GET / HTTP/9.9\r\n\r\n", 505),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", 414),
    ],
)
def test_what_comes_over_the_wire_is_answered_and_logged_nowhere(tmp_path, capfd, request_bytes, status):
    with serving(tmp_path) as address:
        assert b" %d " % status in answer(address, request_bytes).partition(b"\r\n")[0] + b" "
    assert capfd.readouterr().err == ""
