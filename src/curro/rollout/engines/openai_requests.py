"""Requests to an OpenAI-compatible server, repeated where that may help.

Requests ask for a stream. Servers that ignore that answer with one JSON document, which is read as the only
chunk of a stream.
"""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import json
import math
import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from curro.core.errors import EngineError
from curro.rollout.engines.engine import Rollout

try:
    import openai
except ImportError:
    raise ImportError("OpenAIEngine needs the package openai: pip install 'curro[server]'") from None

_BROKEN = ("abort", "error", "content_filter")
"""Reasons to finish with which a server withholds the completion, or has none."""


@dataclass
class StreamedChoice:
    """One completion of an answer, put together from the chunks in which it arrives.

    Attributes:
        pieces: the parts of the text.
        ids, names, logprobs: of the tokens, as the server sent them.
        has_ids: whether it sent ids.
        finish: the server's reason to finish; None while the choice is open.
        total: the number of tokens by the server's count, where it counts this choice alone.
    """

    pieces: list[str] = field(default_factory=list)
    ids: list[Any] = field(default_factory=list)
    names: list[Any] = field(default_factory=list)
    logprobs: list[Any] = field(default_factory=list)
    has_ids: bool = False
    finish: str | None = None
    total: int | None = None

    def add(self, part: Mapping[str, Any]) -> None:
        """Take in a chunk's part of this choice; a whole answer has `message` where a chunk has `delta`."""
        message = part.get("delta", part.get("message"))
        piece = message.get("content") if isinstance(message, Mapping) else part.get("text")
        if isinstance(piece, list):  # parts, of which those of a thought are not the answer
            texts = [item.get("text") for item in piece if isinstance(item, Mapping) and "text" in item]
            piece = "".join(text for text in texts if isinstance(text, str))
        if isinstance(piece, str):
            self.pieces.append(piece)
        for name in ("token_ids", "response_token_ids"):
            if isinstance(part.get(name), list):
                self.has_ids = True
                self.ids += part[name]
                break
        logprobs = part.get("logprobs")
        if isinstance(logprobs, Mapping):
            content = logprobs.get("content")
            if isinstance(content, list):
                items = [item if isinstance(item, Mapping) else {} for item in content]
                self.names += [item.get("token") for item in items]
                self.logprobs += [item.get("logprob") for item in items]
            elif isinstance(logprobs.get("token_logprobs"), list):
                self.names += logprobs["tokens"] if isinstance(logprobs.get("tokens"), list) else []
                self.logprobs += logprobs["token_logprobs"]
        if isinstance(part.get("finish_reason"), str):
            self.finish = part["finish_reason"]

    @property
    def text(self) -> str:
        """What the model wrote; halves of characters (lone surrogates) become U+FFFD."""
        return "".join(self.pieces).encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    @property
    def token_ids(self) -> tuple[int, ...] | None:
        """The tokens, where the server tells them."""
        ids = self.ids if self.has_ids else [_placeholder(name) for name in self.names] or None
        if ids is None or not all(type(i) is int and i >= 0 for i in ids):
            return None
        return tuple(ids)

    def rollout(self, *, with_logprobs: bool, token_ids: tuple[int, ...] | None) -> Rollout:
        """The choice as a rollout.

        Args:
            with_logprobs: whether the server's log-probabilities belong to the distribution sampled from.
            token_ids: the tokens; log-probabilities are left out unless there is one for each of them.
        """
        if self.finish in _BROKEN:
            return Rollout("", error=f"the server ended the completion with {self.finish!r}")
        numbers = [float(p) for p in self.logprobs if type(p) in (int, float) and math.isfinite(p)]
        fits = token_ids is not None and len(numbers) == len(self.logprobs) == len(token_ids)
        return Rollout(
            self.text,
            token_ids,
            tuple(numbers) if fits and with_logprobs else None,
            "length" if self.finish == "length" else "stop",
        )


def gather(choices: dict[int, StreamedChoice], chunk: Any) -> None:
    """Add a chunk of a stream, or a whole answer, to the choices by their index; ignore the rest of it."""
    if not isinstance(chunk, Mapping):
        return
    parts = chunk.get("choices")
    for part in parts if isinstance(parts, list) else []:
        index = part.get("index", 0) if isinstance(part, Mapping) else None
        if type(index) is int:
            choices.setdefault(index, StreamedChoice()).add(part)
    usage = chunk.get("usage")
    if isinstance(usage, Mapping) and len(choices) == 1 and type(usage.get("completion_tokens")) is int:
        next(iter(choices.values())).total = usage["completion_tokens"]


def _placeholder(name: Any) -> int | None:
    """N of `token_id:N`."""
    digits = name.removeprefix("token_id:") if isinstance(name, str) else ""
    return int(digits) if digits != name and digits.isascii() and digits.isdigit() else None


