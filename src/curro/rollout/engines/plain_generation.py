"""What calls of a transformers model need: its parts and its mode, tokens, padding, a plain configuration."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.functional import pad
from transformers import (
    DynamicCache,
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    TemperatureLogitsWarper,
)
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from curro.core.errors import PromptError
from curro.rollout.engines.engine import Prompt


def without_adapters(model: Any) -> Any:
    """The causal language model that adapters were put into, which stay in it; any other as it is."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def backbone_of(model: Any) -> Any:
    """The model inside a causal language model, without the head; adapters stay in it."""
    return without_adapters(model).base_model


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Evaluation mode; at the end, after an error too, the model is in the mode that it was in before."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def prompt_ids(tokenizer: Any, prompt: Prompt) -> list[int]:
    """The tokens of a text as it stands, or of a conversation in the tokenizer's chat template.

    Raises:
        PromptError: the template refuses the conversation, as some do one with a system prompt, or there is
            no token.
    """
    try:
        if isinstance(prompt, str):
            ids = tokenizer(prompt)["input_ids"]
        else:
            ids = tokenizer.apply_chat_template(
                list(prompt), add_generation_prompt=True, tokenize=True, return_dict=True
            )["input_ids"]
    except Exception as error:  # whatever a chat template raises
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise PromptError(f"the tokenizer cannot read the prompt {prompt!r:.80}: {why}") from error
    if not ids:
        raise PromptError(f"the tokenizer gives no token for the prompt {prompt!r:.80}")
    return ids


def readable_ids(model: Any, tokenizer: Any, prompt: Prompt) -> list[int]:
    """`prompt_ids`, of which the model knows every one.

    Raises:
        PromptError: as `prompt_ids`; or a token was added to the tokenizer and not to the model.
    """
    ids, known = prompt_ids(tokenizer, prompt), model.get_input_embeddings().weight.shape[0]
    if max(ids) >= known:
        raise PromptError(
            f"the prompt {prompt!r:.80} has the token {tokenizer.convert_ids_to_tokens(max(ids))!r}, and the "
            f"model's embeddings end before it, after {known:,} tokens: resize them, or take the model's own "
            "tokenizer"
        )
    return ids


def end_ids(model: Any, tokenizer: Any) -> list[int]:
    """The tokens that end a sequence: the generation config's and the tokenizer's own."""
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
def shared_prefixes(model: Any, config: GenerationConfig) -> Iterator[None]:
    """Let `model.generate` compute a prefix once, however many rows of a batch begin with it.

    Rows that share a prompt are one row until their first different token, and a row that has ended is
    computed no more. The logits are then copied to all rows, so every row goes on as before, and the same
    random numbers give the same tokens, up to rounding. Other devices than a CPU share prompts alone, since
    they compute a token of many rows as fast as one of a single row. In beam search, and where a model keeps
    something else than plain keys and values (a recurrent state, a static cache), every row is computed.

    Args:
        config: with which `model.generate` is called.
    """
    if config.num_beams not in (None, 1):
        yield
        return
    ends = [config.eos_token_id] if isinstance(config.eos_token_id, int) else config.eos_token_id or []
    inner = without_adapters(model)
    prefixes = _SharedPrefixes(ends)
    hooks = [
        inner.register_forward_pre_hook(prefixes.select, with_kwargs=True),
        inner.register_forward_hook(prefixes.copy),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


class _SharedPrefixes:
    """The cache of the distinct prefixes of a batch of B rows, and which row has which prefix."""

    def __init__(self, ends: Collection[int]) -> None:
        self._ends = torch.tensor(sorted(ends), dtype=torch.long)
        self._cache: Any = None
        self._prefixes = 0
        self._prefix_B = torch.empty(0, dtype=torch.long)
        self._is_over_B = torch.empty(0, dtype=torch.bool)
        self._is_shared = False

    def select(self, model: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]] | None:
        """Before a forward pass: keep one row for every distinct prefix."""
        cache: Any = kwargs.get("past_key_values")
        self._is_shared = False
        if args or not (self._begins(model, kwargs) or (cache is not None and cache is self._cache)):
            self._cache = None
            return None
        ids, length = kwargs["input_ids"], kwargs["input_ids"].shape[1]
        if self._cache is not None:
            self._is_over_B |= torch.isin(ids[:, -1], self._ends)
        else:
            self._prefix_B = ids.new_zeros(len(ids))
            self._is_over_B = self._prefix_B > 0
        live = torch.nonzero(~self._is_over_B).flatten()
        live = live if len(live) else self._prefix_B[:1] * 0  # other processes may need this one to go on
        keys = torch.cat([self._prefix_B[:, None], ids, kwargs["attention_mask"][:, -length:]], dim=1)[live]
        distinct, copy_of = torch.unique(keys, dim=0, return_inverse=True)
        rows = live[torch.full_like(live[: len(distinct)], len(ids)).scatter_reduce(
            0, copy_of, torch.arange(len(live), device=live.device), "amin"
        )]  # fmt: skip
        parents, all_parents = self._prefix_B[rows], torch.arange(self._prefixes, device=ids.device)
        if self._cache is not None and not torch.equal(parents, all_parents):
            cache.batch_select_indices(parents)
        self._cache, self._prefixes, self._is_shared = cache, len(distinct), True
        self._prefix_B = torch.zeros_like(self._prefix_B).index_copy(0, live, copy_of)
        return (), kwargs | {name: kwargs[name][rows] for name in _ROWS if kwargs.get(name) is not None}

    def copy(self, model: Any, args: Any, outputs: Any) -> None:
        """After it: give every row the logits of its prefix."""
        if not self._is_shared:
            return
        outputs.logits = outputs.logits[self._prefix_B]
        if self._prefix_B.device.type != "cpu":
            self._cache.batch_select_indices(self._prefix_B)
            self._cache = None

    def _begins(self, model: Any, kwargs: Mapping[str, Any]) -> bool:
        """Whether this is the first pass of a batch whose rows can be selected."""
        cache, ids, mask = (kwargs.get(name) for name in ("past_key_values", "input_ids", "attention_mask"))
        tensors = {name for name, value in kwargs.items() if isinstance(value, torch.Tensor)}
        begins = (
            isinstance(ids, torch.Tensor)
            and isinstance(mask, torch.Tensor)
            and mask.shape == ids.shape
            and not tensors - {*_ROWS, "cache_position"}
            and type(cache) is DynamicCache
            and all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in cache.layers)
            and cache.get_seq_length() == 0
            and not (model.config.output_attentions or model.config.output_hidden_states)
        )
        if begins:
            self._cache = None
        return begins


