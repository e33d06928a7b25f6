"""The lab's models: Qwen3 made small enough that a step of GRPO takes a fraction of a second on one core."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from curro.core.errors import ConfigError

CHECKPOINTS = Path(__file__).parent / "checkpoints"


def build_model(tokenizer: PreTrainedTokenizerFast, *, width: int, layers: int) -> Any:
    """A model with random weights from torch's own generator, in float32.

    Args:
        tokenizer: gives the vocabulary and the special tokens.
        width: size of the hidden state; a multiple of 8, for 4 heads.
    """
    ids = {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=width // 4,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        initializer_range=0.04,
        **ids,
    )
    model = Qwen3ForCausalLM(config)
    model.generation_config = GenerationConfig(do_sample=True, temperature=1.0, top_k=0, **ids)
    return model


def build_tokenizer(folder: Path = CHECKPOINTS / "chains") -> PreTrainedTokenizerFast:
    """Build the tokenizer of a checkpoint folder; all of the lab's models have the same one.

    Its tokens are printable ASCII, marks of sums, and some hundred words, among them those of METIS' prompts.
    Plain text starts with `<bos>` and is padded on the left. The chat template knows the roles system, user
    and assistant; an assistant's turn ends with `<eos>`.
    """
    return PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)


def load_checkpoint(folder: Path) -> tuple[Any, PreTrainedTokenizerFast]:
    """The model (float32, on the CPU, in evaluation mode) and the tokenizer of a checkpoint folder."""
    model = Qwen3ForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    return model.eval(), build_tokenizer(folder)


def load(name: str) -> tuple[Any, PreTrainedTokenizerFast]:
    """The warm model of the family `name` and its tokenizer, from the checkpoint shipped with curro."""
    shipped = sorted(path.parent.name for path in CHECKPOINTS.glob("*/config.json"))
    if name not in shipped:
        raise ConfigError(f"the lab has no model {name!r}; there are: {', '.join(shipped)}")
    return load_checkpoint(CHECKPOINTS / name)
