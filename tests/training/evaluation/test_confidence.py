"""Difficulty from one forward pass: numbers by hand from a table of pairs, and padding that changes none."""

from __future__ import annotations

import types

import numpy as np
import pytest
import torch

from curro import lab
from curro.core.errors import ConfigError
from curro.data import PromptSet, load_prompts
from curro.training.evaluation.confidence import Confidence

NEXT = torch.tensor([[1 / 3, 1 / 3, 1 / 3], [0.25, 0.25, 0.5], [0.5, 0.125, 0.375]])
"""The probability of the next token (padding, a, b) after each of these three."""


class Letters:
    """a is 1 and b is 2."""

    pad_token_id = eos_token_id = 0
    chat_template = None

    def __call__(self, text, add_special_tokens=True):
        return {"input_ids": [" ab".index(letter) for letter in text.strip()]}


class Pairs:
    """A model whose next token depends on the last one alone."""

    device, generation_config = "cpu", None

    def __init__(self):
        self.read = []

    def eval(self):
        return self

    def __call__(self, input_ids, attention_mask, position_ids, logits_to_keep):
        self.read.append(input_ids.shape[0])
        first = attention_mask.argmax(dim=1)
        assert (position_ids[range(len(first)), first] == 0).all()
        return types.SimpleNamespace(logits=torch.log(NEXT[input_ids])[:, -logits_to_keep:])


def rows(*pairs):
    return PromptSet(
        [{"prompt": prompt, "answer": answer, "key": str(i)} for i, (prompt, answer) in enumerate(pairs)]
    )


def test_confidence_and_score_by_hand():
    """`ba` after a: .5 and .125, whose geometric mean is .25; the mean of .25, .5, .125 and .125 is .25."""
    model = Pairs()
    prompts = rows(("bbba", "ba"), ("a", "b"), ("b", "a"), ("b", None), ("ab", "a"))
    measured = Confidence.measure(model, Letters(), prompts, batch=3)
    np.testing.assert_allclose(measured.s_N, [0.25, 0.5, 0.125, np.nan, 0.125])
    np.testing.assert_allclose(measured.score_N, [1, 0.9375, 0.984375, np.nan, 0.984375])
    assert (model.read, measured.tokens) == ([3, 1], 6 + 2 + 2 + 3)


def test_long_answers_are_read_fewer_at_a_time(monkeypatch):
    monkeypatch.setattr("curro.training.evaluation.confidence.MOST_TOKENS", 4)
    model = Pairs()
    answers = ("a", "b", "ab", "ba", "abababab")
    prompts = rows(*[("b", answer) for answer in answers], ("b", ""), ("a", " "))
    measured = Confidence.measure(model, Letters(), prompts, batch=3)
    assert model.read == [2, 2, 1]
    alone = [Confidence.measure(model, Letters(), rows(("b", answer)), batch=1).s_N[0] for answer in answers]
    np.testing.assert_allclose(measured.s_N, [*alone, np.nan, np.nan])


def test_its_rank_correlation_with_the_pass_rates():
    """Ranks 1, 2, 3 and 2, 1, 3: rho is 1 - 6 (1 + 1) / (3 (9 - 1)) = .5."""
    measured = Confidence(np.array([0.1, 0.2, 0.9, np.nan]), 0)
    said = measured.describe(np.array([0.25, 0.0, 1.0, 1.0]))
    assert said == (
        "confidence: one forward pass over the answers of 3 prompts; its rank correlation with the pass "
        "rates is 0.50"
    )
    assert "not defined" in measured.describe(np.zeros(4))


def test_the_labs_model_is_read_as_it_reads_a_row_alone():
    model, tokenizer = lab.load("chains")
    prompts = load_prompts("lab:chains", limit=12)
    measured = Confidence.measure(model, tokenizer, prompts, batch=5)
    for row, s in zip(prompts, measured.s_N, strict=True):
        asked, answer = (
            tokenizer(row[name], add_special_tokens=name == "prompt")["input_ids"]
            for name in ("prompt", "answer")
        )
        with torch.no_grad():
            logits = model(torch.tensor([asked + answer])).logits[0]
        log_probs = torch.log_softmax(logits, dim=-1)[len(asked) - 1 : -1]
        assert s == pytest.approx(float(log_probs[range(len(answer)), answer].mean().exp()), rel=1e-4)


def test_a_data_set_without_answers_is_refused():
    with pytest.raises(ConfigError, match="reads the answers of the prompts, and none has one"):
        Confidence.measure(Pairs(), Letters(), rows(("a", None)), batch=2)
