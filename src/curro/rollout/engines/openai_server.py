"""An engine that asks an OpenAI-compatible server: vLLM, SGLang, `transformers serve`, others.

A rollout is a request of its own: some servers give no more to a request, and others that give several keep
a prompt that they have just seen. Requests ask for a stream, because these servers stop generating when a
streaming client hangs up: that is how a cancelled call stops. A server that does not stream is read too, but
it goes on generating what was cancelled. A tiny request before the first one finds out what a server knows.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import random
import re
from collections.abc import AsyncIterator, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from curro.core.errors import ConfigError, EngineError, PromptError
from curro.core.text import install_extra
from curro.rollout.engines.engine import Prompt, Rollout, SamplingSettings

try:
    import openai
except ImportError:
    raise ImportError(f"OpenAIEngine needs the package openai: {install_extra('server')}") from None

_IDS = {"return_token_ids": True}
_WHOLE = {"separate_reasoning": False}
_UNTOUCHED = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
"""Values with which fields leave the distribution sampled from as temperature and top-p make it."""


def field_sets(chat: bool, *, is_greedy: bool) -> list[dict[str, Any]]:
    """Fields to try, the most first: servers differ in what they know, and strict ones refuse the rest."""
    logprobs = {"logprobs": True if chat else 1}
    whole = _WHOLE if chat else {}
    # `transformers serve` samples as the model's generation config says, which may be greedily
    config = {"do_sample": not is_greedy, "top_k": 0}
    return [logprobs | _UNTOUCHED | _IDS | whole, {"generation_config": json.dumps(config)}, logprobs, {}]


_BROKEN = ("abort", "cancelled", "timeout", "error", "content_filter", "safety", "recitation")
"""Reasons to finish with which a server withholds the completion, or has none."""

_CUT = ("length", "max_tokens", "max_output_tokens", "model_length")
"""Reasons to finish that say that the limit cut the completion: OpenAI's, and those of other makers."""


@dataclass
class Answer:
    """One completion, put together from the chunks in which it arrives; one JSON document is a single chunk.

    Attributes:
        pieces: the parts of the text.
        ids, logprobs: the tokens', as the server sent them; ids is None where it sent none.
        likeliest: in each token's place the log-probabilities of the likeliest tokens, where they were asked.
        finish: the server's reason to finish; None while the completion goes on.
    """

    pieces: list[str] = field(default_factory=list)
    ids: list[Any] | None = None
    logprobs: list[Any] = field(default_factory=list)
    likeliest: list[list[float]] = field(default_factory=list)
    finish: str | None = None

    def add(self, chunk: Any) -> None:
        """Take in a chunk; what no server of this kind sends is ignored."""
        if not isinstance(chunk, Mapping):
            return
        parts = chunk.get("choices")
        for part in parts if isinstance(parts, list) else []:
            if isinstance(part, Mapping) and part.get("index", 0) == 0:
                self._add(part)

    def _add(self, part: Mapping[str, Any]) -> None:
        message = part.get("delta", part.get("message"))
        piece = message.get("content") if isinstance(message, Mapping) else part.get("text")
        if isinstance(piece, list):  # parts, of which a thought's are not the answer
            texts = [item.get("text") for item in piece if isinstance(item, Mapping) and "text" in item]
            piece = "".join(text for text in texts if isinstance(text, str))
        if isinstance(piece, str):
            self.pieces.append(piece)
        sent = (part.get(name) for name in ("token_ids", "response_token_ids"))
        ids = next((ids for ids in sent if isinstance(ids, list)), None)
        if ids is not None:
            self.ids = [*(self.ids or ()), *ids]
        logprobs = part.get("logprobs")
        if isinstance(logprobs, Mapping):
            content = logprobs.get("content")
            if isinstance(content, list):
                items = [item if isinstance(item, Mapping) else {} for item in content]
                self.logprobs += [item.get("logprob") for item in items]
                self.likeliest += [_numbers(item.get("top_logprobs")) for item in items]
            elif isinstance(logprobs.get("token_logprobs"), list):
                self.logprobs += logprobs["token_logprobs"]
                places = logprobs.get("top_logprobs")
                self.likeliest += map(_numbers, places) if isinstance(places, list) else ()
        if isinstance(part.get("finish_reason"), str):
            self.finish = part["finish_reason"]

    @property
    def text(self) -> str:
        """What the model wrote; halves of characters (lone surrogates) become U+FFFD."""
        return "".join(self.pieces).encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    @property
    def token_ids(self) -> tuple[int, ...] | None:
        """The tokens, where the server tells them."""
        if self.ids is None or not all(type(i) is int and 0 <= i < 1 << 31 for i in self.ids):
            return None
        return tuple(self.ids)

    def rollout(self, *, with_logprobs: bool) -> Rollout:
        """The completion as a rollout; log-probabilities are left out unless there is one for each token.

        Args:
            with_logprobs: whether the server's log-probabilities belong to the distribution sampled from.
        """
        finish = (self.finish or "").lower()
        if finish in _BROKEN:
            return Rollout("", error=f"the server ended the completion with {self.finish!r}")
        token_ids = self.token_ids
        numbers = _numbers(self.logprobs)
        fits = token_ids is not None and len(numbers) == len(self.logprobs) == len(token_ids)
        return Rollout(
            self.text,
            token_ids,
            tuple(numbers) if fits and with_logprobs else None,
            "length" if finish in _CUT else "stop",
        )


