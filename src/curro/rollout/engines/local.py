"""An engine that generates with a transformers model in this process."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from transformers import LogitsProcessor, LogitsProcessorList, StoppingCriteria, StoppingCriteriaList

from curro.core.errors import ConfigError, CurroError, EngineError, PromptError
from curro.rollout.engines.engine import Prompt, Rollout, SamplingSettings
from curro.rollout.engines.plain_generation import (
    drawn_tokens,
    end_ids,
    evaluating,
    generation_config,
    padded,
    prompt_ids,
    shared_prefixes,
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


class RowsOver(StoppingCriteria):
    """Ends each row by itself: at an end-of-sequence token, or when it is cancelled.

    Args:
        sampling: what draws the tokens.
        ends: ids of the end-of-sequence tokens.
        cancelled: tells of a row whether it is unwanted; asked after every token.
        finished: hears of every row that has come to its own end while others go on, once.

    Attributes:
        over: bool (B,), the rows that are not to go on.
        last: the rows that came to their own end when no other was left.
    """

    def __init__(
        self,
        sampling: SeededSampling,
        ends: list[int],
        cancelled: Callable[[int], bool],
        finished: Callable[[int], None],
    ) -> None:
        self.sampling, self.cancelled, self.finished = sampling, cancelled, finished
        self.ends = torch.tensor(ends, device=sampling.tokens_BT.device)
        self.over = np.zeros(len(sampling.tokens_BT), np.bool_)
        self.last: list[int] = []

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        newest_B = self.sampling.tokens_BT[:, self.sampling.step - 1]
        ended = np.flatnonzero(torch.isin(newest_B, self.ends).cpu().numpy() & ~self.over).tolist()
        self.over[ended] = True
        for row in np.flatnonzero(~self.over).tolist():
            self.over[row] = self.cancelled(row)
        if self.over.all():
            self.last = ended
        else:
            for row in ended:
                self.finished(row)
        return torch.from_numpy(self.over).to(input_ids.device)


def generate_rows(
    model: Any,
    tokenizer: Any,
    ids: list[list[int]],
    sampling: SeededSampling,
    cancelled: Callable[[int], bool],
    finished: Callable[[int, str], None],
) -> None:
    """Sample a completion for each of B prompts, with the model in evaluation mode.

    Args:
        ids: the prompts' tokens, at least one each.
        sampling: draws the tokens, T at most a row.
        cancelled: tells of a row whether it is unwanted; asked after every token.
        finished: hears of every row, once, with "stop" as soon as the model has ended it, or "length"; the
            row's tokens are the first `sampling.step` then. It hears of the last rows when the model is
            as it was before.
    """
    config = generation_config(model, tokenizer, sampling.tokens_BT.shape[1])
    ends = end_ids(model, tokenizer)
    over = RowsOver(sampling, ends, cancelled, lambda row: finished(row, "stop"))
    with evaluating(model), torch.inference_mode(), shared_prefixes(model, config):
        model.generate(
            **padded(ids, config.pad_token_id, model.device),
            generation_config=config,
            logits_processor=LogitsProcessorList([sampling]),
            stopping_criteria=StoppingCriteriaList([over]),
        )
    for row in over.last:
        finished(row, "stop")
    for row in np.flatnonzero(~over.over).tolist():
        finished(row, "length")


@dataclass(eq=False)
class _Request:
    """A call of `generate` that waits for n rollouts."""

    prompt: Prompt
    uniforms_NT: np.ndarray
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[list[Rollout]]
    rollouts: dict[int, Rollout] = field(default_factory=dict)
    cancelled: bool = False


class LocalEngine:
    """Batches the requests that wait and generates in one thread of its own.

    Only `temperature` and `top_p` change the distribution that tokens are drawn from: there is no top-k and
    no penalty. The random numbers of a rollout follow from the seed, the prompt and how often that prompt
    came before: neither the order of requests nor the batch they share changes it, but for rounding. torch's
    generators are not used.

    Token ids end with the end-of-sequence token where the model wrote it. A request is answered as soon as
    its own rollouts are done.

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
        self._ready = threading.Condition()
        self._due = self._closed = False
        self._thread: threading.Thread | None = None
        self._inside: set[_Request] = set()
        """Requests in the latest batch."""
        self._batch_left: Future[None] = Future()
        """Done when the thread has left that batch."""
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
        loop = asyncio.get_running_loop()
        request = _Request(prompt, self._uniforms(prompt, n), loop, loop.create_future())
        with self._ready:
            if self._closed:
                raise EngineError("the local engine is closed: make a new one")
            self._rows.extend((request, i) for i in range(n))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="curro-local-engine", daemon=True)
                self._thread.start()
        loop.call_soon(self._wake)  # after the other requests of this moment: they share a batch
        try:
            return await request.answer
        except asyncio.CancelledError:
            request.cancelled = True
            with self._ready:
                self._rows = deque(row for row in self._rows if row[0] is not request)
                self._counts["cancelled"] += 1
                batch_left = self._batch_left if request in self._inside else None
            if batch_left is not None:
                await _outlast(asyncio.wrap_future(batch_left))
            raise

    async def close(self) -> None:
        """Stop generating at the next token and wait for the thread; open requests end in EngineError."""
        with self._ready:
            self._closed = True
            self._ready.notify()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

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

    def _wake(self) -> None:
        with self._ready:
            self._due = True
            self._ready.notify()

    def _work(self) -> None:
        rows: list[tuple[_Request, int]] = []
        while not self._closed:
            with self._ready:
                self._ready.wait_for(lambda: (self._rows and self._due) or self._closed)
                rows = [self._rows.popleft() for _ in range(min(self.batch, len(self._rows)))]
                self._due = bool(self._rows)
                self._inside, self._batch_left = {request for request, _ in rows}, Future()
            try:
                self._generate(self._tokenized(rows))
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                self._fail(rows, EngineError(f"generating {len(rows)} rollouts at once failed: {reason}"))
            finally:
                self._batch_left.set_result(None)
        self._fail([*rows, *self._rows], EngineError("the local engine was closed while it generated"))

    def _tokenized(self, rows: list[tuple[_Request, int]]) -> list[tuple[_Request, int, list[int]]]:
        """The rows with their prompts' token ids, without those that cannot be answered."""
        ids: dict[_Request, list[int]] = {}
        for request, _ in rows:
            if request in ids or request.cancelled:
                continue
            try:
                ids[request] = self._ids(request.prompt)
            except PromptError as error:
                self._fail([(request, 0)], error)
        return [(request, i, ids[request]) for request, i in rows if request in ids]

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

    def _generate(self, rows: list[tuple[_Request, int, list[int]]]) -> None:
        if not rows or self._closed:
            return
        uniforms_BT = np.stack([request.uniforms_NT[i] for request, i, _ in rows])
        sampling = SeededSampling(uniforms_BT, self.settings, self.model.device)

        def cancelled(row: int) -> bool:
            return self._closed or rows[row][0].cancelled

        def finished(row: int, finish: str) -> None:
            self._finish(*rows[row][:2], sampling, row, finish)

        ids = [ids for *_, ids in rows]
        self._counts["batches"] += 1
        generate_rows(self.model, self.tokenizer, ids, sampling, cancelled, finished)

    def _finish(self, request: _Request, i: int, sampling: SeededSampling, row: int, finish: str) -> None:
        ids = sampling.tokens_BT[row, : sampling.step].tolist()
        logprobs = sampling.logprobs_BT[row, : sampling.step].tolist()
        if not np.isfinite(logprobs).all():
            raise FloatingPointError("the model's logits are not finite")
        text = self.tokenizer.decode(ids, skip_special_tokens=True)
        request.rollouts[i] = Rollout(text, tuple(ids), tuple(logprobs), finish)
        self._counts["rollouts"] += 1
        self._counts["tokens"] += len(ids)
        if len(request.rollouts) == len(request.uniforms_NT):
            self._settle(request, [request.rollouts[i] for i in sorted(request.rollouts)])

    def _fail(self, rows: list[Any], error: CurroError) -> None:
        for request in {row[0] for row in rows}:
            request.cancelled = True
            self._settle(request, error)

    def _settle(self, request: _Request, answer: list[Rollout] | CurroError) -> None:
        def settle() -> None:
            if not request.answer.done():
                if isinstance(answer, CurroError):
                    request.answer.set_exception(answer)
                else:
                    request.answer.set_result(answer)

        with suppress(RuntimeError):  # the caller's event loop is closed: nobody waits any more
            request.loop.call_soon_threadsafe(settle)


async def _outlast(future: asyncio.Future[None]) -> None:
    """Wait for what soon comes to its end by itself, however often the wait is cancelled."""
    while not future.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([future])
