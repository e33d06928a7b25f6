"""Models and tokenizers by name, without the seconds that a training framework takes to import."""

from __future__ import annotations

import copy
import ctypes
import hashlib
import os
import platform
import struct
import sys
from contextlib import suppress
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from curro.core.errors import ConfigError
from curro.core.loading import provider
from curro.rollout.engines.engine import Engine, SamplingSettings


def load_model(name: str, *, dtype: str = "float32") -> tuple[Any, Any]:
    """The model and tokenizer of "lab:NAME", a folder, a GGUF file or a hub id.

    A GGUF file is dequantised, which takes about 0.2 s of a core for every million weights; what is saved of
    it afterwards is a plain model.

    Args:
        dtype: the weights'; "auto" as they were saved. A policy is trained in float32, with autocast where
            there is a GPU: the steps of a learning rate of 1e-6 are lost in bfloat16 weights.
    """
    provided = provider(name)
    if provided is not None:
        return provided[0].model(provided[1])
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, AutoTokenizer

    options: dict[str, Any] = {}
    folder = name
    if name.endswith(".gguf"):
        folder, options["gguf_file"] = _gguf(Path(name))
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **options)
        model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **options)
    except (OSError, ValueError, KeyError, NotImplementedError, struct.error, SafetensorError) as error:
        first_line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ConfigError(
            f"no model at {name!r}: a folder, a GGUF file, a hub id or lab:NAME is needed ({first_line})"
        ) from error
    if "gguf_file" in options:
        model = _plain(model)
    known = model.get_input_embeddings().weight.shape[0]
    if tokenizer.pad_token_id is None or tokenizer.pad_token_id >= known:  # of the latter there is no vector
        tokenizer.pad_token = tokenizer.eos_token
    return model, tokenizer


_MODEL_FILES = (".safetensors", ".bin", ".json", ".txt", ".model", ".jinja")
"""How the names of weights, configurations and tokenizers end."""


def weights_digest(name: str) -> str | None:
    """A digest of a local model's weights, configuration and tokenizer, 32 hex digits; a copy has the same.

    Every byte is read (1 GB takes about 0.6 s of a core), because further training may change few of them.

    Returns:
        None for models of the lab and of the hub.
    """
    path = Path(name)
    if not path.exists():
        return None
    files = [path] if path.is_file() else sorted(p for p in path.iterdir() if p.suffix in _MODEL_FILES)
    total = hashlib.sha256()
    for file in files:
        with file.open("rb") as content:
            total.update(f"{file.name}\0".encode() + hashlib.file_digest(content, "sha256").digest())
    return total.hexdigest()[:32]


def _gguf(path: Path) -> tuple[str, str]:
    """The folder and the name of a GGUF file."""
    if not path.is_file():
        raise ConfigError(f"there is no file {str(path)!r}")
    if find_spec("gguf") is None:
        raise ConfigError(f"{path.name} needs the package gguf: pip install gguf")
    return str(path.parent), path.name


def _plain(loaded: Any) -> Any:
    """The same weights in a model that knows nothing of quantisation: one that does cannot be saved."""
    config = copy.deepcopy(loaded.config)
    config.__dict__.pop("quantization_config", None)
    plain = type(loaded)(config).to(loaded.dtype)
    plain.load_state_dict(loaded.state_dict())
    plain.generation_config = loaded.generation_config
    return plain.eval()


_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
"""Names of glibc's malloc.h."""


def compute_with(threads: int) -> None:
    """Let this process compute with so many threads, and keep the memory of freed tensors for the next ones.

    By default glibc gives every large block back to the system, which clears each page of it before it lends
    the block again. Gradients, rounded weights and logits are such blocks, in every step: on a CPU keeping
    them saves a tenth to a fifth of a small model's step. The process keeps up to 2 GB that it does not use.
    """
    import torch

    torch.set_num_threads(threads)
    if sys.platform == "linux" and not torch.cuda.is_available():
        with suppress(AttributeError):  # other C libraries have no such function
            mallopt = ctypes.CDLL(None).mallopt
            mallopt(_M_MMAP_MAX, 0)
            mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def multiplies_bfloat16() -> bool:
    """Whether products in bfloat16 take less time here than in float32.

    They do on GPUs, and on processors with instructions for them. torch can tell which processors of the x86
    family have such instructions; other families are taken to have them.
    """
    import torch

    if torch.cuda.is_available() or platform.machine().lower() not in ("x86_64", "amd64"):
        return True
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


LEAST_LORA_RATE = 1e-5
"""LoRA learns with about ten times the learning rate of all weights (Schulman, "LoRA Without Regret")."""

LORA_RATE = (
    "LoRA with the learning rate {:g} hardly moves: matrices want about ten times the rate of all weights, "
    "as 1e-5 or 1e-4"
)
"""What to say of a lower rate."""


def precision_warning(precision: str | None) -> str | None:
    """What a person who asked for this precision should hear before a training that it slows down."""
    if precision != "bfloat16" or multiplies_bfloat16():
        return None
    return (
        "this processor has no instructions for bfloat16 (AVX512-BF16 or AMX), so that --precision bfloat16 "
        "takes several times as long as float32: leave --precision out"
    )


def local_model(name: str, *, threads: int) -> tuple[Any, Any]:
    """The model of that name, as of `load_model`, on a GPU if there is one."""
    import torch

    compute_with(threads)
    model, tokenizer = load_model(name, dtype="auto")
    return model.to("cuda" if torch.cuda.is_available() else "cpu"), tokenizer


def server_engine(url: str, model: str | None, settings: SamplingSettings) -> Engine:
    """The model of that name on a server; the environment variable CURRO_SERVER_KEY has its key."""
    try:
        from curro.rollout.engines.openai_server import OpenAIEngine
    except ImportError as error:
        raise ConfigError(str(error)) from None
    return OpenAIEngine(url, model, **asdict(settings), api_key=os.environ.get("CURRO_SERVER_KEY"))
