"""Samples of a local transformers model for many prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def sample(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Any],
    *,
    n: int,
    max_new_tokens: int,
    temperature: float = 1.0,
    batch: int = 512,
) -> list[list[str]]:
    """`n` completions of every prompt, in the prompts' order, from torch's own generator.

    Prompts of like length go together, `batch` completions at a time, on the model's device.

    Args:
        prompts: texts, or lists of messages for the tokenizer's chat template.
        temperature: of sampling, without top-k and top-p.
    """
    ids = [_tokens(tokenizer, prompt) for prompt in prompts]
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    completions: list[list[str]] = [[] for _ in ids]
    size = max(1, batch // n)
    for start in range(0, len(order), size):
        chunk = order[start : start + size]
        inputs = tokenizer.pad(
            {"input_ids": [ids[i] for i in chunk]}, padding_side="left", return_tensors="pt"
        ).to(model.device)
        with torch.inference_mode():
            output = model.generate(
                **inputs,
                do_sample=True,
                temperature=temperature,
                top_k=0,
                top_p=1.0,
                num_return_sequences=n,
                max_new_tokens=max_new_tokens,
            )
        texts = tokenizer.batch_decode(output[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        for j, i in enumerate(chunk):
            completions[i] = texts[j * n : (j + 1) * n]
    return completions


def _tokens(tokenizer: Any, prompt: Any) -> list[int]:
    if isinstance(prompt, str):
        return tokenizer(prompt)["input_ids"]
    return tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=True, return_dict=True)[
        "input_ids"
    ]
