"""Prompts computed once for their groups: the same numbers as a plain batch, for several architectures."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
import trl.trainer.utils as trl_utils
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.hosts.trl.setup import trainer
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

from curro.hosts.trl.fast.shared_prompts import (
    HAS_FUSED_HEAD,
    SharedPrompts,
    completions_per_sequence,
    pack,
)
from curro.rollout.engines.plain_generation import SampledLogProbs, backbone_of, shared_prefixes
from curro.training.saved_model import lora_config

VOCABULARY, TEMPERATURE = 97, 0.7
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
    "initializer_range": 0.1,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
NEARLY_ALIKE = {"atol": 1e-5, "rtol": 0.0}
KINDS: dict[str, dict[str, Any]] = {
    "qwen3": {"num_key_value_heads": 2, "head_dim": 8},
    "llama": {"num_key_value_heads": 2},
    "gemma": {"num_key_value_heads": 1, "head_dim": 8},
    "gpt_neox": {},
}
SLIDING = ["sliding_attention", "full_attention", "sliding_attention"]
LIMITED: dict[str, dict[str, Any]] = {
    "mistral": {"num_key_value_heads": 2, "sliding_window": 10},
    "gemma3_text": {"num_key_value_heads": 2, "head_dim": 8, "sliding_window": 10, "layer_types": SLIDING},
    "gpt2": {"initializer_range": 0.3},
    "bloom": {"initializer_range": 0.02},
    "falcon": {"num_hidden_layers": 2, "alibi": True, "initializer_range": 0.5},
}


def model_of(kind: str, **options: Any) -> Any:
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **SIZES | (KINDS | LIMITED)[kind])
    model = AutoModelForCausalLM.from_config(config, **options).train()
    if HAS_FUSED_HEAD:
        trl_utils.add_fused_lm_head(model, temperature=TEMPERATURE, outputs=("log_probs", "entropy"))
    return model


def batch(prompts: list[list[int]], completions: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Token ids and masks as TRL pads them, and the length of the longest completion."""
    left, right = max(map(len, prompts)), max(map(len, completions))
    ids = [
        [0] * (left - len(p)) + p + c + [0] * (right - len(c))
        for p, c in zip(prompts, completions, strict=True)
    ]
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


