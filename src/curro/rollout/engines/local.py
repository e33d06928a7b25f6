"""An engine that generates with a transformers model in this process."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from transformers import LogitsProcessor, LogitsProcessorList, StoppingCriteria, StoppingCriteriaList

from curro.core.errors import ConfigError, EngineError, PromptError
from curro.rollout.engines.engine import Prompt, Rollout, SamplingSettings
from curro.rollout.engines.plain_generation import (
    drawn_tokens,
    end_ids,
    evaluating,
    generation_config,
    padded,
    prompt_ids,
    shared_prefixes,
    up_to_end,
)


class SeededSampling(LogitsProcessor):
    """Draws a token a row by inverting its cumulative distribution, and leaves no other to choose.

    Args:
        uniforms_BT: in [0, 1), a number for each of B rows and T tokens.
        settings: temperature and top-p.

    Attributes:
        tokens_BT: int64, filled up to `step`.
        logprobs_BT: float32, natural logarithms under the distribution that is drawn from: tempered, cut to
            the likeliest tokens by top-p and normalised again. 0 where the likeliest token is taken.
        step: how many tokens were drawn of each row.
    """

    def __init__(self, uniforms_BT: np.ndarray, settings: SamplingSettings, device: Any) -> None:
        self.uniforms_BT = torch.from_numpy(uniforms_BT).to(device)
        self.settings = settings
        self.tokens_BT = torch.zeros(uniforms_BT.shape, dtype=torch.int64, device=device)
        self.logprobs_BT = torch.zeros(uniforms_BT.shape, dtype=torch.float32, device=device)
        self.step = 0

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        logprobs_BV = _log_distribution(scores.float(), self.settings)
        token_B1 = drawn_tokens(logprobs_BV.exp(), self.uniforms_BT[:, self.step, None])
        self.tokens_BT[:, self.step] = token_B1[:, 0]
        self.logprobs_BT[:, self.step] = logprobs_BV.gather(1, token_B1)[:, 0]
        self.step += 1
        return torch.full_like(scores, -torch.inf).scatter_(1, token_B1, 0.0)


def _log_distribution(scores_BV: torch.Tensor, settings: SamplingSettings) -> torch.Tensor:
    """Log-probabilities (B, V) of what is drawn from; -inf outside of top-p's tokens."""
    if settings.is_greedy:
        likeliest_B1 = scores_BV.argmax(-1, keepdim=True)
        # 0 times its score is 0, or NaN where that is not finite, for the caller to find
        zero_B1 = 0 * scores_BV.gather(1, likeliest_B1)
        return torch.full_like(scores_BV, -torch.inf).scatter(1, likeliest_B1, zero_B1)
    logprobs_BV = torch.log_softmax(scores_BV / settings.temperature, dim=-1)
    if settings.top_p == 1:
        return logprobs_BV
    sorted_BV, order_BV = logprobs_BV.sort(stable=True, dim=-1, descending=True)
    probability_BV = sorted_BV.double().exp()
    before_BV = probability_BV.cumsum(-1) - probability_BV
    kept_BV = torch.full_like(sorted_BV, -torch.inf).where(before_BV >= settings.top_p, sorted_BV)
    kept_BV = torch.log_softmax(kept_BV, dim=-1)
    return torch.empty_like(logprobs_BV).scatter_(1, order_BV, kept_BV)


class _Unwanted(StoppingCriteria):
    """Ends rows that nobody waits for any more; asked after every token."""

    def __init__(self, is_unwanted: Callable[[], list[bool]]) -> None:
        self.is_unwanted = is_unwanted

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        return torch.tensor(self.is_unwanted(), device=input_ids.device)


@dataclass(eq=False)
class _Request:
    """A call of `generate` that waits for n rollouts."""

    ids: list[int]
    uniforms_NT: np.ndarray
    answer: asyncio.Future[list[Rollout]]
    rollouts: dict[int, Rollout] = field(default_factory=dict)
    cancelled: bool = False

    def fail(self, error: EngineError) -> None:
        self.cancelled = True
        if not self.answer.done():
            self.answer.set_exception(error)


