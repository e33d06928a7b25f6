"""How much of a server's answer is read: a broken or hostile server cannot fill the memory.

Every response passes through `LimitedBody`, error pages included. The limit of a body is set for the task
that asks, since it follows from how many tokens were asked for.
"""

from __future__ import annotations

import contextvars
import importlib
from collections.abc import AsyncIterator
from typing import Any

import openai

# httpx of openai 2, httpx2 of openai 3
_HTTP: Any = importlib.import_module(openai.DefaultAsyncHttpxClient.__base__.__module__.partition(".")[0])

BASE_BYTES = 4 << 20
"""For an answer without any token: a list of models, an error."""
TOKEN_BYTES = 2048
"""For a token in a stream with its text, id, log-probability and the frame around them."""

_tokens: contextvars.ContextVar[tuple[int, int]] = contextvars.ContextVar("tokens", default=(0, 0))


class TooLongError(Exception):
    """An answer that is longer than what was asked for can be."""


def expect(completions: int, tokens: int) -> None:
    """Allow the answers of this task so many completions of so many tokens."""
    _tokens.set((completions, tokens))


def limited_client(**options: Any) -> Any:
    """A client for `openai.AsyncOpenAI` that reads no more than is allowed, and follows no redirect."""

    async def limit(response: Any) -> None:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise TooLongError("the server's answer is compressed, so its length is not known")
        completions, tokens = _tokens.get()
        line = BASE_BYTES + TOKEN_BYTES * tokens
        body = BASE_BYTES + TOKEN_BYTES * tokens * completions
        response.stream = LimitedBody(response.stream, body=body, line=line)

    return openai.DefaultAsyncHttpxClient(
        follow_redirects=False,
        event_hooks={"response": [limit]},
        headers={"Accept-Encoding": "identity"},  # a compressed body may be a thousand times as long
        **options,
    )


class LimitedBody(_HTTP.AsyncByteStream):
    """A body that ends in `TooLongError` when it, or one of its lines, has too many bytes."""

    def __init__(self, stream: Any, *, body: int, line: int) -> None:
        self.stream, self.body, self.line = stream, body, line

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total = in_line = 0
        async for chunk in self.stream:
            total += len(chunk)
            newline = chunk.rfind(b"\n")
            in_line = in_line + len(chunk) if newline < 0 else len(chunk) - newline - 1
            if in_line > self.line:
                raise TooLongError(f"a line of the server's answer has more than {self.line:,} bytes")
            if total > self.body:
                raise TooLongError(f"the server's answer has more than {self.body:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self.stream.aclose()
