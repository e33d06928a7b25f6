"""Temperature and top-p: the distribution that is drawn from."""

from __future__ import annotations

import asyncio
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.rollout.server_setup import FakeServer

from curro.core.errors import ConfigError, EngineError
from curro.data import PromptSet
from curro.lab import load
from curro.reward import Reward
from curro.rollout.engines.engine import SamplingSettings
from curro.rollout.engines.openai_server import OpenAIEngine
from curro.rollout.engines.plain_generation import drawn_tokens
from curro.rollout.sampling import sample
from curro.training.evaluation.estimate import SamplingJob, estimate_here


@given(
    st.integers(0, 2**32 - 1), st.sampled_from([1, 127, 128, 129, 1000]), st.floats(0, 1, exclude_max=True)
)
def test_a_token_is_drawn_where_the_sum_of_all_before_it_is_passed(seed, size, uniform):
    """Of a vocabulary in which nine tokens in ten are impossible, also behind the last possible one."""
    rng = np.random.default_rng(seed)
    weights_V = rng.random(size) ** 8 * (rng.random(size) < 0.1)
    weights_V[rng.integers(size)] = 1
    probabilities_V = torch.tensor(weights_V / weights_V.sum(), dtype=torch.float32)
    (token,) = drawn_tokens(probabilities_V[None], torch.tensor([[uniform]], dtype=torch.float64))[0].tolist()
    sums = np.cumsum(probabilities_V.double().numpy())
    assert probabilities_V[token] > 0
    assert sums[token] - probabilities_V[token].item() <= uniform * sums[-1] + 1e-9
    assert sums[token] >= uniform * sums[-1] - 1e-9


@pytest.mark.parametrize(
    "settings",
    [
        {"max_new_tokens": 0},
        {"temperature": -0.1},
        {"temperature": math.inf},
        {"temperature": math.nan},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"top_p": math.nan},
    ],
)
def test_settings_out_of_range(settings):
    (name,) = settings
    with pytest.raises(ConfigError, match=name):
        SamplingSettings(**{"max_new_tokens": 4} | settings)


def test_a_small_top_p_draws_less_variously():
    def texts(**settings: float) -> set[tuple[int, ...]]:
        torch.manual_seed(0)
        (group,) = sample(*load("chains"), ["3afcbdeafc="], n=32, settings=SamplingSettings(16, **settings))
        return set(map(tuple, group))

    likeliest = texts(temperature=0.0)
    assert len(likeliest) == 1
    assert texts(top_p=0.01) == likeliest
    assert len(texts()) > len(texts(top_p=0.5))


@pytest.mark.parametrize("name", ["top_p", "temperature"])
def test_a_server_is_asked_with_the_settings_and_its_logprobs_are_of_another_distribution(name):
    async def ask(url: str, **options: float) -> object:
        engine = OpenAIEngine(url, "tiny", max_new_tokens=4, **{name: 0.95}, **options)
        try:
            return (await engine.generate("3afc=", 1))[0].logprobs
        finally:
            await engine.close()

    fake = FakeServer()
    with fake.running() as url:
        assert asyncio.run(ask(url)) is None
        assert asyncio.run(ask(url, tempered_logprobs=True)) is not None
    assert {body[name] for body in fake.requests} == {0.95}


def test_samples_at_temperature_0_are_all_the_likeliest(unpadded):
    alone = sample(*unpadded, ["abc"], n=1, settings=SamplingSettings(4, temperature=0.0))
    assert (
        sample(*unpadded, ["abc", "a"], n=3, settings=SamplingSettings(4, temperature=0.0))[0] == alone[0] * 3
    )
    assert sample(*unpadded, ["abc"], n=1, settings=SamplingSettings(4, top_p=1e-6)) == alone


def estimated_here(model, tokenizer, prompts, **settings):
    rows, reward = [], Reward("test", lambda texts, _: [0.0] * len(texts))
    data = PromptSet([{"prompt": text, "answer": None, "key": f"k{i}"} for i, text in enumerate(prompts)])
    sampling = SamplingSettings(**{"max_new_tokens": 4} | settings)
    job = SamplingJob(data, reward, None, "model", None, sampling, k=2, batch=4, seed=0, threads=1)
    return estimate_here(job, model, tokenizer, range(len(prompts)), rows.append), rows


def test_prompts_that_a_model_cannot_read_or_has_no_room_for_are_left_out(unpadded):
    chat = [{"role": "user", "content": "ab"}]  # the tokenizer has no chat template
    left_out, rows = estimated_here(*unpadded, ["ab", "a" * 28, "a" * 29, chat, "b"], max_new_tokens=4)
    assert [(row["prompt"], row["rollouts"]) for row in rows] == [(0, 2), (1, 2), (4, 2)]
    too_long, unreadable = left_out
    assert "has 29 tokens, which with 4 of a completion are more than the model's 32 positions" in too_long
    assert "the tokenizer cannot read the prompt" in unreadable


@pytest.mark.parametrize(("limit", "cut"), [(2, 2), (16, 0)])
def test_completions_that_the_limit_cuts_are_counted(limit, cut):
    _, (row,) = estimated_here(*load("chains"), ["1abcdefghij="], max_new_tokens=limit)
    assert (row["rollouts"], row["truncated"]) == (2, cut)


def test_a_model_whose_logits_are_not_numbers_is_given_up():
    model, tokenizer = load("chains")
    with torch.no_grad():
        model.model.norm.weight.fill_(np.nan)
    with pytest.raises(EngineError, match="generating 2 rollouts at once failed"):
        estimated_here(model, tokenizer, ["5b="])