class LocalEngine:
    """Batches the requests that wait and generates in a thread, one batch after another.

    Only `temperature` and `top_p` change the distribution that tokens are drawn from: there is no top-k and
    no penalty. The random numbers of a rollout follow from the seed, the prompt and how often that prompt
    came before: neither the order of requests nor the batch they share changes it, but for rounding. torch's
    generators are not used.

    Token ids end with the end-of-sequence token where the model wrote it. A request is answered when the
    batches with its rollouts are done.

    The model is in evaluation mode while it generates, and must not be trained at that time. When all calls
    are over, it generates no more and is in the mode that it was in before: a cancelled call stops at the
    next token and is over only then.

    Args:
        model: a causal language model of transformers, on any device.
        tokenizer: its tokenizer; conversations need its chat template.
        max_new_tokens: tokens a rollout, at most.
        temperature: of sampling; 0 takes the likeliest token.
        top_p: tokens are drawn from the likeliest that have this probability together.
        batch: rollouts that go through the model at once.
        seed: of all random choices.

    Raises:
        ConfigError: an option out of range.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        max_new_tokens: int,
        temperature: float = 1.0,
        top_p: float = 1.0,
        batch: int = 64,
        seed: int = 0,
    ) -> None:
        self.settings = SamplingSettings(max_new_tokens, temperature, top_p)
        if batch < 1 or seed < 0:
            raise ConfigError(f"batch is a number from 1 and seed from 0, not {batch} and {seed}")
        self.model, self.tokenizer, self.batch, self.seed = model, tokenizer, batch, seed
        self._requests_of: Counter[int] = Counter()
        self._counts = dict.fromkeys(("batches", "rollouts", "tokens", "cancelled"), 0)
        self._rows: deque[tuple[_Request, int]] = deque()
        self._inside: set[_Request] = set()  # requests in the batch that is being generated
        self._batch: asyncio.Future[Any] | None = None
        self._worker: asyncio.Task[None] | None = None
        self._closed = False
        positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        self._positions = positions if positions is not None and positions > 0 else math.inf

    async def generate(self, prompt: Prompt, n: int) -> list[Rollout]:
        """n rollouts of a prompt.

        Raises:
            EngineError: the engine is closed, or the model failed.
            PromptError: the tokenizer cannot read the prompt or gives no token for it, or the model has too
                few positions for it and `max_new_tokens`.
        """
        if n < 1:
            return []
        if self._closed:
            raise EngineError("the local engine is closed: make a new one")
        loop = asyncio.get_running_loop()
        request = _Request(self._ids(prompt), self._uniforms(prompt, n), loop.create_future())
        self._rows.extend((request, i) for i in range(n))
        if self._worker is None or self._worker.done():
            self._worker = loop.create_task(self._work())
        try:
            return await request.answer
        except asyncio.CancelledError:
            request.cancelled = True
            self._rows = deque(row for row in self._rows if row[0] is not request)
            self._counts["cancelled"] += 1
            if request in self._inside and self._batch is not None:
                await _outlast(self._batch)
            raise

    async def close(self) -> None:
        """Stop generating at the next token and wait for that; open requests end in EngineError."""
        self._closed = True
        if self._worker is not None and not self._worker.done():
            await asyncio.wait([self._worker])

    def metrics(self) -> dict[str, float]:
        """Batches, finished rollouts, their tokens, cancelled requests, so far."""
        return {f"engine/{name}": float(count) for name, count in self._counts.items()}

    def _uniforms(self, prompt: Prompt, n: int) -> np.ndarray:
        text = json.dumps(prompt if isinstance(prompt, str) else list(prompt), sort_keys=True, default=str)
        name = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
        self._requests_of[name] += 1
        return np.random.default_rng([self.seed, name, self._requests_of[name]]).random(
            (n, self.settings.max_new_tokens)
        )

    async def _work(self) -> None:
        await asyncio.sleep(0)  # other requests of this moment share a batch
        while self._rows and not self._closed:
            rows = [self._rows.popleft() for _ in range(min(self.batch, len(self._rows)))]
            self._inside = {request for request, _ in rows}
            self._batch = asyncio.ensure_future(asyncio.to_thread(self._generate, rows))
            try:
                self._answer(await self._batch)
            except Exception as error:
                reason = f"generating {len(rows)} rollouts at once failed: {type(error).__name__}: {error}"
                self._fail(rows, EngineError(reason))
            except BaseException:  # the event loop ends, and the thread has to
                self._closed = True
                raise
            finally:
                self._inside = set()
            if self._closed:
                self._fail(
                    [*rows, *self._rows], EngineError("the local engine was closed while it generated")
                )

    def _answer(self, finished: list[tuple[_Request, int, Rollout]]) -> None:
        for request, i, rollout in finished:
            request.rollouts[i] = rollout
            if len(request.rollouts) == len(request.uniforms_NT) and not request.answer.done():
                request.answer.set_result([request.rollouts[i] for i in sorted(request.rollouts)])

    def _fail(self, rows: list[tuple[_Request, int]], error: EngineError) -> None:
        self._rows = deque(row for row in self._rows if row not in rows)
        for request, _ in rows:
            request.fail(error)

    def _ids(self, prompt: Prompt) -> list[int]:
        try:
            ids = prompt_ids(self.tokenizer, prompt)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise PromptError(f"the tokenizer cannot read the prompt {prompt!r:.80}: {reason}") from error
        if not ids:
            raise PromptError(f"the tokenizer gives no token for the prompt {prompt!r:.80}")
        most = self.settings.max_new_tokens
        if len(ids) + most > self._positions:
            raise PromptError(
                f"the prompt {prompt!r:.80} has {len(ids)} tokens, which with max_new_tokens="
                f"{most} are more than the model's {self._positions} positions: shorten one "
                "of the two"
            )
        return ids

    def _generate(self, rows: list[tuple[_Request, int]]) -> list[tuple[_Request, int, Rollout]]:
        """The rollouts of a batch that were not cancelled."""
        uniforms_BT = np.stack([request.uniforms_NT[i] for request, i in rows])
        sampling = SeededSampling(uniforms_BT, self.settings, self.model.device)
        config = generation_config(self.model, self.tokenizer, uniforms_BT.shape[1])
        unwanted = _Unwanted(lambda: [self._closed or request.cancelled for request, _ in rows])
        self._counts["batches"] += 1
        with evaluating(self.model), torch.inference_mode(), shared_prefixes(self.model, config):
            self.model.generate(
                **padded([request.ids for request, _ in rows], config.pad_token_id, self.model.device),
                generation_config=config,
                logits_processor=LogitsProcessorList([sampling]),
                stopping_criteria=StoppingCriteriaList([unwanted]),
            )
        ends = set(end_ids(self.model, self.tokenizer))
        tokens, logprobs = (
            values_BT[:, : sampling.step].tolist() for values_BT in (sampling.tokens_BT, sampling.logprobs_BT)
        )
        finished = []
        for (request, i), row_tokens, row_logprobs in zip(rows, tokens, logprobs, strict=True):
            if self._closed or request.cancelled:
                continue
            ids = up_to_end(row_tokens, ends)
            if not np.isfinite(row_logprobs[: len(ids)]).all():
                raise FloatingPointError("the model's logits are not finite")
            text = self.tokenizer.decode(ids, skip_special_tokens=True)
            finish = "stop" if ids[-1] in ends else "length"
            finished.append((request, i, Rollout(text, tuple(ids), tuple(row_logprobs[: len(ids)]), finish)))
            self._counts["rollouts"] += 1
            self._counts["tokens"] += len(ids)
        return finished


async def _outlast(future: asyncio.Future[Any]) -> None:
    """Wait for what soon comes to its end by itself, however often the wait is cancelled."""
    while not future.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([future])
