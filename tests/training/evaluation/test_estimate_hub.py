"""Estimates on the hub: its own client, in a process of its own, against a stand-in of the hub."""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from http.server import BaseHTTPRequestHandler

import numpy as np
import pytest
from tests.rollout.server_setup import on_loopback

from curro.core.errors import ConfigError
from curro.runs.estimate_folder import COLUMNS, EstimateFolder
from curro.training.evaluation.estimate_hub import _public, card, check_push, pull

COMMIT, NEXT = "0123456789abcdef0123456789abcdef01234567", "f" * 40


class Hub:
    """What the stand-in has stored: data sets by name, their files by path; those of earlier commits."""

    def __init__(self):
        self.repositories, self.tokens, self.refuses = {}, [], False
        self.commit, self.earlier = COMMIT, {}

    def at(self, name, revision):
        """The commit that a revision means, and the data set's files there."""
        commit = self.commit if revision == "main" else revision
        files = self.repositories if commit == self.commit else self.earlier.get(commit, {})
        return commit, files.get(name, {})

    def handler(hub):
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self, status, body=b"", **headers):
                body = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def do_POST(self):
                hub.tokens.append(self.headers.get("Authorization"))
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if hub.refuses:
                    return self.answer(
                        403, {"error": "no right to write"}, X_Error_Message="no right to write"
                    )
                if self.path == "/api/validate-yaml":
                    return self.answer(200, {"errors": [], "warnings": []})
                if self.path == "/api/repos/create":
                    asked = json.loads(body)
                    name = f"{asked['organization']}/{asked['name']}"
                    assert asked["type"] == "dataset"
                    hub.repositories.setdefault(name, {})
                    return self.answer(
                        200, {"url": f"http://{self.headers['Host']}/datasets/{name}", "id": name}
                    )
                name, action = re.fullmatch(r"/api/datasets/(.+)/(preupload|commit)/main", self.path).groups()
                if action == "preupload":
                    files = [
                        {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False, "oid": None}
                        for file in json.loads(body)["files"]
                    ]
                    return self.answer(200, {"files": files})
                for line in map(json.loads, body.splitlines()):
                    if line["key"] == "file":
                        content = base64.b64decode(line["value"]["content"])
                        hub.repositories[name][line["value"]["path"]] = content
                url = f"http://{self.headers['Host']}/datasets/{name}/commit/{COMMIT}"
                return self.answer(200, {"commitUrl": url, "commitOid": COMMIT, "success": True})

            def do_GET(self):
                path = self.path.partition("?")[0]
                if found := re.fullmatch(r"/datasets/(.+)/resolve/(\w+)/(.+)", path):
                    commit, files = hub.at(found[1], found[2])
                    content = files.get(found[3])
                    if content is None:
                        return self.answer(404, X_Error_Code="EntryNotFound")
                    etag = hashlib.sha1(content).hexdigest()
                    return self.answer(200, content, ETag=f'"{etag}"', X_Repo_Commit=commit)
                if path == "/api/agent-harnesses":  # newer clients ask for it, and go on without
                    return self.answer(404, {"error": "not found"})
                name, what = re.fullmatch(r"/api/datasets/([^/]+/[^/]+)(.*)", path).groups()
                if name not in hub.repositories:
                    return self.answer(404, {"error": "not found"}, X_Error_Code="RepoNotFound")
                commit, files = hub.at(name, what.rpartition("/")[2] or "main")
                if what.startswith("/tree"):
                    tree = [
                        {"type": "file", "path": path, "size": len(files[path]), "oid": "0" * 40}
                        for path in files
                    ]
                    return self.answer(200, tree)
                siblings = [{"rfilename": path} for path in files]
                return self.answer(200, {"id": name, "sha": commit, "siblings": siblings})

            do_HEAD = do_GET

        return Handler


@pytest.fixture
def hub():
    return Hub()


