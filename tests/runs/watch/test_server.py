"""The server of the live page, asked over its socket."""

import json
import socket
import threading
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

from curro.runs.folder import RunFolder
from curro.runs.watch.server import WatchedRun, WatchServer, side_by_side

HOSTILE = '</script><img src=x onerror=alert(1)>\x1b[31m\u202e"'


@contextmanager
def serving(*paths):
    server = WatchServer([WatchedRun(path, path.name) for path in paths])
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(server, path, host=None):
    request = urllib.request.Request(server.url + path, headers={"Host": host} if host else {})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=600) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


def asked(server, path):
    return json.loads(ask(server, path)[2])


def eventually(server, path, ready):
    """Ask until the follower has read so far; it looks once a second."""
    for _ in range(6000):
        found = asked(server, path)
        if ready(found):
            return found
        threading.Event().wait(0.1)
    raise AssertionError(found)


@pytest.fixture
def run(tmp_path):
    run = RunFolder.create(tmp_path / "one", {"curriculum": {"selection": {"name": "uniform"}}, "steps": 9})
    run.append_metrics({"step": 1, "rollouts": 16, "seconds": 1.0, "signal_share": 0.5})
    run.append_groups(
        {
            "step": 1,
            "prompt": p,
            "key": HOSTILE,
            "reason": 5,
            "mean": p / 2,
            "variance": p / 4,
            "admitted": True,
        }
        for p in range(2)
    )
    line = {
        "step": 1,
        "prompt": 1,
        "key": HOSTILE,
        "text": "Q",
        "rollouts": [{"reward": 0.0, "text": HOSTILE}],
    }
    run.append_rollouts([line])
    return run


def test_a_run_is_followed(run):
    with serving(run.path) as server:
        short = {"name", "error", "version", "left"}

        def is_settled(found):
            again = asked(server, f"api/run?run=0&version={found['version']}")
            return found.get("kept") and set(again) == short

        first = eventually(server, "api/run?run=0&version=-1", is_settled)
        assert (first["name"], first["step"], first["steps"], first["left"]) == ("one", 1, 9, 0)
        assert first["verdict"]["word"] == "early"
        assert first["sections"][0]["title"] == "Learning"
        run.append_metrics({"step": 2, "rollouts": 32, "seconds": 2.0})
        later = eventually(
            server, f"api/run?run=0&version={first['version']}", lambda found: found.get("step") == 2
        )
        assert later["version"] > first["version"]


def test_a_prompt_has_its_visits_and_rollouts_as_text(run):
    with serving(run.path) as server:
        eventually(server, "api/run?run=0&version=-1", lambda found: found.get("kept"))
        found = asked(server, "api/prompt?run=0&prompt=1")
        assert found["visits"][0]["rollouts"][0]["text"] == HOSTILE
        assert "\x1b" not in found["key"]
        assert asked(server, "api/prompt?run=0&prompt=77") is None


def test_several_runs_and_one_that_has_not_begun(run, tmp_path):
    with serving(run.path, tmp_path / "later") as server:
        eventually(server, "api/run?run=0&version=-1", lambda found: "sections" in found)
        late = eventually(server, "api/run?run=1&version=-1", lambda found: found["error"])
        assert "there is no such folder" in late["error"]
        both = asked(server, "api/side-by-side")
        assert [chart["name"] for chart in both["charts"]] == ["all-signal-share"]
        later = RunFolder.create(tmp_path / "later", {})
        later.append_metrics({"step": 1, "rollouts": 8, "reward": 0.5})
        eventually(server, "api/run?run=1&version=-1", lambda found: found.get("step") == 1)


def test_a_folder_of_runs_that_is_away_for_a_moment_is_looked_at_again(run, tmp_path):
    """Without that the thread that follows all runs would end, and the page stay as it is."""
    folder = tmp_path / "runs"
    server = WatchServer([WatchedRun(run.path, "one")], folders=[folder])
    try:
        server._add_new_runs()
        RunFolder.create(folder / "two", {})
        server._add_new_runs()
        assert [watched.name for watched in server.runs] == ["one", "two"]
        assert server._follower.is_alive()
    finally:
        server.server_close()


