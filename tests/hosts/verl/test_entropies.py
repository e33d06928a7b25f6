"""Entropies of verl's servers."""

from __future__ import annotations

import numpy as np
import pytest
from setup_run import configuration, start_queue
from simulation import Letters, Policy, first_token, serve
from verl.workers.rollout.llm_server import FullyAsyncLLMServerClient, LLMServerClient

import curro
from curro.hosts.verl.policy import ServedPolicy, Serving, VerlRows

SIZE = 401
"""A prime number, so that the digits of a number do not tell its rest, which is the prompt's difficulty."""


def rows() -> list[dict]:
    numbers = np.random.default_rng(0).permutation(SIZE) + SIZE * (300 + 2 * np.arange(SIZE))
    return [
        {"data_source": "sums", "prompt": [{"role": "user", "content": f"problem {number}"}]}
        | {"reward_model": {"ground_truth": "", "style": "rule"}, "extra_info": {"index": 0}}
        for number in numbers.tolist()
    ]


def lent(client_class=LLMServerClient, changes=None):
    """The policy, asked by a client of verl on the simulated server; and the rows."""
    start_queue()  # with what a worker of Ray needs to find the servers
    config, data = configuration("out"), rows()
    data[3] |= changes or {}
    framed = type("Framed", (list,), {"dataframe": property(list)})(data)
    policy = ServedPolicy(VerlRows(framed), "none")
    policy.serving = Serving.of(client_class(config, serve(SIZE)), Letters(), config)
    return policy, data


@pytest.mark.parametrize("client_class", [LLMServerClient, FullyAsyncLLMServerClient])
def test_entropies_are_those_of_the_two_places_after_a_prompt(client_class):
    """Of a hundred equal tokens the servers name eighteen, and in the second place twenty."""
    policy, data = lent(client_class)
    found = policy.entropies([5, 2])
    assert (found.dtype, found.shape) == (np.float32, (2, 2))
    for number, (first, second) in zip((5, 2), found.tolist(), strict=True):
        p = Policy(SIZE).pass_rate(int(data[number]["prompt"][0]["content"].split()[1]))
        assert first == pytest.approx(-sum(q * np.log(q) for q in first_token(p)), abs=1e-5)
        assert second == pytest.approx(np.log(100), abs=1e-5)
    assert policy.seconds > 0


def test_a_prompt_with_an_image_is_refused():
    policy, _ = lent(changes={"images": ["an image"]})
    with pytest.raises(curro.ConfigError, match="of prompts of text alone"):
        policy.entropies([2, 3])


def test_servers_without_them_are_named(monkeypatch):
    policy, _ = lent()

    async def generate(self, request_id, **_):
        return type("Output", (), {"token_ids": [1], "extra_fields": {}})

    monkeypatch.setattr(LLMServerClient, "generate", generate)
    with pytest.raises(curro.ConfigError, match=r"set actor_rollout_ref.rollout.name to vllm or sglang"):
        policy.entropies([2])
