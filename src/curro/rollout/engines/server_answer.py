"""A server's streamed answer, put together choice by choice. What it holds is checked and never trusted.

Shapes of a choice in a chunk, completions and chat: text in `text` or `delta.content`; token ids in
`token_ids` (vLLM, SGLang), `response_token_ids` (SGLang before), or as `token_id:N` in place of the tokens
(vLLM's `return_tokens_as_token_ids`); log-probabilities in `logprobs.token_logprobs` or
`logprobs.content[].logprob`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from curro.rollout.engines.engine import Rollout

_BROKEN = ("abort", "error", "content_filter")
"""Reasons to finish that are neither the model's own nor the limit: there is no completion."""


@dataclass
class Completion:
    """One completion as it arrives.

    Attributes:
        finish: the server's reason; None while the choice is open.
        total: completion tokens as the server counts them, where it tells for this choice alone.
    """

    pieces: list[str] = field(default_factory=list)
    ids: list[Any] = field(default_factory=list)
    names: list[Any] = field(default_factory=list)
    logprobs: list[Any] = field(default_factory=list)
    has_ids: bool = False
    finish: str | None = None
    total: int | None = None

    def add(self, part: Mapping[str, Any]) -> None:
        """Take in a chunk's part of this choice."""
        delta = part.get("delta")
        piece = delta.get("content") if isinstance(delta, Mapping) else part.get("text")
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
            with_logprobs: whether the server's log-probabilities are of the distribution sampled from.
            token_ids: the tokens; log-probabilities that do not fit them one by one are left out.
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


def gather(choices: dict[int, Completion], chunk: Any) -> None:
    """Take a chunk of the stream into the choices, by their index. Anything else in it is passed over."""
    if not isinstance(chunk, Mapping):
        return
    parts = chunk.get("choices")
    for part in parts if isinstance(parts, list) else []:
        index = part.get("index", 0) if isinstance(part, Mapping) else None
        if type(index) is int:
            choices.setdefault(index, Completion()).add(part)
    usage = chunk.get("usage")
    if isinstance(usage, Mapping) and len(choices) == 1 and type(usage.get("completion_tokens")) is int:
        next(iter(choices.values())).total = usage["completion_tokens"]


def _placeholder(name: Any) -> int | None:
    """N of `token_id:N`."""
    digits = name.removeprefix("token_id:") if isinstance(name, str) else ""
    return int(digits) if digits != name and digits.isascii() and digits.isdigit() else None
