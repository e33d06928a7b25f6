"""Fixtures that the tests of several engines share."""

from __future__ import annotations

import pytest
import torch
from tests.rollout.server_setup import save_models, transformers_serve
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast


@pytest.fixture(scope="session")
def saved_models(tmp_path_factory):
    """The folders of the lab's chains and of a model that never ends."""
    return save_models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def serve(tmp_path_factory):
    """The address of `transformers serve`."""
    with transformers_serve(tmp_path_factory.mktemp("serve")) as (url, _):
        yield url


@pytest.fixture(scope="module")
def unpadded():
    """A model with random weights and 32 positions, whose tokenizer has no token to pad with."""
    torch.manual_seed(0)
    words = Tokenizer(models.WordLevel({name: i for i, name in enumerate("abcdefgh$")}, unk_token="a"))
    words.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    sizes = {"vocab_size": 9, "n_positions": 32, "n_embd": 8, "n_layer": 1, "n_head": 1}
    model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=8, eos_token_id=8)).eval()
    return model, PreTrainedTokenizerFast(tokenizer_object=words, eos_token="$")