def test_the_table_of_several_runs_counts_groups_and_rollouts_and_not_steps(tmp_path):
    """A step of one group with a signal, and one of three without: the mean of the steps would be a half."""
    folder = RunFolder.create(tmp_path / "run", {})
    for step, rollouts, value, prompts in ((1, 4, 1.0, 1), (2, 16, 0.0, 3)):
        folder.append_groups(
            {"step": step, "prompt": i, "reason": 0, "mean": value / 2, "variance": value / 4}
            for i in range(prompts)
        )
        folder.append_metrics({"step": step, "rollouts": rollouts, "reward": value, "signal_share": value})
    run = WatchedRun(folder.path, "run")
    run.advance()
    assert side_by_side([run])["rows"] == [["run", "2", "16", "-", "0.25", "0.25"]]


def test_a_damaged_run_is_said_and_the_server_lives(run):
    with (run.path / "groups.jsonl").open("a") as file:
        file.write("nonsense\n")
    with serving(run.path) as server:
        found = eventually(server, "api/run?run=0&version=-1", lambda found: found["error"])
        assert "groups.jsonl is damaged" in found["error"]


def test_a_run_whose_first_groups_are_damaged_is_shown_without_them(tmp_path):
    """Their sources were drawn, and the page said that its server had ended."""
    folder = RunFolder.create(tmp_path / "run", {})
    folder.append_metrics({"step": 1, "rollouts": 4, "seconds": 1.0})
    folder.append_groups(
        {"step": 1, "prompt": -number, "reason": 0, "mean": 0.5, "variance": 0.25, "source": source}
        for number, source in enumerate("ab")
    )
    run = WatchedRun(folder.path, "run")
    run.advance()
    content = run.content()
    assert "groups.jsonl is damaged: it has the prompt -1" in content["error"]
    assert content["step"] == 1


@pytest.mark.parametrize("steps", [float("nan"), float("inf"), "x", [1], 10**9, -1, True, None], ids=str)
def test_a_page_takes_steps_of_another_type_for_none(tmp_path, steps):
    """NaN is no JSON in a browser: the page said that its server had ended."""
    folder = RunFolder.create(tmp_path / "run", {"steps": steps})
    folder.append_metrics({"step": 1, "rollouts": 4, "seconds": 1.0})
    run = WatchedRun(folder.path, "run")
    run.advance()
    assert run.content()["steps"] is None
    json.dumps(run.content(), allow_nan=False)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:80"])
def test_another_host_reads_nothing(run, host):
    with serving(run.path) as server:
        for path in ("", "api/runs", "page.js"):
            status, _, body = ask(server, path, host)
            assert (status, body) == (403, b"this page is for its own machine alone\n")
        assert ask(server, "", f"localhost:{server.port}")[0] == 200


def test_it_listens_on_loopback_and_runs_only_its_own_scripts(run):
    with serving(run.path) as server:
        assert server.server_address[0] == "127.0.0.1"
        status, headers, body = ask(server, "")
        assert status == 200
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert b"<script>" not in body
        assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize(
    "path",
    ["../pyproject.toml", "page/../server.py", "api/nothing", "api/run?run=9", "api/run?run=-1",
     "api/run?run=x", "api/prompt?run=0", "api/prompt?run=0&prompt=1e3",
     "api/prompt?run=0&prompt=99999999999999999999"],
)  # fmt: skip
def test_what_there_is_not(run, path):
    with serving(run.path) as server:
        assert ask(server, path)[0] == 404


def test_only_reading(run):
    with (
        serving(run.path) as server,
        socket.create_connection(server.server_address[:2], timeout=600) as client,
    ):
        client.sendall(
            f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\n\r\n".encode()
        )
        assert client.recv(100).startswith(b"HTTP/1.1 501")
