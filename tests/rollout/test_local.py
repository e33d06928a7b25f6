"""The local engine on the lab's model: batches, seeds, probabilities, cancelled calls."""

from __future__ import annotations

import asyncio
import functools
import math
import threading
import time
from collections import Counter

import numpy as np
import pytest
import torch

from curro.core.errors import EngineError, PromptError
from curro.lab import load
from curro.lab.model import build_model
from curro.rollout.engines.engine import SamplingSettings
from curro.rollout.engines.local import LocalEngine

CHAT = [{"role": "user", "content": "3afc="}]
PROMPTS = ["3afc=", "5b=", "1abcdefghij=", CHAT]


@pytest.fixture(scope="module")
def chains():
    torch.set_num_threads(1)
    return load("chains")


@pytest.fixture(scope="module")
def endless(chains):
    """A model with random weights that ends no sequence."""
    torch.manual_seed(0)
    model, tokenizer = build_model(chains[1], width=16, layers=1), load("chains")[1]
    model.generation_config.eos_token_id = None
    tokenizer.eos_token = None
    model.config.max_position_embeddings = 100_000
    return model, tokenizer


class Held:
    """A model whose forward pass of a number waits until `go` is set.

    Attributes:
        passes: so far.
        reached: set when the pass that waits has begun.
    """

    def __init__(self, monkeypatch, pair, number):
        self.passes, self.reached, self.go = 0, threading.Event(), threading.Event()
        forward = pair[0].forward

        @functools.wraps(forward)
        def held_forward(*arguments, **options):
            self.passes += 1
            if self.passes == number:
                self.reached.set()
                self.go.wait()
            return forward(*arguments, **options)

        monkeypatch.setattr(pair[0], "forward", held_forward)


class Slow:
    """A model in training, which ends no sequence, whose forward passes and way back to training take time.

    Attributes:
        begun, inside: forward passes so far, and those under way.
    """

    def __init__(self, seconds):
        self.model, self.tokenizer = load("chains")
        self.model.generation_config.eos_token_id = self.tokenizer.eos_token = None
        self.model.config.max_position_embeddings = 100_000
        self.model.train()
        self.begun = self.inside = 0
        forward, train = self.model.forward, self.model.train

        @functools.wraps(forward)
        def slow_forward(*arguments, **options):
            self.begun += 1
            self.inside += 1
            time.sleep(seconds)
            try:
                return forward(*arguments, **options)
            finally:
                self.inside -= 1

        def slow_train(mode=True):
            time.sleep(seconds)
            return train(mode)

        self.model.forward, self.model.train = slow_forward, slow_train

    @property
    def left_alone(self):
        return not self.inside and self.model.training


def with_engine(pair, use, **options):
    """The result of `await use(engine)`, and the engine's metrics."""

    async def run():
        engine = LocalEngine(*pair, **{"max_new_tokens": 16} | options)
        try:
            return await use(engine), engine.metrics()
        finally:
            await engine.close()

    return asyncio.run(run())


def generated(pair, prompts, n, **options):
    async def use(engine):
        return await asyncio.gather(*(engine.generate(prompt, n) for prompt in prompts))

    return with_engine(pair, use, **options)


def log_probability(pair, prompt, ids, temperature):
    """Of each of the tokens, from one pass of the model over all of them."""
    model, tokenizer = pair
    if not isinstance(prompt, str):
        prompt = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=False)
        start = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    else:
        start = tokenizer(prompt)["input_ids"]
    with torch.inference_mode():
        logits = model(torch.tensor([[*start, *ids]])).logits[0, len(start) - 1 : -1]
    return torch.log_softmax(logits / temperature, -1)[range(len(ids)), list(ids)].numpy()


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_tokens_and_their_probabilities(chains, temperature):
    groups, _ = generated(chains, PROMPTS, 3, temperature=temperature)
    for prompt, group in zip(PROMPTS, groups, strict=True):
        for rollout in group:
            assert (rollout.finish, rollout.error) == ("stop", None)
            assert rollout.token_ids[-1] == chains[1].eos_token_id
            assert chains[1].decode(rollout.token_ids, skip_special_tokens=True) == rollout.text
            expected = log_probability(chains, prompt, rollout.token_ids, temperature)
            np.testing.assert_allclose(rollout.logprobs, expected, atol=1e-4)


