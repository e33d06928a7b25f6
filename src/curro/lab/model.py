"""The lab's models: Qwen3 made small enough that a step of GRPO takes a fraction of a second on one core."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from curro.errors import ConfigError

CHECKPOINTS = Path(__file__).parent / "checkpoints"


def build_model(tokenizer: PreTrainedTokenizerFast, *, width: int, layers: int, heads: int = 4) -> Any:
    """A model with random weights from torch's own generator, in float32.

    Args:
        tokenizer: gives the vocabulary and the special tokens.
        width: size of the hidden state; a multiple of 2 * heads.
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
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=width // heads,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        initializer_range=0.04,
        **ids,
    )
    model = Qwen3ForCausalLM(config)
    model.generation_config = GenerationConfig(do_sample=True, temperature=1.0, top_k=0, **ids)
    return model


def load_checkpoint(folder: Path) -> tuple[Any, PreTrainedTokenizerFast]:
    """The model (float32, on the CPU, in evaluation mode) and the tokenizer of a checkpoint folder."""
    model = Qwen3ForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    return model.eval(), PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)


def load(name: str) -> tuple[Any, PreTrainedTokenizerFast]:
    """The warm model of the family `name` and its tokenizer, from the checkpoint shipped with curro.

    Raises:
        ConfigError: no checkpoint of that name; the message lists those there are.
    """
    there = sorted(path.parent.name for path in CHECKPOINTS.glob("*/config.json"))
    if name not in there:
        raise ConfigError(f"the lab has no model {name!r}; there are: {', '.join(there)}")
    return load_checkpoint(CHECKPOINTS / name)
