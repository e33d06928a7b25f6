"""What every call of a transformers model's `generate` needs: tokens, padding and a plain configuration."""

from __future__ import annotations

from typing import Any

import torch
from transformers import GenerationConfig

from curro.rollout.engines.engine import Prompt


def prompt_ids(tokenizer: Any, prompt: Prompt) -> list[int]:
    """The tokens of a text as it stands, or of a conversation in the tokenizer's chat template."""
    if isinstance(prompt, str):
        return tokenizer(prompt)["input_ids"]
    return tokenizer.apply_chat_template(
        list(prompt), add_generation_prompt=True, tokenize=True, return_dict=True
    )["input_ids"]


def end_ids(model: Any, tokenizer: Any) -> list[int]:
    """The tokens that end a sequence: those of the model's generation config, and the tokenizer's own."""
    found = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    ends = {found} if isinstance(found, int) else set(found or ())
    return sorted(ends | {tokenizer.eos_token_id} - {None})


def pad_id(model: Any, tokenizer: Any) -> int:
    """The token to pad with; for a tokenizer that has none, one that ends a sequence."""
    if tokenizer.pad_token_id is not None:
        return tokenizer.pad_token_id
    return min(end_ids(model, tokenizer), default=0)


def generation_config(model: Any, tokenizer: Any, max_new_tokens: int, **options: Any) -> GenerationConfig:
    """The likeliest tokens without any penalty, whatever the model's own configuration says.

    Args:
        options: what the caller changes of that, for instance to sample.
    """
    plain: dict[str, Any] = {
        "do_sample": False,
        "top_k": 50,  # the library's default: any other draws a remark without sampling
        "num_beams": 1,
        "temperature": 1.0,
        "top_p": 1.0,
        "typical_p": 1.0,
        "repetition_penalty": 1.0,
        "no_repeat_ngram_size": 0,
        "min_new_tokens": 0,
        "eos_token_id": end_ids(model, tokenizer) or None,
        "pad_token_id": pad_id(model, tokenizer),
        "bos_token_id": getattr(getattr(model, "generation_config", None), "bos_token_id", None),
    }
    return GenerationConfig(max_new_tokens=max_new_tokens, **plain | options)


def padded(ids: list[list[int]], pad: int, device: Any) -> dict[str, torch.Tensor]:
    """Prompts padded on the left, (B, L), and their attention mask."""
    gaps = [max(map(len, ids)) - len(row) for row in ids]
    rows = [[pad] * gap + row for gap, row in zip(gaps, ids, strict=True)]
    mask = [[0] * gap + [1] * len(row) for gap, row in zip(gaps, ids, strict=True)]
    return {
        "input_ids": torch.tensor(rows, device=device),
        "attention_mask": torch.tensor(mask, device=device),
    }
