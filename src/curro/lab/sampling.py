"""Samples of a model for many prompts, and the pass rates they give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from curro.lab.family import Family, Row


def sample(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[str],
    *,
    n: int,
    max_new_tokens: int,
    temperature: float = 1.0,
    batch: int = 512,
) -> list[list[str]]:
    """`n` completions of every plain-text prompt, in the prompts' order, from torch's own generator.

    Prompts of like length go together, `batch` completions at a time: short ones do not wait for long ones.
    """
    ids = tokenizer(list(prompts))["input_ids"]
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    completions: list[list[str]] = [[] for _ in ids]
    size = max(1, batch // n)
    for start in range(0, len(order), size):
        chunk = order[start : start + size]
        inputs = tokenizer.pad({"input_ids": [ids[i] for i in chunk]}, return_tensors="pt")
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


def pass_rates(model: Any, tokenizer: Any, family: Family, rows: Sequence[Row], n: int) -> np.ndarray:
    """The share of `n` samples at the recipe's temperature that solve each row, shape (rows,)."""
    recipe = family.recipe
    completions = sample(
        model,
        tokenizer,
        [row["prompt"] for row in rows],
        n=n,
        max_new_tokens=recipe.max_completion_length,
        temperature=recipe.temperature,
    )
    return np.array(
        [
            np.mean([family.score(text, row) for text in texts])
            for texts, row in zip(completions, rows, strict=True)
        ]
    )
