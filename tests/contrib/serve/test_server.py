"""A real server, killed and started again while clients ask."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager

import numpy as np
import pytest
import uvicorn

from curro import Curriculum
from curro.contrib.serve import ServedCurriculum, run
from curro.contrib.serve.application import Service
from curro.contrib.serve.run import ServeSettings, token_of
from curro.core.errors import ConfigError, ExhaustedError, RunError
from curro.durable import DurableCurriculum


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


def test_killed_under_load_no_draw_is_lost_and_none_counts_twice(tmp_path):
    """Three clients over a socket in the file system; the server is killed three times meanwhile."""
    config, path = config_at(tmp_path), str(tmp_path / "socket")
    given: list[list[int]] = [[], [], []]
    stop, moved = threading.Event(), threading.Semaphore(0)

    def work(tickets):
        port = ServedCurriculum(f"unix:{path}", token_of(tmp_path / "live"), patience=600)
        draw = port.select(3, step=0)
        while not stop.is_set():
            tickets.extend(draw.tickets.tolist())
            if draw.tickets[0] % 4:
                _, draw = port.observe_and_select(draw.tickets, rewards(draw.prompts), n=3, step=0)
            else:
                port.drop(draw.tickets)
                draw = port.select(3, step=0)
            moved.release()
        tickets.extend(draw.tickets.tolist())
        port.observe(draw.tickets, rewards(draw.prompts))
        port.close()

    threads = [threading.Thread(target=work, args=(tickets,)) for tickets in given]
    (tmp_path / "live").mkdir()
    try:
        for kill in range(4):
            with server(config, "--socket", path) as (process, address):
                assert address == f"unix:{path}"
                if not kill:
                    assert os.stat(path).st_mode & 0o077 == 0
                    for thread in threads:
                        thread.start()
                for _ in range(20):
                    assert moved.acquire(timeout=900)
                if kill < 3:
                    process.send_signal(signal.SIGKILL)
                    process.wait(600)
                    continue
                stop.set()
                for thread in threads:
                    thread.join(600)
                port = ServedCurriculum(address, token_of(tmp_path / "live"), patience=600)
                metrics = port.metrics()
                port.close()
    finally:
        stop.set()
    tickets = sorted(ticket for those in given for ticket in those)
    assert tickets == list(range(len(tickets)))
    assert metrics["selected"] == len(tickets)
    assert metrics["observed"] + metrics["dropped"] == len(tickets)
    assert metrics["in_flight"] == 0


def test_a_served_curriculum_draws_what_one_here_draws(tmp_path):
    config = config_at(tmp_path)
    twin = Curriculum("prioritized-replay", 400, seed=3)
    with server(config, "--port", "0") as (process, address):
        port = ServedCurriculum(address, token_of(tmp_path / "live"), patience=600)
        for step in range(4):
            draw, expected = port.select(8, step=step), twin.select(8, step=step)
            np.testing.assert_array_equal(draw.prompts, expected.prompts)
            ours = port.observe(draw.tickets, rewards(draw.prompts), named={"a": rewards(draw.prompts)})
            theirs = twin.observe(expected.tickets, rewards(expected.prompts))
            np.testing.assert_array_equal(port.credit(ours), twin.credit(theirs))
        draw, expected = port.select(8, step=4), twin.select(8, step=4)
        ended = draw.tickets, rewards(draw.prompts)
        verdict, draw = port.observe_and_select(*ended, n=8, step=4, rollouts=16)
        np.testing.assert_array_equal(verdict.advantages, twin.observe(*ended).advantages)
        np.testing.assert_array_equal(draw.prompts, twin.select(8, step=4, rollouts=16).prompts)
        assert port.observe_and_select(draw.tickets, rewards(draw.prompts), n=401, step=4)[1] is None
        with pytest.raises(ExhaustedError, match="401 prompts were asked for"):
            port.select(401, step=4)
        draw = port.select(2, step=4)
        port.save("here")
        port.drop(draw.tickets)
        port.load("here", kept=draw.tickets[:1])
        assert port.metrics()["in_flight"] == 1
        port.close()
        process.terminate()
        assert process.wait(600) == 0
    assert sorted(item.suffix for item in (tmp_path / "live").glob("0*")) == [".journal", ".npz"]


def test_a_client_without_a_server_gives_up_in_time(tmp_path):
    port = ServedCurriculum(f"unix:{tmp_path / 'nobody'}", "token", patience=0.05)
    with pytest.raises(FileNotFoundError):
        port.select(1, step=0)
    with pytest.raises(ConfigError, match="an address is"):
        ServedCurriculum("ftp://here", "token")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("= 3", "is no TOML"),
        ("prompts = 3\n[curriculum]\n", "lacks `folder`"),
        ("prompts = 3\nfolder = 'x'", r"lacks the table \[curriculum\]"),
        ("folder = 'x'\n[curriculum]\n", "either `data` or `prompts`"),
        ("prompts = 3\nfolder = 'x'\nspeed = 2\n[curriculum]\n", "has 'speed', which is none of folder"),
        (
            "folder = 'x'\ndata = 'd'\nkey_colum = 'k'\n[curriculum]\n",
            "has 'key_colum' .did you mean 'key_column'",
        ),
        ("prompts = 3\nfolder = 'x'\nrun_folder = 3\n[curriculum]\n", "`run_folder` is a path"),
    ],
)
def test_a_wrong_file_gets_one_sentence(tmp_path, text, words):
    path = tmp_path / "serve.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words):
        ServeSettings.read(path)


@pytest.mark.parametrize("selection", ["metis", "pcl"])
def test_a_method_that_asks_the_policy_is_not_served(selection):
    settings = ServeSettings("x", {"selection": selection}, data="lab:chains", limit=70)
    with pytest.raises(ConfigError, match="asks the policy, and `curro serve` does not lend it"):
        settings.build()


def test_a_file_may_name_data_and_a_run_folder(tmp_path):
    path = tmp_path / "serve.toml"
    path.write_text(
        "data = 'lab:chains'\nlimit = 7\nfolder = 'x'\nrun_folder = 'runs/one'\n"
        "[curriculum]\nselection = 'uniform'\n"
    )
    settings = ServeSettings.read(path)
    assert settings.build().table.size == 7
    assert settings.run_folder == "runs/one"


def test_small_replies_are_sent_at_once():
    """Without TCP_NODELAY a reply of two packets waits 40 ms for the acknowledgement of the first."""

    async def accepted():
        found = asyncio.Queue()
        listening = run._listen(0, None)
        async with await asyncio.start_server(lambda _, writer: found.put_nowait(writer), sock=listening):
            _, writer = await asyncio.open_connection(*listening.getsockname())
            other = await found.get()
            nodelay = other.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            for one in (writer, other):
                one.close()
                await one.wait_closed()
            return nodelay

    assert asyncio.run(accepted())


@pytest.mark.parametrize("kind", ["device", "pipe"])
def test_a_token_is_read_from_no_device_and_no_pipe(tmp_path, kind):
    """The one fills the memory, and the other never begins."""
    token = tmp_path / "token"
    token.symlink_to("/dev/zero") if kind == "device" else os.mkfifo(token)
    with pytest.raises(RunError, match="token is no file but"):
        token_of(tmp_path)


def test_what_is_no_request_leaves_nothing_in_the_log(tmp_path):
    """Whoever reaches the port, without the token too, could fill the disk by it."""
    upgrade = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    with server(config_at(tmp_path), "--port", "0") as (process, address):
        for sent in (b"\0 no request\r\n\r\n", upgrade):
            with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))) as connection:
                connection.sendall(sent)
                assert connection.recv(100).startswith(b"HTTP/1.1 40")
        process.terminate()
        assert process.stderr.read() == ""


def test_no_file_is_removed_for_a_socket(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with (
        pytest.raises(ConfigError, match=r"thesis\.txt exists and is no socket"),
        run._listening(0, tmp_path / "thesis.txt"),
    ):
        pass
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_a_service_takes_the_socket_of_one_that_was_killed_and_of_no_other(tmp_path):
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))
    with run._listening(0, path):
        with pytest.raises(ConfigError, match="another service answers at"), run._listening(0, path):
            pass
        assert path.is_socket()
        path.unlink()
        other = run._listen(0, path)  # on another machine, say, over a shared folder
    assert path.is_socket()
    other.close()


async def answer_beside(half_requests, folder, *, after_their_end):
    """What an honest request gets beside others that never end their heads, and what those get."""
    durable = DurableCurriculum(Curriculum("uniform", 5), folder / "live")
    application = Service(durable, "secret", {})
    config = uvicorn.Config(
        application, http=run.limited_protocol(), interface="asgi3", lifespan="off", log_level="warning"
    )
    server, listening = uvicorn.Server(config), run._listen(0, None)
    answering = asyncio.create_task(server.serve(sockets=[listening]))
    half = [await asyncio.open_connection(*listening.getsockname()) for _ in range(half_requests)]
    for _, writer in half:
        writer.write(b"POST /select HTTP/1.1\r\nHost: here\r\n")
    waiting = [reader.read() for reader, _ in half] if after_their_end else []
    ends = await asyncio.gather(*waiting, return_exceptions=True)
    run.HEAD_SECONDS = 600
    reader, writer = await asyncio.open_connection(*listening.getsockname())
    writer.write(
        b"GET /metrics HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer secret\r\nConnection: close\r\n\r\n"
    )
    answer = await reader.read()
    for _, each in (*half, (reader, writer)):
        each.close()
    server.should_exit = True
    await answering
    durable.close()
    return ends, answer


def test_half_requests_are_given_up(tmp_path, monkeypatch):
    """More of them than connections are allowed, over a server whose limit for the head is half a second."""
    monkeypatch.setattr(run, "CONNECTIONS", 20)
    monkeypatch.setattr(run, "HEAD_SECONDS", 0.5)
    asking = answer_beside(50, tmp_path, after_their_end=True)
    ends, answer = asyncio.run(asyncio.wait_for(asking, 600))
    assert all(end == b"" or isinstance(end, ConnectionError) for end in ends)
    assert answer.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("half_requests", [20, 50])
def test_whoever_holds_all_connections_open_keeps_nobody_out(tmp_path, monkeypatch, half_requests):
    monkeypatch.setattr(run, "CONNECTIONS", 20)
    monkeypatch.setattr(run, "HEAD_SECONDS", 3600)
    _, answer = asyncio.run(answer_beside(half_requests, tmp_path, after_their_end=False))
    assert answer.startswith(b"HTTP/1.1 200")
