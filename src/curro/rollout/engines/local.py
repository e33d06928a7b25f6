"""An engine that generates with a transformers model in this process."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import threading
from collections import Counter, deque
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from curro.errors import ConfigError, CurroError, EngineError, PromptError
from curro.rollout.engines.engine import Prompt, Rollout
from curro.rollout.engines.plain_generation import prompt_ids
from curro.rollout.engines.sampling_settings import SamplingSettings
from curro.rollout.engines.seeded_sampling import SeededSampling, generate_rows


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
        self._asked: Counter[int] = Counter()
        self._counts = dict.fromkeys(("batches", "rollouts", "tokens", "cancelled"), 0)
        self._rows: deque[tuple[_Request, int]] = deque()
        self._ready = threading.Condition()
        self._due = self._closed = False
        self._thread: threading.Thread | None = None
        self._inside: set[_Request] = set()
        """Of the latest batch."""
        self._left: Future[None] = Future()
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
                left = self._left if request in self._inside else None
            if left is not None:
                await _outlast(asyncio.wrap_future(left))
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
        self._asked[name] += 1
        return np.random.default_rng([self.seed, name, self._asked[name]]).random(
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
                self._inside, self._left = {request for request, _ in rows}, Future()
            try:
                self._generate(self._tokenized(rows))
            except Exception as error:
                what = f"{type(error).__name__}: {error}"
                self._fail(rows, EngineError(f"generating {len(rows)} rollouts at once failed: {what}"))
            finally:
                self._left.set_result(None)
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
            what = f"{type(error).__name__}: {error}"
            raise PromptError(f"the tokenizer cannot read the prompt {prompt!r:.80}: {what}") from error
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