def _gather_whole(choices: dict[int, StreamedChoice], answer: Any) -> Failure | None:
    """Add an answer that came in one piece to the choices; returns the error that it may report instead."""
    gather(choices, answer)
    error = answer.get("error") if isinstance(answer, Mapping) else None
    if error is None:
        return None
    message = error.get("message") if isinstance(error, Mapping) else error
    return Failure(f"the server failed in its answer: {message!s:.200}")


# httpx of openai 2, httpx2 of openai 3
_HTTP: Any = importlib.import_module(openai.DefaultAsyncHttpxClient.__base__.__module__.partition(".")[0])

BASE_BYTES = 4 << 20
"""Bytes allowed for an answer without any token: a list of models, an error."""
TOKEN_BYTES = 2048
"""Bytes allowed for a token in a stream, with its text, id, log-probability and the frame around them."""

_tokens: contextvars.ContextVar[tuple[int, int]] = contextvars.ContextVar("tokens", default=(0, 0))


class TooLongError(Exception):
    """An answer that is longer than what was asked for can be."""


def expect(completions: int, tokens: int) -> None:
    """Limit the answers that this asyncio task reads to so many completions of so many tokens."""
    _tokens.set((completions, tokens))


def limited_client(**options: Any) -> Any:
    """A client for `openai.AsyncOpenAI` that reads no more than is allowed, and follows no redirect."""

    async def limit(response: Any) -> None:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise TooLongError("the server's answer is compressed, so its length is not known")
        completions, tokens = _tokens.get()
        body = BASE_BYTES + TOKEN_BYTES * tokens * completions
        # a chunk of a stream is of one completion; an answer in one piece may have all of them in one line
        line = body if is_whole(response) else BASE_BYTES + TOKEN_BYTES * tokens
        response.stream = LimitedBody(response.stream, body=body, line=line)

    return openai.DefaultAsyncHttpxClient(
        follow_redirects=False,
        event_hooks={"response": [limit]},
        headers={"Accept-Encoding": "identity"},  # a compressed body may be a thousand times as long
        **options,
    )


def is_whole(response: Any) -> bool:
    """Whether the server answers with one JSON document, although a stream was asked for."""
    media_type = response.headers.get("content-type", "").partition(";")[0]
    return media_type.strip().lower() == "application/json"


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


_CONNECT_SECONDS = 10.0


@dataclass(frozen=True)
class Failure:
    """Why a request brought less than was asked for.

    Attributes:
        reason: what messages say of it.
        refused: whether the server would refuse the same request again.
        wait: how many seconds the server wants to be left alone.
    """

    reason: str
    refused: bool = False
    wait: float = 0.0


