"""The fields of a request: how plain sampling is asked for, and more than text; and what a user may add."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from curro.errors import ConfigError

_OPTIONS = {
    "model": "model",
    "max_tokens": "max_new_tokens",
    "max_completion_tokens": "max_new_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
}
"""Fields, and the options of the engine that they are."""
_IDS = {"return_token_ids": True, "return_tokens_as_token_ids": True}
_WHOLE = {"separate_reasoning": False}
_OWN = ("prompt", "messages", "n", "stream", "logprobs", *_IDS, *_WHOLE)
"""Fields that answers are read by."""

_UNTOUCHED = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
_PLAIN = {**_UNTOUCHED, "presence_penalty": 0.0, "frequency_penalty": 0.0, "logit_bias": None}
"""What leaves the distribution as temperature and top-p make it."""


def checked_extra(extra: Mapping[str, Any] | None) -> dict[str, Any]:
    """The fields that a user adds to every request.

    Raises:
        ConfigError: one of them is set by the engine.
    """
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
    """Fields to ask with, from all that vLLM and SGLang know to none; strict servers refuse others'."""
    logprobs = {"logprobs": True if chat else 1}
    whole = _WHOLE if chat else {}
    # `transformers serve` samples as the model's generation config says, which may be greedily
    config = {"do_sample": not is_greedy, "top_k": 0}
    return [logprobs | _UNTOUCHED | _IDS | whole, {"generation_config": json.dumps(config)}, logprobs, {}]
