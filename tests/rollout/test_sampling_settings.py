"""Temperature and top-p: the distribution that is drawn from, worked out by hand, in all engines."""

from __future__ import annotations

import asyncio
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.rollout.server_setup import FakeServer

from curro.core.errors import ConfigError
from curro.lab import load
from curro.rollout.engines.engine import SamplingSettings
from curro.rollout.engines.local import LocalEngine, SeededSampling
from curro.rollout.engines.openai_server import OpenAIEngine
from curro.rollout.engines.plain_generation import drawn_tokens
from curro.rollout.sampling import sample

PROBABILITIES = [0.15, 0.5, 0.05, 0.3]
"""Of the tokens 0 to 3."""


def drawn(uniforms: list[float], **settings: float) -> tuple[list[int], list[float]]:
    """The token that each uniform number draws, and its log-probability."""
    sampling = SeededSampling(np.array(uniforms)[:, None], SamplingSettings(1, **settings), "cpu")
    scores = torch.log(torch.tensor([PROBABILITIES] * len(uniforms)))
    after = sampling(torch.zeros(len(uniforms), 1, dtype=torch.int64), scores)
    assert after.argmax(-1).tolist() == sampling.tokens_BT[:, 0].tolist()
    return sampling.tokens_BT[:, 0].tolist(), sampling.logprobs_BT[:, 0].tolist()


def test_top_p_keeps_the_likeliest_tokens_that_reach_it():
    # .5 alone does not reach .6; .5 and .3 do: .625 and .375 of what is left, in the vocabulary's order
    tokens, logprobs = drawn([0.0, 0.62, 0.63, 0.999], top_p=0.6)
    assert tokens == [1, 1, 3, 3]
    assert logprobs == pytest.approx([math.log(0.625)] * 2 + [math.log(0.375)] * 2, abs=1e-5)


def test_top_p_is_reached_exactly_by_one_token():
    assert drawn([0.0, 0.999], top_p=0.4)[0] == [1, 1]
    assert drawn([0.0, 0.999], top_p=1e-9)[0] == [1, 1]


def test_top_p_looks_at_the_tempered_distribution():
    # at temperature 1/2 the squares count: .0225 .25 .0025 .09 of .365, so .685 is the first token's
    assert drawn([0.999], top_p=0.68, temperature=0.5)[0] == [1]
    assert drawn([0.999], top_p=0.69, temperature=0.5)[0] == [3]


def test_without_top_p_every_token_is_drawn():
    tokens, logprobs = drawn([0.14, 0.16, 0.66, 0.71])
    assert tokens == [0, 1, 2, 3]
    assert logprobs == pytest.approx(np.log(PROBABILITIES).tolist(), abs=1e-5)


def test_at_temperature_0_the_likeliest_token_is_certain():
    assert drawn([0.0, 0.999], temperature=0.0) == ([1, 1], [0.0, 0.0])


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


def test_the_local_engine_draws_less_variously_with_a_small_top_p():
    pair = load("chains")

    async def texts(**settings: float) -> set[str]:
        engine = LocalEngine(*pair, max_new_tokens=16, **settings)
        try:
            return {rollout.text for rollout in await engine.generate("3afcbdeafc=", 32)}
        finally:
            await engine.close()

    likeliest = asyncio.run(texts(temperature=0.0))
    assert len(likeliest) == 1
    assert asyncio.run(texts(top_p=0.01)) == likeliest
    assert len(asyncio.run(texts())) > len(asyncio.run(texts(top_p=0.5)))


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


def test_samples_with_a_tokenizer_that_cannot_pad(unpadded):
    found = sample(*unpadded, ["abc", "a"], n=3, settings=SamplingSettings(4))
    assert [len(texts) for texts in found] == [3, 3]


def test_samples_at_temperature_0_are_all_the_likeliest(unpadded):
    alone = sample(*unpadded, ["abc"], n=1, settings=SamplingSettings(4, temperature=0.0))
    assert (
        sample(*unpadded, ["abc", "a"], n=3, settings=SamplingSettings(4, temperature=0.0))[0] == alone[0] * 3
    )
    assert sample(*unpadded, ["abc"], n=1, settings=SamplingSettings(4, top_p=1e-6)) == alone