_ROWS = ("input_ids", "attention_mask", "position_ids")
"""What `generate` hands to a model of text for every row."""


_BLOCK = 128


def drawn_tokens(probabilities_BV: torch.Tensor, uniforms_B1: torch.Tensor) -> torch.Tensor:
    """The first token of each row whose cumulative probability exceeds a number in [0, 1): int64 (B, 1).

    Float32 sums of 100,000 tokens would miss rare ones, and float64 ones cost more than the rest of sampling,
    so only sums of blocks, and those within the block that is met, have float64. A row with NaN gets any.
    """
    blocks_BKS = pad(probabilities_BV, (0, -probabilities_BV.shape[1] % _BLOCK)).unflatten(1, (-1, _BLOCK))
    sums_BK = blocks_BKS.sum(-1, dtype=torch.float64).cumsum(-1)
    below = 1 - 1e-12  # a product that is rounded up to the whole sum would lie behind every token
    target_B1 = sums_BK[:, -1:] * uniforms_B1 * below
    block_B1 = torch.searchsorted(sums_BK, target_B1, right=True).clamp(max=sums_BK.shape[1] - 1)
    inside_BS = (
        blocks_BKS[torch.arange(len(blocks_BKS), device=block_B1.device), block_B1[:, 0]].double().cumsum(-1)
    )
    target_B1 = target_B1 - pad(sums_BK, (1, 0)).gather(1, block_B1)
    target_B1 = target_B1.minimum(inside_BS[:, -1:] * below)
    place_B1 = torch.searchsorted(inside_BS, target_B1, right=True)
    return (block_B1 * _BLOCK + place_B1).clamp(max=probabilities_BV.shape[1] - 1)


class SampledLogProbs(LogitsProcessor):
    """Inside its context, draws the tokens of `model.generate` and keeps their log-probabilities.

    They belong to the distribution that is drawn from, after temperature, top-p and the like.

    Args:
        as_transformers: give the tokens that `model.generate` would draw by itself. It draws an exponential
            number for every token of the vocabulary, which takes a fifth of a small model's time on a CPU;
            otherwise it is one uniform number a row, which gives other tokens of the same distribution.

    Attributes:
        is_whole: whether the latest batch was drawn from all tokens, by temperature alone.

    Raises:
        FloatingPointError: at the context's end, the model's logits were not finite.
    """

    def __init__(self, model: Any, *, as_transformers: bool) -> None:
        self._model = without_adapters(model)
        self._as_transformers = as_transformers
        self._columns: list[torch.Tensor] = []
        self._entropies: list[torch.Tensor] = []
        self._draws = True
        self.is_whole = False

    def __enter__(self) -> SampledLogProbs:
        processors = self._model._get_logits_processor

        def with_draws(generation_config: GenerationConfig, **options: Any) -> LogitsProcessorList:
            others = processors(generation_config=generation_config, **options)
            self._columns, self._entropies, self._draws = [], [], bool(generation_config.do_sample)
            self.is_whole = all(isinstance(processor, TemperatureLogitsWarper) for processor in others)
            generation_config.do_sample = (
                False  # in the call's own copy: the likeliest token is the drawn one
            )
            return LogitsProcessorList([*others, self])

        self._model._get_logits_processor = with_draws
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        del self._model._get_logits_processor
        if kind is None and any(bool(column_B1.isnan().any()) for column_B1 in self._columns):
            raise FloatingPointError(
                "the policy's logits are not finite: go back to a checkpoint and lower the learning rate"
            )

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        log_probs_BV, probabilities_BV = scores.float().log_softmax(-1), scores.float().softmax(-1)
        if not self._draws:
            token_B1 = scores.argmax(-1, keepdim=True)
        elif self._as_transformers:
            token_B1 = torch.multinomial(probabilities_BV, 1)
        else:
            uniforms_B1 = torch.rand(len(scores), 1, dtype=torch.float64, device=scores.device)
            token_B1 = drawn_tokens(probabilities_BV, uniforms_B1)
        self._columns.append(log_probs_BV.gather(1, token_B1))
        if self.is_whole:
            self._entropies.append(-torch.linalg.vecdot(probabilities_BV, log_probs_BV))
        return torch.full_like(scores, -torch.inf).scatter_(1, token_B1, 0.0)

    def of(self, completions: Sequence[Sequence[int]]) -> list[list[float]] | None:
        """Natural logarithms of the latest batch's completions, each up to its cut.

        None where `model.generate` was replaced, so that no token was drawn here.
        """
        if not self._columns:
            return None
        rows = torch.cat(self._columns, dim=1).tolist()
        return [row[: len(ids)] for row, ids in zip(rows, completions, strict=True)]

    def entropies(self) -> torch.Tensor:
        """Entropies of the latest batch's distributions, in nats, where it `is_whole`.

        Returns:
            float32 (B, T), with places behind a completion's end.
        """
        return torch.stack(self._entropies, dim=1)
