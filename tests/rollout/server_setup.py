"""`transformers serve` in a process, and in a thread a server that answers as a test likes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.forks import commands

os.environ.setdefault("HF_HUB_OFFLINE", "1")

START_SECONDS = 600
"""How long a server may take to start on a machine that is busy; alone it takes seconds."""


@contextmanager
def on_loopback(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """The address of a server in a thread, while it runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def save_models(folder: Path) -> tuple[Path, Path]:
    """The lab's chains, and a model with random weights that never ends; both to be sampled greedily."""
    import torch

    from curro.lab import load
    from curro.lab.model import build_model

    torch.manual_seed(0)
    chains, tokenizer = load("chains")
    endless = build_model(tokenizer, width=16, layers=1)
    for config in (endless.config, endless.generation_config):
        config.eos_token_id = None
    for name, model in (("chains", chains), ("endless", endless)):
        model.generation_config.do_sample, model.generation_config.temperature = False, None
        model.generation_config.top_k = None
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    return folder / "chains", folder / "endless"


@contextmanager
def transformers_serve(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The server's address and process; it loads any model folder that a request names."""
    command = [str(commands() / "transformers"), "serve", "--device", "cpu"]
    command += ["--host", "127.0.0.1", "--port", "0"]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with tempfile.NamedTemporaryFile("wb", dir=folder, suffix=".log", delete=False) as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
    try:
        yield announced(process, Path(log.name)), process
    finally:
        process.kill()
        process.wait()


def announced(process: subprocess.Popen[bytes], log: Path) -> str:
    """The address that uvicorn writes to the log once it listens, at a port that was free."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        text = log.read_text(errors="replace")
        if found := re.search(r"running on (http://\S+) ", text):
            return found[1]
        assert process.poll() is None, text
        time.sleep(0.1)
    raise AssertionError(f"no server within {START_SECONDS} s: {text}")


Answer = Callable[[Any], None]


def begin(handler: Any, status: int = 200, media_type: str = "text/event-stream", **headers: str) -> None:
    handler.send_response(status)
    for name, value in {"Content-Type": media_type, **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()


def endless(block: bytes, beginning: bytes = b"", **head: Any) -> Answer:
    """Send a block over and over again, until the client hangs up."""

    def answer(handler: Any) -> None:
        begin(handler, **head)
        handler.wfile.write(beginning)
        while handler.wfile.write(block):
            handler.server_of_test.sent += len(block)

    return answer


class FakeServer:
    """Streams `pieces`.

    The shape is "vllm", or "text" where there are neither ids nor log-probabilities.

    Attributes:
        pieces: (text, token id, log-probability) of each token; the text of the last one is empty.
        finish: the reason at the end.
        first: answers before all others: a status, raw bytes of a stream, or what answers with the handler.
        sent: bytes that `endless` answers have sent.
        pause: seconds between two tokens.
        least: the smallest `max_tokens` that it takes.
        lacking: fields at which the server fails, with the status 500.
        strict: refuse fields that are not in `known`, and give the `advice`.
        is_bare: write such an error as a text, as TGI and Ollama do, and not as an object with a message.
        streaming: "yes"; "ignored" answers in one JSON document whatever was asked for, and "refused" does so
            only where no stream is asked for.
        requests: the bodies that came, in order.
        most: the most requests that were answered at one time.
        together: how many have to be answered at one time before the first is.
        hung_up: set when a client closed the connection before the end.
    """

    def __init__(self, shape: str = "vllm") -> None:
        self.shape, self.pause, self.strict, self.advice = shape, 0.0, False, "leave them out"
        self.finish: str | None = "stop"
        self.lacking: set[str] = set()
        self.least, self.is_bare = 0, False
        self.pieces = [("4", 11, -0.5), ("0", 7, -0.25), ("", 2, -0.125)]
        self.known = {"model", "prompt", "messages", "max_tokens", "temperature", "top_p", "stream"}
        self.known.add("logprobs")
        self.first: list[int | bytes | Answer] = []
        self.sent = 0
        self.models, self.streaming = ["tiny"], "yes"
        self.requests: list[dict[str, Any]] = []
        self.most = self.together = self._open = 0
        self._change = threading.Condition()
        self.hung_up = threading.Event()

    def without_end(self, *, pause: float) -> None:
        """From here on answer token after token, until the client hangs up."""
        self.pieces, self.pause = [("4", 11, -0.5)] * 10**6, pause

    def running(self) -> AbstractContextManager[str]:
        """The address while it runs."""
        return on_loopback(_handler(self))

    def chunks(self, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        chat = "messages" in body
        last = len(self.pieces) - 1
        for step, (text, token, logprob) in enumerate(self.pieces):
            choice: dict[str, Any] = {"index": 0, "finish_reason": self.finish if step == last else None}
            choice |= {"delta": {"content": text}} if chat else {"text": text}
            if self.shape != "text":
                content = {"content": [{"token": text, "logprob": logprob}]}
                choice["logprobs"] = content if chat else {"tokens": [text], "token_logprobs": [logprob]}
                choice["token_ids"] = [token]
            yield {"id": "x", "choices": [choice]}

    def whole(self, body: dict[str, Any]) -> dict[str, Any]:
        """All chunks in one document, as servers answer that do not stream."""
        choice, *others = (chunk["choices"][0] for chunk in self.chunks(body))
        text = "".join(piece for piece, _, _ in self.pieces)
        choice |= (
            {"message": {"role": "assistant", "content": text}} if "messages" in body else {"text": text}
        )
        choice.pop("delta", None)
        for part in others:
            choice["finish_reason"] = part["finish_reason"]
            if "token_ids" in part:
                choice["token_ids"] += part["token_ids"]
            for name, values in part.get("logprobs", {}).items():
                choice["logprobs"][name] += values
        return {"id": "x", "choices": [choice], "usage": {"completion_tokens": len(self.pieces)}}

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Count an answer as under way."""
        with self._change:
            self._open += 1
            self.most = max(self.most, self._open)
            self._change.notify_all()
            self._change.wait_for(lambda: self.most >= self.together, 600)
        try:
            yield
        finally:
            with self._change:
                self._open -= 1


def _handler(fake: FakeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_of_test = fake

        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            data = [{"id": name} for name in fake.models]
            self._plain(200, {"object": "list", "data": data} if data else "a page")

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            fake.requests.append(body)
            if fake.strict and set(body) - fake.known:
                message = f"unknown fields {sorted(set(body) - fake.known)}: {fake.advice}"
                self._plain(400, {"error": message if fake.is_bare else {"message": message}})
                return
            if body.get("max_tokens", fake.least) < fake.least:
                self._plain(400, {"error": {"message": f"max_tokens must be at least {fake.least}"}})
                return
            if fake.streaming == "refused" and body["stream"]:
                self._plain(400, {"error": {"message": "Streaming is not supported by this model"}})
                return
            special = 500 if fake.lacking & set(body) else fake.first.pop(0) if fake.first else None
            if callable(special):
                with suppress(OSError):
                    special(self)
                return
            if isinstance(special, int):
                self._plain(special, {"error": {"message": "out of order"}})
                return
            if fake.streaming != "yes":
                answer = fake.whole(body) if special is None else json.loads(special)
                self._plain(200, answer, "application/json; charset=utf-8")
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            try:
                if special is not None:
                    self.wfile.write(special)
                    return
                with fake.answering():
                    for chunk in fake.chunks(body):
                        time.sleep(fake.pause)
                        self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
                # a client that has read this may send its next request before anything else happens here
                self.wfile.write(b"data: [DONE]\n\n")
            except OSError:
                fake.hung_up.set()

        def _plain(self, status: int, answer: Any, media_type: str = "application/json") -> None:
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler
