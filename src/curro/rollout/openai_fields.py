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
}
"""Fields, and the options of the engine that they are."""
_IDS = {"return_token_ids": True, "return_tokens_as_token_ids": True}
_WHOLE = {"separate_reasoning": False}
_OWN = ("prompt", "messages", "n", "stream", "logprobs", *_IDS, *_WHOLE)
"""Fields that answers are read by."""

_UNTOUCHED = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
_PLAIN = {"top_p": 1.0, **_UNTOUCHED, "presence_penalty": 0.0, "frequency_penalty": 0.0, "logit_bias": None}
"""What leaves the model's distribution at this temperature as it is."""
_GREEDY = 1e-5
"""vLLM is greedy at temperatures below this."""


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
    """Whether these fields leave the distribution sampled from as it is, but for its temperature."""
    return all(extra.get(name, value) == value for name, value in _PLAIN.items())


def is_greedy(temperature: float) -> bool:
    """Whether servers take the likeliest tokens; vLLM refuses more than one completion a request then."""
    return temperature < _GREEDY


def wishes(chat: bool, temperature: float) -> list[dict[str, Any]]:
    """Fields to ask with, from all that vLLM and SGLang know to none; strict servers refuse others'."""
    logprobs = {"logprobs": True if chat else 1}
    whole = _WHOLE if chat else {}
    # `transformers serve` samples as the model's generation config says, which may be greedily
    config = {"do_sample": not is_greedy(temperature), "top_k": 0}
    return [logprobs | _UNTOUCHED | _IDS | whole, {"generation_config": json.dumps(config)}, logprobs, {}]