def test_samples_follow_the_model(chains):
    ((group,), _) = generated(chains, ["5b="], 2000, max_new_tokens=1, batch=500)
    counts = Counter(rollout.token_ids[0] for rollout in group)
    for token, count in counts.most_common(3):
        p = math.exp(log_probability(chains, "5b=", [token], 1.0)[0])
        # 5 standard deviations: one draw of a million lies outside
        assert abs(count - 2000 * p) < 5 * math.sqrt(2000 * p * (1 - p)) + 1


def test_requests_of_one_moment_share_a_batch(chains):
    _, metrics = generated(chains, PROMPTS, 4)
    assert metrics["engine/batches"] == 1
    assert metrics["engine/rollouts"] == 16
    _, metrics = generated(chains, PROMPTS, 4, batch=6)
    assert metrics["engine/batches"] == 3


def test_a_seed_gives_the_same_rollouts_in_any_order_and_batch(chains):
    first, _ = generated(chains, PROMPTS, 4, seed=5)
    again, _ = generated(chains, PROMPTS[::-1], 4, seed=5, batch=3)
    assert [[r.token_ids for r in group] for group in again[::-1]] == [
        [r.token_ids for r in group] for group in first
    ]
    torch.manual_seed(3)
    before = torch.get_rng_state()
    other, _ = generated(chains, PROMPTS, 4, seed=6)
    assert torch.equal(torch.get_rng_state(), before), "torch's own random numbers are left alone"
    assert [group[0].token_ids for group in other] != [group[0].token_ids for group in first]
    twice, _ = generated(chains, [PROMPTS[2], PROMPTS[2]], 4, seed=5)
    assert [r.token_ids for r in twice[0]] == [r.token_ids for r in first[2]]
    assert [r.token_ids for r in twice[1]] != [r.token_ids for r in first[2]]


def test_truncated_and_empty_completions(chains):
    ((cut,), _) = generated(chains, ["1abcdefghij="], 4, max_new_tokens=2)
    assert {(r.finish, len(r.token_ids), len(r.logprobs)) for r in cut} == {("length", 2, 2)}
    eos = chains[1].eos_token_id

    class Silent(type(chains[0])):
        def forward(self, *arguments, **options):
            answer = super().forward(*arguments, **options)
            answer.logits[..., eos] = 100.0
            return answer

    silent = Silent(chains[0].config)
    silent.generation_config = chains[0].generation_config
    ((empty,), _) = generated((silent, chains[1]), ["5b="], 2)
    assert [(r.text, r.token_ids, r.finish, r.error) for r in empty] == [("", (eos,), "stop", None)] * 2


def test_the_models_own_generation_config_changes_nothing(chains):
    model, tokenizer = load("chains")
    model.generation_config.update(do_sample=False, repetition_penalty=5.0, temperature=0.1, top_k=1)
    expected, _ = generated(chains, PROMPTS, 4)
    found, _ = generated((model, tokenizer), PROMPTS, 4)
    assert found == expected


def test_cancelled_requests_stop_at_the_next_token(endless, monkeypatch):
    held = Held(monkeypatch, endless, 3)

    async def use(engine):
        running = [asyncio.create_task(engine.generate(f"{i}a=", 2)) for i in range(2)]
        await asyncio.to_thread(held.reached.wait)
        waiting = asyncio.create_task(engine.generate("9a=", 2))
        await asyncio.sleep(0)
        for task in (*running, waiting):
            task.cancel()
        while engine.metrics()["engine/cancelled"] < 3:
            await asyncio.sleep(0)
        held.go.set()
        assert all(
            isinstance(e, asyncio.CancelledError)
            for e in await asyncio.gather(*running, waiting, return_exceptions=True)
        )
        assert held.passes == 3, "the pass under way was the last"
        engine.settings = SamplingSettings(2)
        await engine.generate("5b=", 1)
        assert held.passes == 5

    _, metrics = with_engine(endless, use, max_new_tokens=50_000, batch=4)
    assert metrics["engine/cancelled"] == 3
    assert metrics["engine/rollouts"] == 1, "the waiting request was never begun"


def test_one_cancelled_request_leaves_the_others_of_its_batch(chains):
    alone, _ = generated(chains, ["3afc="], 4)

    async def use(engine):
        kept, lost = (asyncio.create_task(engine.generate(p, 4)) for p in ("3afc=", "1abcdefghij="))
        await asyncio.sleep(0)
        lost.cancel()
        return await kept

    kept, _ = with_engine(chains, use)
    assert [r.token_ids for r in kept] == [r.token_ids for r in alone[0]]