@pytest.fixture
def run(hub, tmp_path):
    """Run a program with the hub at its stand-in; the client reads the address when it is imported."""
    with on_loopback(hub.handler()) as address:

        def run(program, *arguments, status=0):
            done = subprocess.run(
                [sys.executable, "-c", program, *map(str, arguments)],
                env=os.environ
                | {"HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "home"), "HF_TOKEN": "hf_of_a_test"}
                | {"HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"},
                capture_output=True,
                text=True,
                timeout=900,
            )
            assert done.returncode == status, done.stdout + done.stderr
            return done.stdout + done.stderr

        yield run


@pytest.fixture
def estimate(tmp_path):
    """Of three prompts with four rollouts each: never, twice and always solved."""
    data = tmp_path / "private" / "problems.jsonl"
    data.parent.mkdir()
    data.write_text("{}\n")
    settings = {"data": str(data), "model": "org/model", "k": 4, "reward": "math", "temperature": 1.0}
    folder = EstimateFolder.begin(tmp_path / "estimate", settings)
    for prompt, correct in enumerate([0, 2, 4]):
        mean = correct / 4
        folder.append(
            {"prompt": prompt, "key": f"k{prompt}", "rollouts": 4, "scored": 4, "correct": correct}
            | {"truncated": 0, "mean": mean, "variance": mean * (1 - mean)}
        )
    folder.write_table()
    return folder


PUSH = """
import sys
from curro.core.errors import CurroError
from curro.runs.estimate_folder import EstimateFolder
from curro.training.evaluation.estimate_hub import push
try:
    print(push(EstimateFolder.open(sys.argv[1]), "org/rates"))
except CurroError as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""
KNOWN = """
import sys
from curro.data import PromptSet
from curro.training.inputs import with_known
rows = [{"prompt": key, "answer": "", "key": key} for key in ("k2", "k1", "new")]
config = {"selection": "frontier", "reward_range": (0, 1)}
for source in sys.argv[1:]:
    known, prompts, read = with_known(config, PromptSet(rows), source)
    print(known["selection"], [row[known["selection"]["known"]] for row in prompts], read)
"""


def test_an_estimate_is_pushed_and_a_training_starts_from_it(hub, run, estimate, tmp_path):
    assert "datasets/org/rates" in run(PUSH, estimate.path)
    files = hub.repositories["org/rates"]
    assert set(files) == {"README.md", "estimate.json", "pass_rates.parquet"}
    assert files["pass_rates.parquet"] == (estimate.path / "pass_rates.parquet").read_bytes()
    assert set(hub.tokens) == {"Bearer hf_of_a_test"}
    assert "private" not in files["estimate.json"].decode() + files["README.md"].decode()
    printed = run(KNOWN, "hub:org/rates")
    assert "'known': 'known_rate'" in printed
    assert f"[1.0, 0.5, None] hub:org/rates@{COMMIT}" in printed
    # the hub goes on, and a commit still names the same rates
    hub.earlier, hub.commit = {COMMIT: {"org/rates": files}}, NEXT
    newer = EstimateFolder.begin(tmp_path / "newer", estimate.settings)
    newer.append(dict.fromkeys(COLUMNS, 0) | {"key": "k2", "mean": 0.25})
    newer.write_table()
    hub.repositories["org/rates"] = {
        name: (newer.path / name).read_bytes() for name in ("estimate.json", "pass_rates.parquet")
    }
    printed = run(KNOWN, "hub:org/rates", f"hub:org/rates@{COMMIT}")
    assert f"[0.25, None, None] hub:org/rates@{NEXT}" in printed
    assert f"[1.0, 0.5, None] hub:org/rates@{COMMIT}" in printed


def test_a_hub_that_refuses_loses_nothing(hub, run, estimate):
    hub.refuses = True
    printed = run(PUSH, estimate.path, status=1)
    assert f"EstimateError: the estimate is complete in {estimate.path}, and could not be pushed" in printed
    hub.refuses = False
    run(PUSH, estimate.path)
    assert "org/rates" in hub.repositories


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        (None, "hub:org/rates cannot be read: "),
        ({"README.md": b"text"}, "holds no pass rates, it lacks estimate.json and pass_rates.parquet"),
    ],
)
def test_what_is_no_estimate_is_refused(hub, run, files, sentence):
    if files is not None:
        hub.repositories["org/rates"] = files
    program = "from curro.training.evaluation.estimate_hub import pull\ntry:\n    pull('hub:org/rates')\n"
    printed = run(program + "except Exception as error:\n    print(type(error).__name__, error)")
    assert printed.startswith("EstimateError hub:org/rates")
    assert sentence in printed


@pytest.mark.parametrize("name", ["rates", "org/rates/more", "../rates", "org/..", "org/ra tes", ""])
def test_names_that_are_none_are_refused_before_anything_is_sampled(name):
    with pytest.raises(ConfigError, match="it is ORG/NAME"):
        check_push(name)
    with pytest.raises(ConfigError, match="it is ORG/NAME"):
        pull(f"hub:{name}")


def test_a_revision_that_may_move_is_no_commit():
    with pytest.raises(ConfigError, match="'main' is no commit of the hub, which has 40 hexadecimal digits"):
        pull("hub:org/rates@main")


def test_a_push_without_a_token_is_refused_before_anything_is_sampled(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    with pytest.raises(ConfigError, match="type hf auth login first"):
        check_push("org/rates")


def test_the_card_has_a_head_a_table_and_no_cell_that_breaks_out():
    text = card("org/rates", {"model": "a|b\n# <script>", "k": 4}, np.array([0.0, 0.5, 1.0, np.nan]))
    assert text.startswith("---\ntags: [curro, pass-rates]\n")
    assert "data_files: pass_rates.parquet" in text
    assert r"| model | a\|b # \<script\> |" in text
    assert "| 0 | 0.333 |\n| .0 to .1 | 0.000 |" in text
    assert "--known hub:org/rates" in text


def test_paths_of_this_machine_are_left_out(tmp_path):
    data = tmp_path / "mine.jsonl"
    data.write_text("")
    settings = {"data": str(data), "model": "org/model", "reward": "math"}
    assert _public(settings) == {"data": "mine.jsonl", "model": "org/model", "reward": "math"}
    settings = {"data": f"{data},/home/ann/b.jsonl", "reward": "math+0.5*~/client/score.py:f", "k": 4}
    assert _public(settings) == {"data": "mine.jsonl,b.jsonl", "reward": "math+0.5*score.py:f", "k": 4}
