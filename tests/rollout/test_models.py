"""Models by name and from GGUF files: read, used, saved as plain models."""

from __future__ import annotations

import mmap
import platform
import subprocess
import sys

import numpy as np
import pytest
import torch
from tests.rollout.tiny_gguf import TOKENS, write_tiny_gguf

from curro import lab
from curro.core.errors import ConfigError, PromptError
from curro.rollout.engines.models import load_model, multiplies_bfloat16, precision_warning
from curro.rollout.engines.plain_generation import prompt_ids, readable_ids


def test_a_policy_is_trained_in_float32_whatever_it_was_saved_in(tmp_path):
    model, tokenizer = lab.load("chains")
    model.to(torch.bfloat16).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert {p.dtype for p in load_model(str(tmp_path))[0].parameters()} == {torch.float32}
    assert {p.dtype for p in load_model(str(tmp_path), dtype="auto")[0].parameters()} == {torch.bfloat16}


def test_weights_of_which_only_the_beginning_is_there(tmp_path):
    model, tokenizer = lab.load("chains")
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:3000])
    with pytest.raises(ConfigError, match=r"no model at .*: a folder.* is needed \(Error while"):
        load_model(str(tmp_path))


def test_tokens_that_were_added_to_the_tokenizer_alone(tmp_path):
    model, tokenizer = lab.load("chains")
    known = model.get_input_embeddings().weight.shape[0]
    tokenizer.add_tokens([f"<{i}>" for i in range(known - len(tokenizer))])
    assert tokenizer.add_special_tokens({"pad_token": "<new>"}) == 1
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    model, tokenizer = load_model(str(tmp_path))
    assert tokenizer.pad_token == tokenizer.eos_token
    assert readable_ids(model, tokenizer, "1a=") == prompt_ids(tokenizer, "1a=")
    with pytest.raises(PromptError, match=f"'1a=<new>' has the token '<new>', .* after {known} tokens"):
        readable_ids(model, tokenizer, "1a=<new>")


def test_a_tokenizer_that_gives_no_token():
    """As one does that transformers makes of a folder without a vocabulary."""
    with pytest.raises(PromptError, match="gives no token for the prompt '1a='"):
        prompt_ids(lambda text: {"input_ids": []}, "1a=")


@pytest.mark.parametrize(
    ("machine", "has_gpu", "instructions", "fast"),
    [
        ("x86_64", False, (), False),
        ("AMD64", False, (), False),
        ("x86_64", False, ("_is_avx512_bf16_supported",), True),
        ("x86_64", False, ("_is_amx_tile_supported",), True),
        ("x86_64", True, (), True),
        ("arm64", False, (), True),
    ],
)
def test_a_processor_without_instructions_for_bfloat16_is_told_of(
    monkeypatch, machine, has_gpu, instructions, fast
):
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda name=name: name in instructions)
    assert multiplies_bfloat16() is fast
    assert (precision_warning("bfloat16") is None) is fast
    assert precision_warning("float32") is None
    assert precision_warning(None) is None


@pytest.mark.parametrize("keeps", [False, True])
def test_the_memory_of_a_freed_tensor_is_kept_for_the_next_one(keeps):
    lines = [
        "import resource, torch",
        "from curro.rollout.engines.models import compute_with",
        "compute_with(1)" if keeps else "",
        "faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt",
        "for _ in range(10): torch.zeros(32, 1024, 1024)",  # 128 MB each
        "before = faults()",
        "for _ in range(10): torch.zeros(32, 1024, 1024)",
        "print(faults() - before)",
    ]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True
    )
    pages = 10 * 128 * 1024**2 // mmap.PAGESIZE
    # huge pages make fewer faults
    assert int(done.stdout) < pages / 1000 if keeps else int(done.stdout) > pages / 1000


def test_a_name_that_is_none(tmp_path):
    with pytest.raises(ConfigError, match="a folder, a GGUF file, a hub id or lab:NAME is needed"):
        load_model(str(tmp_path / "none"))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A model with random weights, and its file, with 8 bits a weight."""
    path = tmp_path_factory.mktemp("gguf") / "tiny.Q8_0.gguf"
    return write_tiny_gguf(path), path


def test_a_file_gives_the_model_and_the_tokenizer(written):
    model, path = written
    loaded, tokenizer = load_model(str(path))
    assert {p.dtype for p in loaded.parameters()} == {torch.float32}
    for name, weights in model.state_dict().items():
        found = loaded.state_dict()[name]
        assert (found - weights).abs().max() <= weights.abs().max() / 127, name
    assert tokenizer("ab!")["input_ids"] == [TOKENS.index("ab"), TOKENS.index("!")]
    ids = torch.tensor([[1, 2, 3]])
    with torch.inference_mode():
        np.testing.assert_allclose(loaded(ids).logits, model(ids).logits, atol=0.3)


def test_files_that_are_no_models(tmp_path):
    with pytest.raises(ConfigError, match="there is no file"):
        load_model(str(tmp_path / "none.gguf"))
    (tmp_path / "odd.gguf").write_bytes(b"GGUF but not")
    with pytest.raises(ConfigError, match=r"no model at .*odd.gguf"):
        load_model(str(tmp_path / "odd.gguf"))