def plain(
    model: Any, ids: torch.Tensor, mask: torch.Tensor, length: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """As TRL computes them."""
    if not HAS_FUSED_HEAD:
        logits = model(input_ids=ids, attention_mask=mask).logits[:, -length - 1 : -1] / TEMPERATURE
        log_probs = logits.log_softmax(-1)
        entropy = -(log_probs.exp() * log_probs).sum(-1)
        log_probs = log_probs.gather(2, ids[:, -length:, None])[..., 0]
        return log_probs * mask[:, -length:], entropy * mask[:, -length:]
    labels = ids.masked_fill(mask == 0, -100)
    labels[:, :-length] = -100
    output = model(input_ids=ids, attention_mask=mask, labels=labels, fused_lm_head=True)
    return output.log_probs[:, -length:], output.entropy[:, -length:]


def shared(model: Any, ids: torch.Tensor, mask: torch.Tensor, length: int, **options: Any) -> Any:
    prompts = SharedPrompts(model, temperature=TEMPERATURE)
    assert prompts.reason == ""
    return prompts.log_probs(
        model, backbone_of(model), ids, mask, length, autocast=nullcontext, with_entropy=True, **options
    )


def gradients(model: Any, loss: torch.Tensor) -> torch.Tensor:
    model.zero_grad()
    loss.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


@pytest.mark.parametrize(("kind", "attention"), [*((kind, "sdpa") for kind in KINDS), ("qwen3", "eager")])
def test_log_probabilities_entropies_and_gradients_are_those_of_a_plain_batch(kind, attention):
    model = model_of(kind, attn_implementation=attention)
    ids, mask, length = random_batch(1, [4, 2, 1, 5])
    expected, expected_entropy = plain(model, ids, mask, length)
    found, entropy = shared(model, ids, mask, length)
    torch.testing.assert_close(found, expected, **NEARLY_ALIKE)
    torch.testing.assert_close(entropy, expected_entropy, **NEARLY_ALIKE)
    weights = torch.randn(expected.shape, generator=torch.Generator().manual_seed(2))
    wanted = gradients(model, (plain(model, ids, mask, length)[0] * weights).sum())
    gotten = gradients(model, (shared(model, ids, mask, length)[0] * weights).sum())
    assert (gotten - wanted).norm() <= 1e-6 * wanted.norm()


@settings(max_examples=20, deadline=None)
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
    torch.testing.assert_close(found[0], expected, **NEARLY_ALIKE)
    torch.testing.assert_close(found[1], entropy, **NEARLY_ALIKE)


def test_a_window_is_shared_within_but_not_beyond():
    for kind in ("mistral", "gemma3_text"):
        model = model_of(kind)
        prompt, completion = [3, 4, 5, 6, 7, 8], [9, 10, 11, 12]
        ids, mask, length = batch([prompt] * 2, [completion, completion[::-1]])
        found = shared(model, ids, mask, length)
        torch.testing.assert_close(found[0], plain(model, ids, mask, length)[0], **NEARLY_ALIKE)
        assert shared(model, *batch([[13, *prompt]] * 2, [completion] * 2)) is None


@pytest.mark.parametrize(
    ("kind", "options", "reason"),
    [
        ("bloom", {}, "it takes no position ids"),
        ("falcon", {}, "ValueError: "),
        ("qwen3", {"attn_implementation": "flex_attention"}, "its attention is flex_attention"),
    ],
)
def test_what_cannot_share_says_why(kind, options, reason):
    assert SharedPrompts(model_of(kind, **options)).reason.startswith(reason)


def test_a_model_that_passes_over_its_position_ids_is_noticed():
    model = model_of("qwen3")
    rotary = model.model.rotary_emb.forward
    model.model.rotary_emb.forward = lambda x, position_ids: rotary(x, torch.arange(x.size(1))[None])
    assert SharedPrompts(model, temperature=TEMPERATURE).reason.startswith(
        "a test gave log-probabilities that differ by"
    )


def test_a_model_whose_positions_count_padding_is_noticed():
    """Its plain rows are padded to the longest prompt, which moves them; packed rows are not."""
    assert SharedPrompts(model_of("gpt2")).reason.startswith("a test gave log-probabilities that differ by")


def test_a_pack_by_hand():
    # two completions of the prompt (5, 6), of two tokens and of one; a prompt (7,) of its own
    ids, mask, length = batch([[5, 6], [5, 6], [7]], [[1, 2], [3], [4, 9]])
    packed = pack(ids, mask, length, width=64)
    assert packed is not None
    assert packed.saved == 1
    # 5 6 1, where 2 and 3 need no state; then 7 4 with padding behind
    assert packed.input_ids.tolist() == [[5, 6, 1], [7, 4, 0]]
    assert packed.position_ids.tolist() == [[0, 1, 2], [0, 1, 0]]
    assert packed.predictors.tolist() == [1, 2, 1, 3, 4]
    assert packed.labels.tolist() == [1, 2, 3, 4, 9]
    assert packed.targets.tolist() == [0, 1, 2, 4, 5]
    assert packed.visible[1, 0].tolist() == [[True, False, False], [True, True, False], [False, False, True]]


def test_completions_do_not_see_each_other():
    ids, mask, length = batch([[5]] * 2, [[1, 2, 3], [4, 6, 7]])
    packed = pack(ids, mask, length, width=64)
    assert packed is not None
    assert packed.input_ids.tolist() == [[5, 1, 2, 4, 6]]
    assert packed.visible[0, 0].int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 0, 0, 1, 0],
        [1, 0, 0, 1, 1],
    ]


def test_long_completions_are_packed_as_far_as_it_pays():
    # a token costs 600 pairs: 8 x 20 + 100 = 260 tokens cost 260 + 260^2 / 600 = 373; two of 180, 2 x 234
    assert completions_per_sequence(100, 20, 8, 100) == 8
    # one of 2100 costs 2100 + 2100^2 / 600 = 9450, two of 1100 cost 6233, one each 3 x 4 x 1.4 x ... = 4800
    assert completions_per_sequence(100, 500, 4, 100) == 1
    assert completions_per_sequence(100, 500, 4, 4096) == 4


