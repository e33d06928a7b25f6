"""Servers that answer without end: bodies, lines and redirects have limits, and the memory stays small."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path
from typing import Any

import pytest
from tests.rollout.server_setup import FakeServer, begin, endless

from curro.core.errors import EngineError, PromptError
from curro.rollout.engines.openai_server import OpenAIEngine

BLOCK = b"x" * 65_536
EVENT = b'data: {"choices": [{"index": 0, "text": "' + b"y" * 4_000 + b'"}]}\n\n'
LINE_OF_AN_EVENT = b"data: " + b"z" * 1_000 + b"\n"
DOCUMENT = b'{"choices": [{"index": 0, "text": "'
BUFFERED = 2**20 + sum(
    int(Path(f"/proc/sys/net/ipv4/{name}").read_text().split()[2]) for name in ("tcp_rmem", "tcp_wmem")
)
"""Bytes that can lie between the two at most, in the sockets' buffers of this machine and in the client."""
GOOD = b'data: {"choices": [{"index": 0, "text": "4", "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'


def compressed(handler: Any) -> None:
    begin(handler, Content_Encoding="gzip")
    handler.wfile.write(gzip.compress(b"data: " + b"0" * 50_000_000))


def onward(handler: Any) -> None:
    begin(handler, 307, Location=handler.path)


def asked(fake: FakeServer, max_new_tokens: int = 16) -> Any:
    async def run(url: str) -> object:
        engine = OpenAIEngine(url, "tiny", max_new_tokens=max_new_tokens, backoff=0.01)
        try:
            return await engine.generate("3afc=", 1)
        finally:
            await engine.close()

    with fake.running() as url:
        return asyncio.run(asyncio.wait_for(run(url), 600))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (endless(BLOCK, b"data: "), "the server's answer has more than 4,227,072 bytes"),
        (endless(EVENT), "the server's answer has more than 4,227,072 bytes"),
        (endless(LINE_OF_AN_EVENT), "the server's answer has more than 4,227,072 bytes"),
        (endless(BLOCK, status=400), "has more than"),
        (endless(BLOCK, DOCUMENT, media_type="application/json"), "has more than"),
        (compressed, "the server's answer is compressed"),
    ],
    ids=["line", "events", "event of many lines", "error", "document", "compressed"],
)
def test_an_answer_without_end_is_given_up(answer, said):
    """2,048 bytes for each of 16 tokens, and 4 MB; what lies in the sockets' buffers comes on top."""
    fake = FakeServer()
    fake.first = [GOOD, answer]
    with pytest.raises(PromptError, match=said):
        asked(fake)
    assert len(fake.requests) == 2
    assert fake.sent < 4_227_072 + BUFFERED


def test_as_many_bytes_as_the_tokens_asked_for_can_have_are_read():
    fake = FakeServer()
    fake.first = [GOOD, EVENT * 2_000 + GOOD]
    (rollout,) = asked(fake, max_new_tokens=2_000)
    assert len(rollout.text) == 2_000 * 4_000 + 1


@pytest.mark.parametrize("good", [0, 1])
def test_a_redirect_is_not_followed(good):
    fake = FakeServer()
    fake.first = [GOOD] * good + [onward]
    with pytest.raises(EngineError, match=r"sends requests on to '/v1/completions'"):
        asked(fake)
    assert len(fake.requests) == good + 1
