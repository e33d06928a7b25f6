"""What every call of a transformers model's `generate` needs: tokens, padding and a plain configuration."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from transformers import (
    DynamicCache,
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    TemperatureLogitsWarper,
)
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

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
    configured = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    ends = {configured} if isinstance(configured, int) else set(configured or ())
    return sorted(ends | {tokenizer.eos_token_id} - {None})


def pad_id(model: Any, tokenizer: Any) -> int:
    """The token to pad with; for a tokenizer that has none, one that ends a sequence."""
    if tokenizer.pad_token_id is not None:
        return tokenizer.pad_token_id
    return min(end_ids(model, tokenizer), default=0)


def generation_config(model: Any, tokenizer: Any, max_new_tokens: int, **options: Any) -> GenerationConfig:
    """The likeliest tokens without any penalty, whatever the model's own configuration says."""
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


def up_to_end(ids: list[int], ends: Collection[int]) -> list[int]:
    """The tokens up to the first one that ends a sequence, and with it."""
    return ids[: next((i + 1 for i, token in enumerate(ids) if token in ends), len(ids))]


@contextmanager
def shared_prefill(model: Any) -> Iterator[None]:
    """Let `model.generate` read a prompt once, however many rows of a batch it has.

    The cache and the logits of that one row are then copied to the others, so every row goes on as before,
    and the same random numbers give the same tokens, up to rounding. Where a model keeps something else
    than plain keys and values (a recurrent state, a static cache), every row is read as usual.
    """
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    prefill = getattr(inner, "_prefill", None)
    if prefill is None:
        yield
        return

    def read_once(
        input_ids: torch.Tensor,
        generation_config: GenerationConfig,
        model_kwargs: dict[str, Any],
        **options: Any,
    ) -> Any:
        if not _is_shareable(generation_config, model_kwargs):
            return prefill(input_ids, generation_config, model_kwargs, **options)
        keys = torch.cat([input_ids, model_kwargs["attention_mask"]], dim=1)
        distinct, copy_of = torch.unique(keys, dim=0, return_inverse=True)
        if len(distinct) == len(keys):
            return prefill(input_ids, generation_config, model_kwargs, **options)
        rows = torch.arange(len(keys), device=keys.device)
        first_rows = torch.full_like(rows[: len(distinct)], len(keys)).scatter_reduce(
            0, copy_of, rows, "amin"
        )
        distinct_kwargs = {
            name: value[first_rows] if isinstance(value, torch.Tensor) and name in _ROWS else value
            for name, value in model_kwargs.items()
        }
        outputs = prefill(input_ids[first_rows], generation_config, distinct_kwargs, **options)
        outputs.past_key_values.batch_select_indices(copy_of)
        outputs.logits = outputs.logits[copy_of]
        return outputs

    inner._prefill = read_once
    try:
        yield
    finally:
        del inner._prefill


_ROWS = ("attention_mask", "position_ids")
"""What `generate` hands on for every row, of a model of text."""


def _is_shareable(config: GenerationConfig, model_kwargs: Mapping[str, Any]) -> bool:
    """Whether a prefill with these arguments can be copied from row to row."""
    cache, mask = model_kwargs.get("past_key_values"), model_kwargs.get("attention_mask")
    other_tensors = {name for name, value in model_kwargs.items() if isinstance(value, torch.Tensor)} - {
        *_ROWS
    }
    return (
        type(cache) is DynamicCache
        and all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in cache.layers)
        and cache.get_seq_length() == 0
        and isinstance(mask, torch.Tensor)
        and mask.ndim == 2
        and not other_tensors - {"cache_position"}
        and config.prefill_chunk_size is None
        and not (config.output_attentions or config.output_hidden_states)
    )


class SampledLogProbs(LogitsProcessor):
    """Inside its context, keeps the log-probabilities of the tokens that `model.generate` samples.

    They are those of the distribution that is drawn from, after temperature, top-p and the like.

    Attributes:
        is_whole: whether the latest batch was drawn from all tokens, by temperature alone.
    """

    def __init__(self, model: Any) -> None:
        self._model = model.get_base_model() if hasattr(model, "get_base_model") else model
        self._columns: list[torch.Tensor] = []
        self._entropies: list[torch.Tensor] = []
        self._latest: torch.Tensor | None = None
        self.is_whole = False

    def __enter__(self) -> SampledLogProbs:
        processors = self._model._get_logits_processor

        def with_record(*arguments: Any, **options: Any) -> LogitsProcessorList:
            self._columns, self._entropies, self._latest = [], [], None
            others = processors(*arguments, **options)
            self.is_whole = all(isinstance(processor, TemperatureLogitsWarper) for processor in others)
            return LogitsProcessorList([*others, self])

        self._model._get_logits_processor = with_record
        return self

    def __exit__(self, *error: object) -> None:
        del self._model._get_logits_processor

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        if self._latest is not None:
            self._columns.append(self._latest.gather(1, input_ids[:, -1:]))
        self._latest = scores.float().log_softmax(-1)
        self._entropies.append(torch.special.entr(self._latest.exp()).sum(-1))
        return scores

    def of(self, completions: Sequence[Sequence[int]]) -> list[list[float]]:
        """Natural logarithms of the latest batch's completions, which end where they were cut."""
        if self._latest is None:
            return [[] for _ in completions]
        length = len(self._columns) + 1
        # the latest token was never seen; a completion that ended before has none there
        last_tokens = [ids[-1] if len(ids) == length else 0 for ids in completions]
        tokens_B1 = torch.tensor(last_tokens, device=self._latest.device)[:, None]
        rows = torch.cat([*self._columns, self._latest.gather(1, tokens_B1)], dim=1).tolist()
        return [row[: len(ids)] for row, ids in zip(rows, completions, strict=True)]

    def entropies(self) -> torch.Tensor:
        """Of the distributions that the latest batch was drawn from, in nats: float32 (B, T), with those of
        places behind a completion's end."""
        return torch.stack(self._entropies, dim=1)
