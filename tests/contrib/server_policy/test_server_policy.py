"""Entropies from a server's log-probabilities, and what `frontier` finds by them where texts tell nothing."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from math import log

import numpy as np
import pytest
import torch
from tests.rollout.server_setup import FakeServer

from curro import Curriculum
from curro.contrib.server_policy import ServerPolicy
from curro.core.errors import ConfigError, EngineError
from curro.data import PromptSet
from curro.lab import load
from curro.rollout.engines.openai_server import OpenAIEngine
from curro.rollout.filler import Filler


class Hesitant(FakeServer):
    """Tells in a greedy answer's places how likely the likeliest tokens were.

    Args:
        places: by the text of a prompt, log-probabilities of tokens in each place.
        right: by the text of a prompt and how many rollouts of it there are, whether a rollout is right.
    """

    def __init__(self, places, right=None):
        super().__init__()
        self.places, self.right, self.rollouts = places, right, Counter()
        self.lock = threading.Lock()

    def chunks(self, body):
        if body["max_tokens"] == 1:
            yield from super().chunks(body)
            return
        chat = "messages" in body
        prompt = body["messages"][-1]["content"] if chat else body["prompt"]
        if body["temperature"]:
            with self.lock:
                self.rollouts[prompt] += 1
                right = self.right(prompt, self.rollouts[prompt])
            yield {"choices": [{"index": 0, "text": "1" if right else "0", "finish_reason": "stop"}]}
            return
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
    with Hesitant(lambda _: [HALVES, HALVES]).running() as url:
        found = entropies(url, ["3afc="], temperature=0.5, likeliest=2)
    assert found[0].tolist() == pytest.approx([log(6) - 4 / 6 * log(4)] * 2)


def test_a_models_entropies_come_through_a_server():
    """Of a lab model's 20 likeliest tokens: never above its entropies, and as near as the bound says."""
    model, tokenizer = load("chains")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.8)  # a trained model is sure of most tokens

    @torch.no_grad()
    def log_probs(prompt):
        ids = tokenizer(prompt)["input_ids"]
        first = model(torch.tensor([ids])).logits[0, -1]
        second = model(torch.tensor([[*ids, int(first.argmax())]])).logits[0, -1]
        return torch.stack([first, second]).double().log_softmax(-1)

    prompts = [f"{i}{'abcdefgh'[:i]}=" for i in range(1, 7)]
    exact = np.array([torch.special.entr(log_probs(prompt).exp()).sum(-1).tolist() for prompt in prompts])
    fake = Hesitant(
        lambda prompt: [{str(i): p for i, p in enumerate(row.tolist())} for row in log_probs(prompt)]
    )
    with fake.running() as url:
        found, few = entropies(url, prompts), entropies(url, prompts, likeliest=3)
    assert exact.std(axis=0).min() > 0.01
    assert (found <= exact + 1e-5).all()
    assert (few <= found + 1e-5).all()
    for known, given in ((20, found), (3, few)):
        for prompt, row, lower in zip(prompts, exact, given, strict=True):
            likeliest = log_probs(prompt).exp().topk(known).values.numpy()
            rest, last = 1 - likeliest.sum(axis=1), likeliest[:, -1]
            vocabulary = len(log_probs(prompt)[0])
            lacks = rest * np.log(vocabulary * np.minimum(rest, last) / np.maximum(rest, 1e-12))
            assert (row - lower <= np.maximum(lacks, 0) + 1e-5).all()


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


def rate(prompt: str) -> float:
    """The success rate of a prompt, of which its text, a number, tells nothing."""
    return float(1 / (1 + np.exp(-np.random.default_rng(int(prompt)).uniform(-3, 3))))


def doubt(prompt: str) -> list[dict[str, float]]:
    """A first token that is less sure, the more the prompt's rewards vary."""
    p = rate(prompt)
    others = {f"other {i}": log(p * (1 - p) / 50) for i in range(100)}
    return [{"1": log(p * (1 - 2 * p * (1 - p))), "0": log((1 - p) * (1 - 2 * p * (1 - p))), **others}]


def test_entropies_find_more_signal_where_texts_tell_nothing():
    """The mean variance p(1-p) of what was drawn after eight steps of 24, beside that of all prompts."""
    texts = [str(number) for number in np.random.default_rng(0).integers(10**5, 10**6, 400)]
    rows = [{"key": str(i), "prompt": text, "answer": None} for i, text in enumerate(texts)]

    async def score(prompt, rollouts):
        return [float(rollout.text == "1") for rollout in rollouts]

    async def fill(url):
        engine = OpenAIEngine(url, "tiny", max_new_tokens=4)
        method = "frontier:features=text+entropy,exploration=0.1,exponent=none"
        curriculum = Curriculum(method, PromptSet(rows))
        curriculum.attach(ServerPolicy(engine, texts.__getitem__))
        filler = Filler(curriculum, engine, texts.__getitem__, score, rollouts_per_prompt=4, max_in_flight=1)
        batches = [(await filler.fill(4, step=step)).prompts for step in range(24)]
        await engine.close()
        return np.concatenate(batches[8:])

    fake = Hesitant(doubt, lambda prompt, n: np.random.default_rng([int(prompt), n]).random() < rate(prompt))
    with fake.running() as url:
        drawn = asyncio.run(fill(url))
    rates_N = np.array([rate(text) for text in texts])
    signal_N = rates_N * (1 - rates_N)
    assert signal_N[drawn].mean() > signal_N.mean() + 0.02
