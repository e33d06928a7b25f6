"""Models and tokenizers by name, without the seconds that a training framework takes to import."""

from __future__ import annotations

from typing import Any

from curro.errors import ConfigError


def load_model(name: str, *, dtype: str = "float32") -> tuple[Any, Any]:
    """The model and tokenizer of "lab:NAME", a folder or a hub id.

    Args:
        dtype: of the weights; "auto" as they were saved. A policy is trained in float32, with autocast where
            there is a GPU: the steps of a learning rate of 1e-6 are lost in bfloat16 weights.

    Raises:
        ConfigError: there is none of that name.
    """
    if name.startswith("lab:"):
        from curro.lab import load

        return load(name.removeprefix("lab:"))
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
        model = AutoModelForCausalLM.from_pretrained(name, dtype=dtype)
    except (OSError, ValueError) as error:
        first = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"no model at {name!r}: a folder, a hub id or lab:NAME is needed ({first})"
        ) from error
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model, tokenizer
