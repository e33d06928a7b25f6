"""Prompts computed once for their groups: the same numbers as a plain batch, for several architectures."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GemmaConfig,
    GemmaForCausalLM,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    OPTConfig,
    OPTForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from trl.trainer.utils import add_fused_lm_head

from curro.hosts.trl.shared_prompts import (
    SharedPrompts,
    backbone_of,
    completions_per_sequence,
    pack,
    whole_groups,
)

VOCABULARY = 97
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
    "initializer_range": 0.3,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
KINDS: dict[str, tuple[Any, Any]] = {
    "qwen3": (Qwen3ForCausalLM, Qwen3Config(**SIZES, num_key_value_heads=2, head_dim=8)),
    "llama": (LlamaForCausalLM, LlamaConfig(**SIZES, num_key_value_heads=2)),
    "gemma": (GemmaForCausalLM, GemmaConfig(**SIZES, num_key_value_heads=1, head_dim=8)),
    "gpt_neox": (GPTNeoXForCausalLM, GPTNeoXConfig(**SIZES)),
}


def model_of(kind: str, **options: Any) -> Any:
    torch.manual_seed(0)
    model_class, config = KINDS[kind]
    model = model_class._from_config(config, **options).train()
    add_fused_lm_head(model, temperature=0.7, outputs=("log_probs", "entropy"))
    return model


def batch(prompts: list[list[int]], completions: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Token ids and masks as TRL pads them, and the length of the longest completion."""
    left, right = max(map(len, prompts)), max(map(len, completions))
    ids = [[0] * (left - len(p)) + p + c + [0] * (right - len(c)) for p, c in zip(prompts, completions)]
    mask = [
        [0] * (left - len(p)) + [1] * (len(p) + len(c)) + [0] * (right - len(c))
        for p, c in zip(prompts, completions, strict=True)
    ]
    return torch.tensor(ids), torch.tensor(mask), right


def random_batch(seed: int, groups: list[int]) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Groups of these sizes, prompts of 3 to 12 tokens, completions of 1 to 7."""
    generator = torch.Generator().manual_seed(seed)

    def tokens(low: int, high: int) -> list[int]:
        length = int(torch.randint(low, high + 1, (), generator=generator))
        return torch.randint(3, VOCABULARY, (length,), generator=generator).tolist()

    prompts = [prompt for size in groups for prompt in [tokens(3, 12)] * size]
    return batch(prompts, [tokens(1, 7) for _ in prompts])


def plain(model: Any, ids: torch.Tensor, mask: torch.Tensor, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """As TRL computes them."""
    labels = ids.masked_fill(mask == 0, -100)
    labels[:, :-length] = -100
    output = model(input_ids=ids, attention_mask=mask, labels=labels, fused_lm_head=True)
    return output.log_probs[:, -length:], output.entropy[:, -length:]


def shared(model: Any, ids: torch.Tensor, mask: torch.Tensor, length: int, **options: Any) -> Any:
    prompts = SharedPrompts(model)
    assert prompts.reason == ""
    return prompts.log_probs(
        model, backbone_of(model), ids, mask, length, autocast=nullcontext, with_entropy=True, **options
    )


def gradients(model: Any, loss: torch.Tensor) -> torch.Tensor:
    model.zero_grad()
    loss.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", KINDS)
def test_log_probabilities_entropies_and_gradients_are_those_of_a_plain_batch(kind, attention):
    model = model_of(kind, attn_implementation=attention)
    ids, mask, length = random_batch(1, [4, 2, 1, 5])
    expected, expected_entropy = plain(model, ids, mask, length)
    found, entropy = shared(model, ids, mask, length)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(entropy, expected_entropy, atol=1e-5, rtol=0)
    weights = torch.randn(expected.shape, generator=torch.Generator().manual_seed(2))
    wanted = gradients(model, (plain(model, ids, mask, length)[0] * weights).sum())
    gotten = gradients(model, (shared(model, ids, mask, length)[0] * weights).sum())
    assert (gotten - wanted).norm() <= 1e-6 * wanted.norm()


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    groups=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    batch_size=st.integers(1, 8) | st.none(),
    order=st.randoms(use_true_random=False),
)
def test_any_groups_in_any_order_and_any_micro_batches(seed, groups, batch_size, order):
    model = model_of("qwen3").eval()
    ids, mask, length = random_batch(seed, groups)
    rows = list(range(len(ids)))
    order.shuffle(rows)
    ids, mask = ids[rows], mask[rows]
    with torch.no_grad():
        found = shared(model, ids, mask, length, batch_size=batch_size)
        expected, entropy = plain(model, ids, mask, length)
    if found is None:
        return  # no prompt stands twice in a part
    torch.testing.assert_close(found[0], expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(found[1], entropy, atol=1e-5, rtol=0)