class Server:
    """One server: its address, and how patient to be with it.

    Args:
        url: with the path of the API, as `http://host:8000/v1`.
        connections: requests under way at once.
        timeout: seconds that a request may take.
        retries: how often a failed request is repeated.
        backoff: seconds before the first repetition; each further one waits twice as long.
        api_key: sent as the bearer token.

    Attributes:
        counts: requests sent, and how many of them were repetitions.
        asking: held by who finds out what the server gives; of the event loop last entered.
    """

    def __init__(
        self, url: str, *, connections: int, timeout: float, retries: int, backoff: float, api_key: str | None
    ) -> None:
        self.url, self.connections, self.timeout = url, connections, timeout
        self.retries, self.backoff, self.api_key = retries, backoff, api_key
        self.counts = {"requests": 0, "retries": 0}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def enter(self) -> None:
        """Make a client for this event loop: connections do not outlive theirs."""
        if self._closed:
            raise EngineError(f"the engine of {self.url} is closed: make a new one")
        if self._loop is not asyncio.get_running_loop():
            self._loop = asyncio.get_running_loop()
            self.asking = asyncio.Lock()
            self._slots = asyncio.Semaphore(self.connections)
            timeout = openai.Timeout(self.timeout, connect=_CONNECT_SECONDS)
            self._client = openai.AsyncOpenAI(
                base_url=self.url,
                api_key=self.api_key or "none",
                max_retries=0,
                timeout=timeout,
                http_client=limited_client(timeout=timeout),
            )

    async def close(self) -> None:
        """Close the connections of this event loop."""
        self._closed = True
        if self._loop is asyncio.get_running_loop():
            await self._client.close()

    async def ask(
        self, body: dict[str, Any], needed: int, n: int
    ) -> tuple[list[StreamedChoice], Failure | None]:
        """At most n finished choices; if they are fewer than `needed`, the failure says why.

        Args:
            body: the fields of the request; unless `stream` is among them, a stream is asked for.
            needed: the request is repeated until so many choices are finished.
            n: how many the server is asked for.

        Raises:
            EngineError: the server is dead, or refuses this client or model.
        """
        finished: list[StreamedChoice] = []
        failure: Failure | None = None
        for attempt in range(self.retries + 1):
            if failure is not None:
                self.counts["retries"] += 1
                wait = max(failure.wait, self.backoff * 2 ** (attempt - 1))
                await asyncio.sleep(wait * random.uniform(0.75, 1.25))
            choices: dict[int, StreamedChoice] = {}
            failure = await self._request({"stream": True} | body | {"n": n - len(finished)}, choices)
            finished += [choices[i] for i in sorted(choices) if choices[i].finish is not None]
            if len(finished) >= needed:
                return finished[:n], None
            failure = failure or Failure("the server's answer stopped before its end")
            if failure.refused:
                break
        return finished, failure

    async def only_model(self) -> str:
        """The name of the server's model."""
        try:
            listed = await self._client.get("/models", cast_to=object)
        except openai.APIConnectionError as error:
            raise self._dead(error) from error
        except (openai.APIError, ValueError, TooLongError) as error:
            raise EngineError(f"{self.url} does not list its models ({error}): name the model") from error
        models = listed.get("data") if isinstance(listed, Mapping) else None
        models = models if isinstance(models, list) else []
        names = [str(model.get("id")) for model in models if isinstance(model, Mapping)]
        if len(names) != 1:
            has = f"several: {', '.join(names)[:300]}" if names else "none to list"
            raise EngineError(f"name the model: {self.url} has {has}")
        return names[0]

    async def _request(self, body: dict[str, Any], choices: dict[int, StreamedChoice]) -> Failure | None:
        """Send a request and gather its choices; returns what went wrong, if anything did."""
        path = "/chat/completions" if "messages" in body else "/completions"
        expect(body["n"], body["max_tokens"])
        async with self._slots:
            self.counts["requests"] += 1
            try:
                async with asyncio.timeout(self.timeout):
                    stream = await self._client.post(
                        path, cast_to=object, body=body, stream=True, stream_cls=openai.AsyncStream[object]
                    )
                    async with stream:
                        if is_whole(stream.response):
                            return _gather_whole(choices, json.loads(await stream.response.aread()))
                        async for chunk in stream:
                            gather(choices, chunk)
            except (TimeoutError, openai.APITimeoutError):
                return Failure(f"no whole answer in time ({self.timeout:g} s)")
            except openai.APIStatusError as error:
                return self._status(error, body["model"])
            except (ValueError, RecursionError) as error:
                return Failure(f"the server's answer is no JSON ({error!s:.200})")
            except Exception as error:
                for cause in (error, error.__cause__):
                    if isinstance(cause, TooLongError):
                        return Failure(str(cause), refused=True)
                if isinstance(error, openai.APIError) and not isinstance(error, openai.APIConnectionError):
                    return Failure(f"the server failed in its answer: {error.message:.200}")
                # openai 2 lets the transport's own errors through where an answer breaks off
                await self._check_alive()
                return Failure(f"the connection broke ({error.__cause__ or error})")
        return None

    def _status(self, error: openai.APIStatusError, model: Any) -> Failure:
        """What to do about an error by its HTTP status."""
        status = f"HTTP {error.status_code}: {error.message:.200}"
        if 300 <= error.status_code < 400:
            to = error.response.headers.get("location", "")
            raise EngineError(
                f"{self.url} sends requests on to {to!r:.200}: give the address that they are to go to"
            ) from error
        if error.status_code in (401, 403):
            raise EngineError(f"{self.url} refuses the key ({status}): give the right one") from error
        if error.status_code == 404:
            raise EngineError(
                f"{self.url} has no model {model!r}, or is no OpenAI-compatible server ({status}): "
                "correct the name or the address"
            ) from error
        after = error.response.headers.get("retry-after", "")
        wait = min(float(after), 60.0) if after.isascii() and after.isdigit() else 0.0
        passing = error.status_code in (408, 409, 425, 429) or error.status_code >= 500
        return Failure(status, refused=not passing, wait=wait)

    async def _check_alive(self) -> None:
        """Raise an error if the server is dead; even a late answer shows that it is not."""
        try:
            await self._client.get("/models", cast_to=object, options={"timeout": _CONNECT_SECONDS})
        except openai.APITimeoutError:
            pass
        except openai.APIConnectionError as error:
            raise self._dead(error) from error
        except (openai.APIError, ValueError, TooLongError):
            pass

    def _dead(self, error: Exception) -> EngineError:
        why = error.__cause__ or error
        return EngineError(f"no server answers at {self.url} ({why}): start it, or correct the address")