def test_a_cancelled_call_is_over_when_the_model_is_left_alone():
    slow = Slow(0.1)

    async def use(engine):
        tasks = [asyncio.create_task(engine.generate(f"{i}abcdefghij=", 2)) for i in range(3)]
        while slow.begun < 2:
            await asyncio.sleep(0.01)
        tasks[0].cancel()
        await asyncio.sleep(0.01)
        for task in tasks:  # the first for the second time
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert slow.left_alone
        assert [type(end) for end in ends] == [asyncio.CancelledError] * 3
        await asyncio.sleep(0.3)
        assert slow.left_alone

    with_engine((slow.model, slow.tokenizer), use, max_new_tokens=50_000)


@pytest.mark.parametrize("max_new_tokens", [1, 16])
def test_an_answered_call_leaves_the_model_alone(max_new_tokens):
    slow = Slow(0.02)

    async def use(engine):
        await asyncio.gather(*(engine.generate(prompt, 2) for prompt in PROMPTS))
        assert slow.left_alone

    with_engine((slow.model, slow.tokenizer), use, max_new_tokens=max_new_tokens, batch=3)


def test_closing_ends_what_runs_and_what_comes(endless, monkeypatch):
    held = Held(monkeypatch, endless, 3)

    async def use(engine):
        task = asyncio.create_task(engine.generate("5b=", 2))
        await asyncio.to_thread(held.reached.wait)
        closing = asyncio.create_task(engine.close())
        while not engine._closed:
            await asyncio.sleep(0)
        held.go.set()
        await closing
        assert held.passes == 3
        with pytest.raises(EngineError, match="closed"):
            await task
        with pytest.raises(EngineError, match="closed"):
            await engine.generate("5b=", 2)

    with_engine(endless, use, max_new_tokens=50_000)


def test_a_prompt_that_the_tokenizer_refuses_does_not_harm_the_others(chains):
    model, tokenizer = load("chains")
    tokenizer.chat_template = None

    async def use(engine):
        bad = asyncio.create_task(engine.generate(CHAT, 2))
        good = asyncio.create_task(engine.generate("5b=", 2))
        with pytest.raises(PromptError, match="the tokenizer cannot read the prompt"):
            await bad
        return await good

    assert len(with_engine((model, tokenizer), use)[0]) == 2


def test_a_tokenizer_without_a_token_to_pad_with(unpadded):
    prompts = ["ab", "cdefg", "h"]
    together, metrics = generated(unpadded, prompts, 2, max_new_tokens=4)
    assert metrics["engine/batches"] == 1
    for prompt, group in zip(prompts, together, strict=True):
        ((alone,), _) = generated(unpadded, [prompt], 2, max_new_tokens=4)
        assert [r.token_ids for r in group] == [r.token_ids for r in alone]
        for rollout in group:
            expected = log_probability(unpadded, prompt, rollout.token_ids, 1.0)
            np.testing.assert_allclose(rollout.logprobs, expected, atol=1e-5)


def test_prompts_that_the_model_has_no_positions_for_do_not_harm_the_others(unpadded):
    async def use(engine):
        prompts = ["ab", "a" * 28, "a" * 29, ""]
        return await asyncio.gather(*(engine.generate(p, 2) for p in prompts), return_exceptions=True)

    (short, longest, too_long, empty), _ = with_engine(unpadded, use, max_new_tokens=4)
    assert [len(short), len(longest)] == [2, 2]
    assert [type(too_long), type(empty)] == [PromptError, PromptError]
    assert "has 29 tokens, which with max_new_tokens=4 are more than the model's 32 positions" in str(
        too_long
    )
    assert "gives no token for the prompt ''" in str(empty)


def test_a_model_that_fails_says_so_and_goes_on(chains):
    model, tokenizer = load("chains")

    async def use(engine):
        forward, model.forward = model.forward, lambda **_: 1 / 0
        with pytest.raises(EngineError, match="generating 2 rollouts at once failed: ZeroDivisionError"):
            await engine.generate("5b=", 2)
        model.forward = forward
        return await engine.generate("5b=", 2)

    assert len(with_engine((model, tokenizer), use)[0]) == 2


def test_a_model_whose_logits_are_not_numbers(chains):
    model, tokenizer = load("chains")
    with torch.no_grad():
        model.model.norm.weight.fill_(math.nan)
    with pytest.raises(EngineError, match="not finite"):
        generated((model, tokenizer), ["5b="], 1)


def test_no_rollouts_of_no_request(chains):
    assert generated(chains, ["5b="], 0)[0] == [[]]