@pytest.mark.parametrize("draws_alike", [True, False])
@pytest.mark.parametrize("kind", [*KINDS, "mistral"])
def test_a_prefix_is_read_once_and_the_same_tokens_are_drawn(kind, draws_alike):
    """Six rows of two prompts: the first token is computed twice, and later rows only where they differ."""
    model = model_of(kind).eval()
    ids, mask, _ = batch([[5, 6, 7]] * 3 + [[8, 9]] * 2 + [[5, 6, 7]], [[3]] * 6)
    config = GenerationConfig(do_sample=True, top_k=0, max_new_tokens=5, eos_token_id=2, pad_token_id=0)
    read: list[int] = []
    hook = model.get_input_embeddings().register_forward_hook(
        lambda _, args, out: read.append(args[0].numel())
    )
    distinct_B = [0, 0, 0, 1, 1, 0]
    for seed in range(4):
        results, computed = [], []
        for shares in (False, True):
            read.clear()
            torch.manual_seed(seed)
            sampled = SampledLogProbs(model, as_transformers=draws_alike)
            with torch.no_grad(), sampled, shared_prefixes(model, config) if shares else nullcontext():
                found = model.generate(input_ids=ids, attention_mask=mask, generation_config=config)
            results.append(found)
            computed.append([*read])
        assert results[1].tolist() == results[0].tolist()
        torch.manual_seed(seed)
        own = model.generate(input_ids=ids, attention_mask=mask, generation_config=config)
        assert (own.tolist() == results[1].tolist()) == draws_alike
        drawn = results[1][:, 4:].tolist()
        goes_on = [[2 not in row[: t + 1] for row in drawn] for t in range(len(drawn[0]) - 1)]
        rows = [
            {(distinct_B[i], *row[: t + 1]) for i, row in enumerate(drawn) if goes_on[t][i]}
            for t in range(len(drawn[0]) - 1)
        ]
        assert computed[0] == [6 * 4] + [6] * len(rows)
        assert computed[1] == [2 * 4] + [len(distinct) for distinct in rows]
        whole_mask = torch.cat([mask, torch.ones(6, len(drawn[0]), dtype=mask.dtype)], dim=1)
        logits = model(input_ids=results[1], attention_mask=whole_mask).logits
        wanted = logits.log_softmax(-1)[:, 3:-1].gather(2, results[1][:, 4:, None])[..., 0].tolist()
        completions = [row[: row.index(2) + 1] if 2 in row else row for row in drawn]
        for values, expected in zip(sampled.of(completions), wanted, strict=True):
            assert values == pytest.approx(expected[: len(values)], abs=1e-4)
    hook.remove()


def weights_after(folder: Any, **options: Any) -> torch.Tensor:
    made = trainer(folder, **options)
    made.train()
    return torch.cat([weight.detach().flatten() for weight in made.model.parameters()])


@pytest.mark.parametrize(
    "options",
    [
        {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2, "loss_type": "bnpo"},
        {"beta": 0.1, "num_iterations": 2, "lora": 4},
        {"mask_truncated_completions": True, "entropy_coef": 9.0, "max_completion_length": 48},
        {"top_entropy_quantile": 0.3},
    ],
)
def test_training_with_and_without_sharing_is_the_same_but_for_rounding(tmp_path, options):
    options = {"optim": "sgd", "learning_rate": 0.1, **options}
    lora = options.pop("lora", None)
    results = []
    for name in ("plain", "shared"):
        peft = {} if lora is None else {"peft_config": lora_config(lora)}
        folder = tmp_path / name
        results.append(weights_after(folder, share_prompts=name == "shared", **options, **peft))
    torch.testing.assert_close(results[1], results[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("skip", [True, False])
def test_a_step_without_signal_is_skipped(tmp_path, skip):
    """The reward is 1 or 0 for all rollouts after the first step, so that nothing is learnt from them."""
    calls = 0

    def reward(completions: list[str], **_: Any) -> list[float]:
        nonlocal calls
        calls += 1
        return [float(i % 2) if calls == 1 else 1.0 for i in range(len(completions))]

    made = trainer(tmp_path, reward_funcs=reward, skip_empty_steps=skip, curriculum="uniform", max_steps=1)
    made.train()
    before = torch.cat([weight.detach().flatten().clone() for weight in made.model.parameters()])
    made.args.max_steps = 3
    made.create_optimizer = lambda *args, **options: made.optimizer  # goes on with AdamW's memory
    made.train()
    after = torch.cat([weight.detach().flatten() for weight in made.model.parameters()])
    assert bool((before == after).all()) == skip
