"""The loop around LitGPT's model: the conversion changes nothing, and steps are taken."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import torch

from curro import lab

SCRIPT = Path(__file__).parents[3] / "examples" / "litgpt_grpo.py"


def test_the_converted_model_says_what_the_labs_model_says():
    converted = runpy.run_path(str(SCRIPT))["converted"]
    model, tokenizer = lab.load("chains")
    ids_BT = torch.randint(len(tokenizer), (4, 20), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(converted(model)(ids_BT), model(ids_BT).logits, atol=1e-4, rtol=1e-4)


def test_litgpts_model_is_trained(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["litgpt_grpo.py", "--steps", "2"])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    printed = capsys.readouterr().out
    rewards = [float(reward) for reward in re.findall(r"reward (\S+)", printed)]
    assert len(rewards) == 2
    assert all(0 < reward < 1 for reward in rewards)
