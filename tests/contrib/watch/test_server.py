"""The server of the live page, asked over its socket."""

import http.client
import socket
import threading
from contextlib import contextmanager
from urllib.parse import quote

import pytest

from curro.contrib.watch.server import WatchedRun, WatchServer
from curro.runs.folder import RunFolder

HOSTILE = '</script><img src=x onerror=alert(1)>\x1b[31m\u202e"'


@contextmanager
def serving(*paths):
    server = WatchServer([WatchedRun(path, path.name) for path in paths])
    thread = threading.Thread(target=server.serve_forever, args=[0.01])  # which a shutdown waits for
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(server, name="", *, below=None, **headers):
    """The status, the headers and the text of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("GET", f"/{server.secret if below is None else below}/{name}", headers=headers)
    answer = connection.getresponse()
    with answer:
        text = answer.read().decode()
    connection.close()
    return answer.status, answer.headers, text


def version(page):
    return page.partition('data-version="')[2].partition('"')[0]


@pytest.fixture
def run(tmp_path):
    run = RunFolder.create(tmp_path / "one", {"curriculum": {"selection": {"name": "uniform"}}, "steps": 9})
    run.append_metrics({"step": 1, "rollouts": 16, "seconds": 1.0, "signal_share": 0.5})
    group = {"step": 1, "key": HOSTILE, "reason": 5, "admitted": True}
    run.append_groups(group | {"prompt": p, "mean": p / 2, "variance": p / 4} for p in range(2))
    run.append_rollouts(
        [{"step": 1, "prompt": 1, "text": "Q", "rollouts": [{"reward": 0.0, "text": HOSTILE}]}]
    )
    return run


def test_a_run_is_followed_and_an_unchanged_page_is_not_sent_again(run):
    with serving(run.path) as server:
        first = ask(server)[2]
        assert "Too early to say: 2 groups are finished" in first
        assert HOSTILE not in first
        assert "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;\\x1b[31m\\u202e&#34;" in first
        assert "no reward" not in first
        assert ask(server, If_None_Match=f'"{version(first)}"')[0] == 304
        run.append_metrics({"step": 2, "rollouts": 77, "seconds": 2.0})
        server._pages.clear()  # else it is drawn again after twenty times the seconds that it took
        later = ask(server, If_None_Match=f'"{version(first)}"')[2]
        assert "77" in later
        assert version(later) != version(first)


def test_several_runs_of_which_one_begins_later(run, tmp_path):
    later = tmp_path / "later"
    with serving(run.path, later) as server:
        page = ask(server)[2]
        assert '<a href="0">one</a>' in page
        assert "there is no such folder" in page
        assert "there is no such folder" in ask(server, "1")[2]
        assert '<a href="./">all runs</a>' in ask(server, "0")[2]
        RunFolder.create(later, {}).append_metrics({"step": 1, "rollouts": 8, "reward": 0.5})
        server._pages.clear()
        assert "there is no such folder" not in ask(server, "1")[2]


@pytest.mark.parametrize("damage", ["nonsense\n", '{"step": 1, "prompt": -1, "reason": 0, "mean": 0.5}\n'])
def test_a_damaged_run_is_said_and_the_server_lives(run, damage):
    with (run.path / "groups.jsonl").open("a") as file:
        file.write(damage)
    with serving(run.path) as server:
        assert "groups.jsonl is damaged" in ask(server)[2]
        assert "groups.jsonl is damaged" in ask(server)[2]


@pytest.mark.parametrize("below", ["", "wrong", "\u00e9", "refresh.js"])
def test_without_the_secret_nothing_is_shown(run, below):
    with serving(run.path) as server:
        status, _, text = ask(server, below=quote(below))
        assert (status, "one" in text.split()) == (403, False)
        assert server.secret not in text


def test_it_listens_on_loopback_and_runs_only_its_own_script(run):
    with serving(run.path) as server:
        assert server.server_address[0] == "127.0.0.1"
        _, headers, text = ask(server)
        assert "default-src 'none'; script-src 'self';" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "Access-Control-Allow-Origin" not in headers
        assert text.count("<script") == text.count('<script src="refresh.js" defer>') == 1
        assert "setInterval" in ask(server, "refresh.js")[2]


@pytest.mark.parametrize("path", ["../pyproject.toml", "9", "-1", "x", "99999999", "api/runs"])
def test_what_there_is_not(run, path):
    with serving(run.path) as server:
        assert ask(server, path)[0] == 404


@pytest.mark.parametrize(
    ("line", "status"),
    [("POST / HTTP/1.1", b"501"), ("GET http://[::1 HTTP/1.1", b"403"), ("GET", b"400"),
     ("GET / HTTP/9.9", b"505")],
)  # fmt: skip
def test_other_requests_are_refused_without_a_traceback(run, capfd, line, status):
    with (
        serving(run.path) as server,
        socket.create_connection(server.server_address[:2], timeout=600) as client,
    ):
        client.sendall(f"{line}\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\n\r\n".encode())
        assert client.recv(1000).startswith(b"HTTP/1.1 " + status)
    assert capfd.readouterr().err == ""
