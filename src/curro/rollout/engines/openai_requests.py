"""Streaming requests to an OpenAI-compatible server, repeated where that may help."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

try:
    import openai
except ImportError:
    raise ImportError("OpenAIEngine needs the package openai: pip install 'curro[server]'") from None

from curro.errors import EngineError
from curro.rollout.engines.server_answer import Completion, gather
from curro.rollout.engines.server_limits import TooLongError, expect, limited_client

_CONNECT_SECONDS = 10.0


@dataclass(frozen=True)
class Failure:
    """Why a request brought less than was asked for.

    Attributes:
        reason: for people.
        refused: asking again is no use.
        wait: seconds that the server wants to be left alone.
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
        """Make a client for this event loop: connections do not outlive theirs.

        Raises:
            EngineError: the server was closed.
        """
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

    async def ask(self, body: dict[str, Any], wanted: int, n: int) -> tuple[list[Completion], Failure | None]:
        """Finished choices: n are asked for, and again until there are `wanted`, or the failure says why not.

        Raises:
            EngineError: the server is dead, or refuses this client or model.
        """
        finished: list[Completion] = []
        failure: Failure | None = None
        for attempt in range(self.retries + 1):
            if failure is not None:
                self.counts["retries"] += 1
                wait = max(failure.wait, self.backoff * 2 ** (attempt - 1))
                await asyncio.sleep(wait * random.uniform(0.75, 1.25))
            choices: dict[int, Completion] = {}
            failure = await self._stream(body | {"n": n - len(finished), "stream": True}, choices)
            finished += [choices[i] for i in sorted(choices) if choices[i].finish is not None]
            if len(finished) >= wanted:
                return finished[:n], None
            failure = failure or Failure("the server's answer stopped before its end")
            if failure.refused:
                break
        return finished, failure

    async def only_model(self) -> str:
        """The name of the server's model.

        Raises:
            EngineError: it has several or does not tell, or the server is dead.
        """
        try:
            listed = await self._client.get("/models", cast_to=object)
        except openai.APIConnectionError as error:
            raise self._dead(error) from error
        except (openai.APIError, ValueError, TooLongError) as error:
            raise EngineError(f"{self.url} does not list its models ({error}): name the model") from error
        models = listed.get("data") if isinstance(listed, Mapping) else None
        found = models if isinstance(models, list) else []
        names = [str(model.get("id")) for model in found if isinstance(model, Mapping)]
        if len(names) != 1:
            has = f"several: {', '.join(names)[:300]}" if names else "none to list"
            raise EngineError(f"name the model: {self.url} has {has}")
        return names[0]

    async def _stream(self, body: dict[str, Any], choices: dict[int, Completion]) -> Failure | None:
        """Send a request and gather its choices; says what went wrong, if anything."""
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
                        async for chunk in stream:
                            gather(choices, chunk)
            except (TimeoutError, openai.APITimeoutError):
                return Failure(f"no whole answer in time ({self.timeout:g} s)")
            except openai.APIStatusError as error:
                return self._status(error, body["model"])
            except ValueError as error:
                return Failure(f"the server's answer is no JSON ({error!s:.200})")
            except Exception as error:
                for found in (error, error.__cause__):
                    if isinstance(found, TooLongError):
                        return Failure(str(found), refused=True)
                if isinstance(error, openai.APIError) and not isinstance(error, openai.APIConnectionError):
                    return Failure(f"the server failed in its answer: {error.message:.200}")
                # openai 2 lets the transport's own errors through where an answer breaks off
                await self._check_alive()
                return Failure(f"the connection broke ({error.__cause__ or error})")
        return None

    def _status(self, error: openai.APIStatusError, model: Any) -> Failure:
        said = f"HTTP {error.status_code}: {error.message:.200}"
        if 300 <= error.status_code < 400:
            to = error.response.headers.get("location", "")
            raise EngineError(
                f"{self.url} sends requests on to {to!r:.200}: give the address that they are to go to"
            ) from error
        if error.status_code in (401, 403):
            raise EngineError(f"{self.url} refuses the key ({said}): give the right one") from error
        if error.status_code == 404:
            raise EngineError(
                f"{self.url} has no model {model!r}, or is no OpenAI-compatible server ({said}): "
                "correct the name or the address"
            ) from error
        after = error.response.headers.get("retry-after", "")
        wait = min(float(after), 60.0) if after.isascii() and after.isdigit() else 0.0
        passing = error.status_code in (408, 409, 425, 429) or error.status_code >= 500
        return Failure(said, refused=not passing, wait=wait)

    async def _check_alive(self) -> None:
        """Any answer is a sign of life. So is a late one: the server may be busy."""
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