def _numbers(values: Any) -> list[float]:
    """The log-probabilities in a list of them or of tokens, or in an object with those of texts."""
    values = values.values() if isinstance(values, Mapping) else values if isinstance(values, list) else ()
    numbers: list[Any] = [value.get("logprob") if isinstance(value, Mapping) else value for value in values]
    # servers write -9999 for a token that cannot come; rounding makes the logarithm of 1 a little more than 0
    return [float(p) for p in numbers if type(p) in (int, float) and -1e4 <= p <= 1e-3]


# httpx of openai 2, httpx2 of openai 3
_HTTP: Any = importlib.import_module(openai.DefaultAsyncHttpxClient.__base__.__module__.partition(".")[0])

BASE_BYTES = 4 << 20
"""Bytes allowed for an answer without any token: a list of models, an error."""
TOKEN_BYTES = 2048
"""Bytes allowed for a token in a stream, with its text, id, log-probability and the frame around them."""


class TooLongError(Exception):
    """An answer that is longer than what was asked for can be."""


def limited_client(tokens: int, **options: Any) -> Any:
    """A client for `openai.AsyncOpenAI` without redirects that reads no more than so many tokens take."""

    async def limit(response: Any) -> None:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise TooLongError("the server's answer is compressed, so its length is not known")
        response.stream = LimitedBody(response.stream, BASE_BYTES + TOKEN_BYTES * tokens)

    return openai.DefaultAsyncHttpxClient(
        follow_redirects=False,
        event_hooks={"response": [limit]},
        headers={"Accept-Encoding": "identity"},  # a compressed body may be a thousand times as long
        **options,
    )


class LimitedBody(_HTTP.AsyncByteStream):
    """A body that ends in `TooLongError` when it has too many bytes."""

    def __init__(self, stream: Any, limit: int) -> None:
        self.stream, self.limit = stream, limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total = 0
        async for chunk in self.stream:
            total += len(chunk)
            if total > self.limit:
                raise TooLongError(f"the server's answer has more than {self.limit:,} bytes")
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


