"""Servers that answer without end: bodies, lines and redirects have limits, and the memory stays small."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from tests.rollout.server_setup import on_loopback

from curro.core.errors import EngineError, PromptError
from curro.rollout.engines.openai_server import OpenAIEngine

BLOCK = b"x" * 65_536
EVENT = b'data: {"choices": [{"index": 0, "text": "' + b"y" * 4_000 + b'"}]}\n\n'
BUFFERED = 2**20 + sum(
    int(Path(f"/proc/sys/net/ipv4/{name}").read_text().split()[2]) for name in ("tcp_rmem", "tcp_wmem")
)
"""Bytes that can lie between the two at most, in the sockets' buffers of this machine and in the client."""
GOOD = b'data: {"choices": [{"index": 0, "text": "4", "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'


class Hostile:
    """Answers every request with `answer(handler)`, after good answers to the engine's first questions.

    Attributes:
        requests, sent: how many came, and the bytes of the bodies that went out.
    """

    def __init__(self, answer: Callable[[Handler], None], good: int = 1) -> None:
        self.answer, self.good, self.requests, self.sent = answer, good, 0, 0

    def running(self) -> AbstractContextManager[str]:
        return on_loopback(type("Bound", (Handler,), {"hostile": self}))


class Handler(BaseHTTPRequestHandler):
    hostile: Hostile

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.hostile.requests += 1
        if self.hostile.requests <= self.hostile.good:
            self.begin()
            self.write(GOOD)
        else:
            self.hostile.answer(self)

    def do_GET(self) -> None:
        self.hostile.requests += 1
        self.hostile.answer(self)

    def begin(self, status: int = 200, media_type: str = "text/event-stream", **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def write(self, data: bytes) -> bool:
        """Whether the client still listens."""
        try:
            self.wfile.write(data)
        except OSError:
            return False
        self.hostile.sent += len(data)
        return True


def endless_line(handler: Handler) -> None:
    handler.begin()
    handler.write(b"data: ")
    while handler.write(BLOCK):
        pass


def endless_events(handler: Handler) -> None:
    handler.begin()
    while handler.write(EVENT):
        pass


def endless_error(handler: Handler) -> None:
    handler.begin(400)
    while handler.write(BLOCK):
        pass


def endless_event(handler: Handler) -> None:
    """One event of many lines: no line is long, and no event comes to its end."""
    handler.begin()
    while handler.write(b"data: " + b"z" * 1_000 + b"\n"):
        pass


def endless_document(handler: Handler) -> None:
    """One JSON document, as servers answer that do not stream."""
    handler.begin(media_type="application/json")
    handler.write(b'{"choices": [{"index": 0, "text": "')
    while handler.write(BLOCK):
        pass


def compressed(handler: Handler) -> None:
    handler.begin(Content_Encoding="gzip")
    handler.write(gzip.compress(b"data: " + b"0" * 50_000_000))


def onward(handler: Handler) -> None:
    handler.begin(307, Location=handler.path)


def asked(url: str, model: str | None = "tiny", max_new_tokens: int = 16) -> object:
    async def run() -> object:
        engine = OpenAIEngine(url, model, max_new_tokens=max_new_tokens, backoff=0.01)
        try:
            return await engine.generate("3afc=", 1)
        finally:
            await engine.close()

    return asyncio.run(asyncio.wait_for(run(), 600))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (endless_line, "the server's answer has more than 4,227,072 bytes"),
        (endless_events, "the server's answer has more than 4,227,072 bytes"),
        (endless_event, "the server's answer has more than 4,227,072 bytes"),
        (endless_error, "has more than"),
        (endless_document, "has more than"),
        (compressed, "the server's answer is compressed"),
    ],
)
def test_an_answer_without_end_is_given_up(answer, said):
    """2,048 bytes for each of 16 tokens, and 4 MB; what lies in the sockets' buffers comes on top."""
    hostile = Hostile(answer)
    with hostile.running() as url, pytest.raises(PromptError, match=said):
        asked(url)
    assert hostile.requests == 2
    assert hostile.sent < 4_227_072 + BUFFERED


def test_as_many_bytes_as_the_tokens_asked_for_can_have_are_read():
    pieces = 2_000

    def long(handler: Handler) -> None:
        handler.begin()
        for _ in range(pieces):
            handler.write(EVENT)
        handler.write(GOOD)

    hostile = Hostile(long)
    with hostile.running() as url:
        (first,) = asked(url, max_new_tokens=2_000)
    assert len(first.text) == pieces * 4_000 + 1


@pytest.mark.parametrize("good", [0, 1])
def test_a_redirect_is_not_followed(good):
    hostile = Hostile(onward, good)
    with (
        hostile.running() as url,
        pytest.raises(EngineError, match=r"sends requests on to '/v1/completions'"),
    ):
        asked(url)
    assert hostile.requests == good + 1
