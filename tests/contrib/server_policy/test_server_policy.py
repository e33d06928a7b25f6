"""Entropies from a server's log-probabilities."""

from __future__ import annotations

import asyncio
from math import log

import numpy as np
import pytest
from tests.rollout.server_setup import FakeServer

from curro.contrib.server_policy import ServerPolicy
from curro.core.errors import ConfigError, EngineError
from curro.rollout.engines.openai_server import OpenAIEngine


class Hesitant(FakeServer):
    """Tells in a greedy answer's places how likely the likeliest tokens were.

    Args:
        places: by the text of a prompt, log-probabilities of tokens in each place.
    """

    def __init__(self, places):
        super().__init__()
        self.places = places

    def chunks(self, body):
        if body["max_tokens"] == 1:
            yield from super().chunks(body)
            return
        chat = "messages" in body
        prompt = body["messages"][-1]["content"] if chat else body["prompt"]
        assert body["max_tokens"] == 2
        count, places = body["top_logprobs" if chat else "logprobs"], self.places(prompt)
        for place in places:
            likeliest = dict(sorted(place.items(), key=lambda pair: -pair[1])[:count])
            text, logprob = next(iter(likeliest.items()))
            listed = [{"token": name, "logprob": number} for name, number in likeliest.items()]
            choice = {"index": 0, "finish_reason": "length" if place is places[-1] else None}
            if chat:
                content = {"token": text, "logprob": logprob, "top_logprobs": listed}
                choice |= {"delta": {"content": text}, "logprobs": {"content": [content]}}
            else:
                logprobs = {"tokens": [text], "token_logprobs": [logprob], "top_logprobs": [likeliest]}
                choice |= {"text": text, "logprobs": logprobs}
            yield {"id": "x", "choices": [choice]}


def entropies(url, prompts, model="tiny", temperature=1.0, **options):
    engine = OpenAIEngine(url, model, max_new_tokens=16, temperature=temperature, retries=0)
    return ServerPolicy(engine, prompts.__getitem__, **options).entropies(range(len(prompts)))


HALVES = {"a": log(0.5), "b": log(0.25), "c": log(0.2), "d": log(0.05)}
EIGHT_TENTHS = {"x": log(0.8), "y": log(0.05), "z": log(0.05)}


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("streaming", ["yes", "ignored"])
def test_entropies_worked_out_by_hand(chat, streaming):
    """A quarter is left in the first place, as of one token, and .15 in the second, as of three of .05."""
    texts = ["3afc=", "5b="]
    prompts = [[{"role": "user", "content": text}] for text in texts] if chat else texts
    fake = Hesitant({"3afc=": [HALVES, EIGHT_TENTHS], "5b=": [EIGHT_TENTHS]}.__getitem__)
    fake.streaming = streaming
    with fake.running() as url:
        found = entropies(url, prompts, model=None, likeliest=2)
    second = -0.8 * log(0.8) - 0.2 * log(0.05)
    assert (found.dtype, found.shape) == (np.float32, (2, 2))
    assert found.tolist() == [pytest.approx([1.5 * log(2), second]), pytest.approx([second, 0])]
    assert {body["model"] for body in fake.requests} == {"tiny"}


def test_the_temperature_is_the_rollouts():
    """Squared and normalized, (1/2, 1/4, 1/4) is (4, 1, 1) / 6."""

    async def asked_in_a_loop(url):
        return entropies(url, ["3afc="], temperature=0.5, likeliest=2)

    with Hesitant(lambda _: [HALVES, HALVES]).running() as url:
        found = asyncio.run(asked_in_a_loop(url))
    assert found[0].tolist() == pytest.approx([log(6) - 4 / 6 * log(4)] * 2)


def test_a_server_without_log_probabilities_is_named(serve, saved_models):
    with pytest.raises((ConfigError, EngineError), match=r"the server at http.* gives no"):
        entropies(serve, ["3afc="], model=str(saved_models[0]))
    with FakeServer("text").running() as url, pytest.raises(ConfigError, match="leave `entropy` out"):
        entropies(url, ["3afc="])


def test_a_refused_request_is_named():
    fake = FakeServer()
    fake.first = [400]
    with fake.running() as url, pytest.raises(EngineError, match=r"prompt '3afc=': HTTP 400"):
        entropies(url, ["3afc="])