@dataclass(eq=False, repr=False)  # or tracebacks would show the key
class Server:
    """One server and its options, which are those of `OpenAIEngine`.

    Attributes:
        url: with the path of the API, as `http://host:8000/v1`.
        tokens: the most tokens of an answer; a longer one is not read.
        asking: held by who finds out what the server gives; of the event loop last entered.
    """

    url: str
    tokens: int
    connections: int
    timeout: float
    retries: int
    backoff: float
    api_key: str | None
    asking: asyncio.Lock = field(init=False)
    _loop: asyncio.AbstractEventLoop | None = field(default=None, init=False)
    _closed: bool = field(default=False, init=False)

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
                http_client=limited_client(self.tokens, timeout=timeout),
            )

    async def close(self) -> None:
        """Close the connections of this event loop."""
        self._closed = True
        if self._loop is asyncio.get_running_loop():
            await self._client.close()

    async def ask(self, body: dict[str, Any]) -> Answer | Failure:
        """A finished completion, or why there is none after all retries.

        Args:
            body: the fields of the request; unless `stream` is among them, a stream is asked for.

        Raises:
            EngineError: no server answers, or it refuses this client or model.
        """
        wait, backoff = 0.0, self.backoff
        for attempt in range(self.retries + 1):
            if attempt:
                await asyncio.sleep(wait + backoff * random.uniform(0.75, 1.25))
                backoff *= 2
            answer = await self._request({"stream": True} | body)
            if isinstance(answer, Answer) or answer.refused:
                break
            wait = answer.wait
        return answer

    async def only_model(self) -> str:
        """The name of the server's model."""
        try:
            names = [str(model.id) for model in (await self._client.models.list()).data]
        except openai.APIConnectionError as error:
            raise self._dead(error) from error
        except (TypeError, AttributeError):  # what the client makes of another answer than a list
            names = []
        except (openai.APIError, ValueError, RecursionError, TooLongError) as error:
            raise EngineError(f"{self.url} does not list its models ({error}): name the model") from error
        if len(names) != 1:
            has = f"several: {', '.join(names)[:300]}" if names else "none to list"
            raise EngineError(f"name the model: {self.url} has {has}")
        return names[0]

    async def _request(self, body: dict[str, Any]) -> Answer | Failure:
        path = "/chat/completions" if "messages" in body else "/completions"
        answer = Answer()
        async with self._slots:
            try:
                async with asyncio.timeout(self.timeout):
                    stream = await self._client.post(
                        path, cast_to=object, body=body, stream=True, stream_cls=openai.AsyncStream[object]
                    )
                    async with stream:
                        media_type = stream.response.headers.get("content-type", "no type")
                        if media_type.partition(";")[0].strip().lower() == "application/json":
                            whole = json.loads(await stream.response.aread())
                            if failure := _reported(whole):
                                return failure
                            answer.add(whole)
                            if answer.finish is None and answer.text:  # it is whole, whatever it lacks
                                answer.finish = "stop"
                        else:
                            async for chunk in stream:
                                answer.add(chunk)
            except (TimeoutError, openai.APITimeoutError):
                return Failure(f"no whole answer in time ({self.timeout:g} s)")
            except openai.APIStatusError as error:
                return self._status(error, body["model"])
            except (ValueError, RecursionError) as error:
                return Failure(f"the server's answer is no JSON ({error!s:.200})")
            except Exception as error:
                # openai 2 lets the transport's own errors through where an answer breaks off
                for cause in (error, error.__cause__):
                    if isinstance(cause, TooLongError):
                        return Failure(str(cause), refused=True)
                    if isinstance(cause, _HTTP.ConnectError):
                        raise self._dead(error) from error
                if isinstance(error, openai.APIError) and not isinstance(error, openai.APIConnectionError):
                    return Failure(f"the server failed in its answer: {error.message:.200}")
                return Failure(f"the connection broke ({error.__cause__ or error})")
        if answer.finish is not None:
            return answer
        return Failure(f"the server's answer ({media_type:.50}) stopped before its end")

    def _status(self, error: openai.APIStatusError, model: Any) -> Failure:
        """What to do about an error by its HTTP status."""
        said = error.message if " - " in error.message else str(error.body or error.message)
        status = f"HTTP {error.status_code}: {said:.200}"  # openai 3 leaves out what no `message` holds
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
        wait = min(float(after), 60.0) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", after) else 0.0
        passing = error.status_code in (408, 409, 425, 429) or error.status_code >= 500
        return Failure(status, refused=not passing, wait=wait)

    def _dead(self, error: Exception) -> EngineError:
        why = error.__cause__ or error
        return EngineError(f"no server answers at {self.url} ({why}): start it, or correct the address")


