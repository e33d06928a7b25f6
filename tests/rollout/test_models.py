"""Models by name: the type of their weights, and names that are none."""

import pytest
import torch

from curro import lab
from curro.errors import ConfigError
from curro.rollout.engines.models import load_model


def test_a_policy_is_trained_in_float32_whatever_it_was_saved_in(tmp_path):
    model, tokenizer = lab.load("chains")
    model.to(torch.bfloat16).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert {p.dtype for p in load_model(str(tmp_path))[0].parameters()} == {torch.float32}
    assert {p.dtype for p in load_model(str(tmp_path), dtype="auto")[0].parameters()} == {torch.bfloat16}


def test_a_small_step_is_kept_in_float32_and_lost_in_bfloat16():
    for dtype, moves in ((torch.float32, True), (torch.bfloat16, False)):
        weight = torch.nn.Parameter(torch.full((4,), 0.02, dtype=dtype))
        before, optimizer = weight.detach().clone(), torch.optim.AdamW([weight], lr=1e-6, weight_decay=0)
        weight.grad = torch.ones_like(weight)
        optimizer.step()
        assert bool((weight != before).all()) is moves


def test_a_name_that_is_none(tmp_path):
    with pytest.raises(ConfigError, match="a folder, a GGUF file, a hub id or lab:NAME is needed"):
        load_model(str(tmp_path / "none"))
