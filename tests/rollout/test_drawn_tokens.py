"""The tokens that the engine draws have the model's own probabilities, an end of sequence among them."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM

from curro.rollout.engines.plain_generation import SampledLogProbs, shared_prefixes

VOCABULARY, ROWS = 97, 40_000


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("as_transformers", [True, False])
def test_first_tokens_are_distributed_as_the_model_says(precision, as_transformers):
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, initializer_range=0.3, pad_token_id=0,
        bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    model = Qwen3ForCausalLM(config).eval()
    cast = torch.autocast("cpu", torch.bfloat16) if precision == "bfloat16" else nullcontext()
    ids = torch.tensor([[5, 6, 7, 8]]).expand(ROWS, 4)
    mask = torch.ones_like(ids)
    with torch.no_grad(), cast:
        logits = model(input_ids=ids[:1]).logits[0, -1]
        end = int(logits.argsort()[-3])  # a likely one, so that a bias would show
        settings = GenerationConfig(
            do_sample=True, top_k=0, max_new_tokens=1, eos_token_id=end, pad_token_id=0
        )
        with SampledLogProbs(model, as_transformers=as_transformers), shared_prefixes(model, settings):
            drawn = model.generate(input_ids=ids, attention_mask=mask, generation_config=settings)
    counts = np.bincount(drawn[:, 4].numpy(), minlength=VOCABULARY).astype(float)
    expected = logits.float().softmax(-1).double().numpy() * ROWS
    common = expected >= 5
    observed, wanted = (
        np.append(values[common], [values[~common].sum()] * (not common.all()))
        for values in (counts, expected)
    )
    assert chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue > 1e-3
    assert abs(counts[end] - expected[end]) < 4 * expected[end] ** 0.5