def _reported(answer: Any) -> Failure | None:
    """The error that an answer in one piece may report."""
    error = answer.get("error") if isinstance(answer, Mapping) else None
    if error is None:
        return None
    message = error.get("message") if isinstance(error, Mapping) else error
    return Failure(f"the server failed in its answer: {message!s:.200}")


_PROBE = "curro asks 7391"
"""A prompt of several tokens: if an answer of one token contains it, the server has repeated the prompt."""


class OpenAIEngine:
    """Rollouts from `/v1/completions` (plain text) and `/v1/chat/completions` (conversations).

    A request that fails (HTTP 429 or 5xx, a broken answer, no answer in time) is repeated, with twice the
    wait each time; rollouts that still lack then carry `error`. What the server refuses (other HTTP 4xx) is
    not repeated, nor is an answer that is longer than the tokens asked for can be.

    Args:
        base_url: `http://host:port`, or with a path as `http://host:port/v1`.
        model: the model's name there; None where the server has one only.
        max_new_tokens: tokens a rollout, at most.
        temperature: the sampler's, without top-k and penalties where the server lets itself be told.
        top_p: tokens are drawn from the likeliest that have this probability together.
        connections: requests under way at once.
        timeout: seconds that a request may take, its wait on the server included.
        retries: how often a failed request is repeated.
        backoff: seconds before the first repetition.
        api_key: sent as the bearer token.
        tempered_logprobs: the server's log-probabilities belong to the distribution sampled from, as
            vLLM's are with `--logprobs-mode processed_logprobs`. Where False, there are none where
            temperature or top-p change the distribution.

    Raises:
        ConfigError: an option out of range, or no http address.
    """

    def __init__(
        self,
        base_url: str,
        model: str | None = None,
        *,
        max_new_tokens: int,
        temperature: float = 1.0,
        top_p: float = 1.0,
        connections: int = 256,
        timeout: float = 600.0,
        retries: int = 3,
        backoff: float = 1.0,
        api_key: str | None = None,
        tempered_logprobs: bool = False,
    ) -> None:
        try:
            address = urlsplit(base_url)
            is_address = address.scheme in ("http", "https") and bool(address.netloc) and address.port != 0
        except ValueError:  # a port that is no number, half of an IPv6 address
            is_address = False
        if not is_address:
            raise ConfigError(f"a server's address is like http://localhost:8000, not {base_url!r}")
        if connections < 1 or retries < 0 or not timeout > 0:
            raise ConfigError(
                "connections is a number from 1, retries from 0, and timeout is above 0: "
                f"not {connections}, {retries} and {timeout}"
            )
        api_key = (api_key or "").strip()
        if not re.fullmatch(r"[!-~]*", api_key):
            raise ConfigError("the api_key has characters that no HTTP header holds: copy it once more")
        self.settings = SamplingSettings(max_new_tokens, temperature, top_p)
        url = base_url.rstrip("/") + ("" if address.path.strip("/") else "/v1")
        self.server = Server(url, max_new_tokens, connections, timeout, retries, backoff, api_key)
        self.model = model
        self.with_logprobs = tempered_logprobs or self.settings.is_plain
        self.sampling = {"max_tokens": max_new_tokens, "temperature": temperature, "top_p": top_p}
        self._fields: dict[bool, dict[str, Any]] = {}

    async def generate(self, prompt: Prompt, n: int) -> list[Rollout]:
        """n rollouts of a prompt, failed ones included.

        Raises:
            EngineError: no server answers at the address, or it refuses every request (a wrong key, a wrong
                model), or the engine is closed.
            PromptError: the server refuses this prompt.
        """
        body = self._body(prompt, await self.fields(chat=not isinstance(prompt, str)))
        answers = await together([self.server.ask(body) for _ in range(n)])
        rollouts = [
            answer.rollout(with_logprobs=self.with_logprobs)
            if isinstance(answer, Answer)
            else Rollout("", error=answer.reason)
            for answer in answers
        ]
        failures = [answer for answer in answers if isinstance(answer, Failure)]
        refused = [failure.reason for failure in failures if failure.refused]
        if refused and len(failures) == n:
            raise PromptError(f"{self.server.url} refuses the prompt {prompt!r:.80} ({refused[0]})")
        return rollouts

    async def fields(self, *, chat: bool = False) -> Mapping[str, Any]:
        """The fields that the server knows of requests for plain prompts, or conversations; it is asked once.

        Raises:
            EngineError: as `generate`.
        """
        self.server.enter()
        async with self.server.asking:
            if chat not in self._fields:
                self._fields[chat] = await self._probe(chat)
        return self._fields[chat]

    async def close(self) -> None:
        """Close the connections; nothing is generated after this."""
        await self.server.close()

    def _body(self, prompt: Prompt, fields: Mapping[str, Any]) -> dict[str, Any]:
        prompt_field = {"prompt": prompt} if isinstance(prompt, str) else {"messages": list(prompt)}
        return {**prompt_field, **self.sampling, "model": self.model, **fields}

    async def _probe(self, chat: bool) -> dict[str, Any]:
        if self.model is None:
            self.model = await self.server.only_model()
        prompt: Prompt = [{"role": "user", "content": _PROBE}] if chat else _PROBE
        remaining = field_sets(chat, is_greedy=self.settings.is_greedy)
        stream, is_short = dict[str, Any](), True
        reason, broken, was_asked_again = "", list[dict[str, Any]](), False
        while remaining:
            fields = remaining[0] | stream
            short = {"max_tokens": 1} if is_short and "max_tokens" in self.sampling else {}
            answer = await self.server.ask(self._body(prompt, fields) | short)
            if isinstance(answer, Answer):
                if _PROBE in answer.text:
                    raise EngineError(
                        f"the server at {self.server.url} repeats the conversation in its answers: use plain "
                        "prompts, or a server that reads the model's chat template"
                    )
                if not broken:
                    return fields
                # a server that was starting fails whatever it is asked: its failure is believed once more
                remaining, broken, was_asked_again = [broken[0], remaining[0]], [], True
                continue
            reason = answer.reason
            # some answer with 500 where they lack a field, as llama-cpp-python does log-probabilities
            if not answer.refused and not was_asked_again:
                broken.append(remaining[0])
            if not (answer.refused or reason.startswith("HTTP 500")):
                break
            if "stream" in reason.lower() and not stream:
                stream = {"stream": False}  # the same fields again, in an answer of one piece
            elif "max_completion_tokens" in reason and short:  # OpenAI's name for models that think
                self.sampling["max_completion_tokens"] = self.sampling.pop("max_tokens")
            elif "max_tokens" in reason and short:  # some want room for more than one
                is_short = False
            else:
                del remaining[0]
            if not remaining and "top_p" in reason and self.sampling.get("top_p") == 1.0:
                del self.sampling["top_p"]  # TGI refuses the value that changes nothing
                remaining = field_sets(chat, is_greedy=self.settings.is_greedy)
        raise EngineError(
            f"the server at {self.server.url} answers no request for the model {self.model!r}: {reason}"
        )


async def together(coroutines: list[Coroutine[Any, Any, Any]]) -> list[Any]:
    """Their results; when one fails, or the caller is cancelled, none is left running."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
