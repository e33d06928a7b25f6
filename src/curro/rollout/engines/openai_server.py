"""An engine that asks an OpenAI-compatible server: vLLM, SGLang, `transformers serve`, others.

Requests ask for a stream, because these servers stop generating when a streaming client hangs up: that is how
a cancelled call stops. A server that does not stream is read too, but it goes on generating what was
cancelled. A tiny request before the first one finds out what a server supports.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from curro.core.errors import ConfigError, EngineError, PromptError
from curro.rollout.engines.engine import Prompt, Rollout, SamplingSettings
from curro.rollout.engines.openai_requests import Failure, Server, StreamedChoice

_OPTIONS = {
    "model": "model",
    "max_tokens": "max_new_tokens",
    "max_completion_tokens": "max_new_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
}
"""Fields of a request, and the options of the engine that set them."""
_IDS = {"return_token_ids": True, "return_tokens_as_token_ids": True}
_WHOLE = {"separate_reasoning": False}
_OWN = ("prompt", "messages", "n", "stream", "logprobs", *_IDS, *_WHOLE)
"""Fields that the engine sets itself, because it reads answers by them."""

_UNTOUCHED = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
_PLAIN = {**_UNTOUCHED, "presence_penalty": 0.0, "frequency_penalty": 0.0, "logit_bias": None}
"""Values with which fields leave the distribution sampled from as temperature and top-p make it."""


def checked_extra(extra: Mapping[str, Any] | None) -> dict[str, Any]:
    """The fields that a user adds to every request."""
    for name in extra or {}:
        if name in _OPTIONS:
            raise ConfigError(f"extra cannot have {name!r}: give the engine's option {_OPTIONS[name]}")
        if name in _OWN:
            raise ConfigError(f"extra cannot have {name!r}: the engine sets it itself; leave it out")
    return dict(extra or {})


def is_plain(extra: Mapping[str, Any]) -> bool:
    """Whether these fields leave the distribution sampled from as temperature and top-p make it."""
    return all(extra.get(name, value) == value for name, value in _PLAIN.items())


def field_sets(chat: bool, *, is_greedy: bool) -> list[dict[str, Any]]:
    """Fields to try, the most first: servers differ in what they know, and strict ones refuse the rest."""
    logprobs = {"logprobs": True if chat else 1}
    whole = _WHOLE if chat else {}
    # `transformers serve` samples as the model's generation config says, which may be greedily
    config = {"do_sample": not is_greedy, "top_k": 0}
    return [logprobs | _UNTOUCHED | _IDS | whole, {"generation_config": json.dumps(config)}, logprobs, {}]


def retokenized(tokenizer: Any, text: str, *, stopped: bool, total: int | None) -> tuple[int, ...] | None:
    """The tokens of a completion, None if they cannot be told for sure.

    They are right only if they decode to the text and, where the server counts tokens, are as many. A model
    may have written another spelling of the same text in tokens; without a count that goes unseen.

    Args:
        tokenizer: the model's, of transformers.
        text: the completion, without special tokens.
        stopped: whether the model ended it; the end-of-sequence token is added then.
        total: how many tokens the server says there were.
    """
    ids = list(tokenizer(text, add_special_tokens=False)["input_ids"])
    if tokenizer.decode(ids, skip_special_tokens=True) != text:
        return None
    if stopped and tokenizer.eos_token_id is not None:
        ids.append(tokenizer.eos_token_id)
    return None if total is not None and total != len(ids) else tuple(ids)


_PROBE = "curro asks 7391"
"""A prompt of several tokens: if an answer of one token contains it, the server has repeated the prompt."""


@dataclass(frozen=True)
class Capabilities:
    """What a server supports.

    Attributes:
        several: whether it returns `n` completions to one request, at this temperature.
        logprobs: whether it returns log-probabilities of the tokens.
        token_ids: whether it returns the ids of the tokens.
        fields: the fields of a request that make it return all that.
    """

    several: bool
    logprobs: bool
    token_ids: bool
    fields: Mapping[str, Any]


class OpenAIEngine:
    """Rollouts from `/v1/completions` (plain text) and `/v1/chat/completions` (conversations).

    A request that fails (HTTP 429 or 5xx, a broken answer, no answer in time) is repeated, with twice the
    wait each time; rollouts that still lack then carry `error`. What the server refuses (other HTTP 4xx) is
    not repeated, nor is an answer that is longer than the tokens asked for can be. At temperature 0 a request
    is for one completion: vLLM refuses to give several.

    Args:
        base_url: `http://host:port`, or with a path as `http://host:port/v1`.
        model: the model's name there; None where the server has one only.
        max_new_tokens: tokens a rollout, at most.
        temperature: of sampling, without top-k and penalties where the server lets itself be told.
        top_p: tokens are drawn from the likeliest that have this probability together.
        tokenizer: the model's; gives token ids where the server does not.
        connections: requests under way at once.
        timeout: seconds that a request may take, its wait on the server included.
        retries: how often a failed request is repeated.
        backoff: seconds before the first repetition.
        api_key: sent as the bearer token.
        tempered_logprobs: the server's log-probabilities belong to the distribution sampled from, as
            vLLM's are with `--logprobs-mode processed_logprobs`. Where False, there are none where
            temperature, top-p or `extra` change the distribution.
        extra: further fields of every request, as `{"chat_template_kwargs": {"enable_thinking": False}}`;
            no field that the engine sets.

    Raises:
        ConfigError: an option out of range, no http address, or a field in `extra` that the engine sets.
    """

    def __init__(
        self,
        base_url: str,
        model: str | None = None,
        *,
        max_new_tokens: int,
        temperature: float = 1.0,
        top_p: float = 1.0,
        tokenizer: Any = None,
        connections: int = 64,
        timeout: float = 600.0,
        retries: int = 3,
        backoff: float = 1.0,
        api_key: str | None = None,
        tempered_logprobs: bool = False,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        address = urlsplit(base_url)
        if address.scheme not in ("http", "https") or not address.netloc:
            raise ConfigError(f"a server's address is like http://localhost:8000, not {base_url!r}")
        if connections < 1 or retries < 0 or not timeout > 0:
            raise ConfigError(
                "connections is a number from 1, retries from 0, and timeout is above 0: "
                f"not {connections}, {retries} and {timeout}"
            )
        self.settings = SamplingSettings(max_new_tokens, temperature, top_p)
        self.server = Server(
            base_url.rstrip("/") + ("" if address.path.strip("/") else "/v1"),
            connections=connections,
            timeout=timeout,
            retries=retries,
            backoff=backoff,
            api_key=api_key,
        )
        self.model, self.tokenizer = model, tokenizer
        self.extra = checked_extra(extra)
        self.with_logprobs = tempered_logprobs or (self.settings.is_plain and is_plain(self.extra))
        self.sampling = {"max_tokens": max_new_tokens, "temperature": temperature, "top_p": top_p}
        self._counts = dict.fromkeys(("rollouts", "failed", "retokenized", "not_round_trip"), 0)
        self._capabilities: dict[bool, Capabilities] = {}

    async def generate(self, prompt: Prompt, n: int) -> list[Rollout]:
        """n rollouts of a prompt, failed ones included.

        Raises:
            EngineError: no server answers at the address, or it refuses every request (a wrong key, a wrong
                model), or the engine is closed.
            PromptError: the server refuses this prompt.
        """
        capabilities = await self.capabilities(chat=not isinstance(prompt, str))
        body = self._body(prompt, capabilities.fields)
        sizes = [n] if capabilities.several else [1] * n
        answers = await _together([self.server.ask(body, size, size) for size in sizes if size])
        choices, failure = answers[0]
        if sizes[0] > 1 and _refuses_several(failure) and not choices:
            sizes = [1] * n  # it gave two to the first request, and gives no more than some number
            answers = await _together([self.server.ask(body, 1, 1) for _ in sizes])
        rollouts: list[Rollout] = []
        for size, (choices, failure) in zip(sizes, answers, strict=True):
            failed = Rollout("", error=failure.reason if failure else "")
            rollouts += [self._rollout(choice) for choice in choices] + [failed] * (size - len(choices))
        self._counts["rollouts"] += len(rollouts)
        self._counts["failed"] += sum(rollout.error is not None for rollout in rollouts)
        refused = [failure.reason for _, failure in answers if failure and failure.refused]
        if refused and not any(choices for choices, _ in answers):
            raise PromptError(f"{self.server.url} refuses the prompt {prompt!r:.80} ({refused[0]})")
        return rollouts

    async def capabilities(self, *, chat: bool = False) -> Capabilities:
        """What the server supports for plain prompts, or for conversations; it is asked once.

        Raises:
            EngineError: as `generate`.
        """
        self.server.enter()
        async with self.server.asking:
            if chat not in self._capabilities:
                self._capabilities[chat] = await self._probe(chat)
        return self._capabilities[chat]

    async def close(self) -> None:
        """Close the connections; nothing is generated after this."""
        await self.server.close()

    def metrics(self) -> dict[str, float]:
        """Requests and repeated ones; rollouts and failed ones; texts tokenised again, those without ids."""
        counts = self.server.counts | self._counts
        return {f"engine/{name}": float(count) for name, count in counts.items()}

    def _body(self, prompt: Prompt, fields: Mapping[str, Any]) -> dict[str, Any]:
        prompt_field = {"prompt": prompt} if isinstance(prompt, str) else {"messages": list(prompt)}
        return {**prompt_field, **self.sampling, "model": self.model, **fields, **self.extra}

    async def _probe(self, chat: bool) -> Capabilities:
        if self.model is None:
            self.model = await self.server.only_model()
        prompt: Prompt = [{"role": "user", "content": _PROBE}] if chat else _PROBE
        reason, is_greedy = "an empty answer", self.settings.is_greedy
        remaining = field_sets(chat, is_greedy=is_greedy)
        without_stream: dict[str, Any] = {}
        while remaining:
            fields = remaining[0] | without_stream
            body = self._body(prompt, fields) | {"max_tokens": 1}
            for several in (1,) if is_greedy else (2, 1):  # some servers refuse a request for two
                choices, failure = await self.server.ask(body, needed=1, n=several)
                if choices or not _refuses_several(failure):
                    break
            if choices and _PROBE in choices[0].text:
                raise EngineError(
                    f"the server at {self.server.url} repeats the conversation in its answers: use plain "
                    "prompts, or a server that reads the model's chat template"
                )
            if choices:
                return Capabilities(
                    several=len(choices) > 1,
                    logprobs=any(choice.logprobs for choice in choices),
                    token_ids=any(choice.token_ids is not None for choice in choices),
                    fields=fields,
                )
            reason = failure.reason if failure else reason
            if failure is None or not failure.refused:
                break
            if "stream" in reason.lower() and not without_stream:
                without_stream = {"stream": False}  # the same fields again, in an answer of one piece
            else:
                del remaining[0]
        raise EngineError(
            f"the server at {self.server.url} answers no request for the model {self.model!r}: {reason}"
        )

    def _rollout(self, choice: StreamedChoice) -> Rollout:
        ids = choice.token_ids
        if ids is None and self.tokenizer is not None:
            stopped = choice.finish != "length"
            ids = retokenized(self.tokenizer, choice.text, stopped=stopped, total=choice.total)
            self._counts["retokenized"] += 1
            self._counts["not_round_trip"] += ids is None
        return choice.rollout(with_logprobs=self.with_logprobs, token_ids=ids)


async def _together(coroutines: list[Coroutine[Any, Any, Any]]) -> list[Any]:
    """Their results; when one fails, or the caller is cancelled, none is left running."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


_SEVERAL = re.compile(r"\bn\b|\bchoices?\b|\bcompletions? (?:choice|per)", re.IGNORECASE)
"""What servers that give one completion a request say of a request for several."""


def _refuses_several(failure: Failure | None) -> bool:
    """Whether a server refused a request because it asks for several completions: what it says names `n`."""
    return failure is not None and failure.refused and _SEVERAL.search(failure.reason) is not None
