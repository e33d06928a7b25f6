"""A batch filled from a real server, and from one that is killed in mid-fill."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from tests.rollout.filler_setup import settled
from tests.rollout.server_setup import transformers_serve

from curro import Curriculum
from curro.core.errors import EngineError
from curro.data import load_prompts
from curro.reward import resolve_reward
from curro.rollout.engines.openai_server import OpenAIEngine
from curro.rollout.filler import Filler

PROMPTS = load_prompts("lab:chains", limit=40)
REWARD = resolve_reward("auto", PROMPTS)


def score(prompt, rollouts):
    return REWARD.score([rollout.text for rollout in rollouts], [PROMPTS[prompt]] * len(rollouts))


def engine(url, model):
    return OpenAIEngine(url, str(model), max_new_tokens=16, temperature=1.0, retries=0)


def filler(curriculum, server, **options):
    prompts = [row["prompt"] for row in PROMPTS]
    return Filler(
        curriculum, server, prompts.__getitem__, score, rollouts_per_prompt=4, max_in_flight=4, **options
    )


def test_a_batch_of_admitted_groups_then_a_dead_server_then_a_new_one(tmp_path, saved_models):
    curriculum = Curriculum("least-visited", len(PROMPTS), admission="band:0,1,low", seed=0)

    async def fill_and_die(url, model, process):
        server = engine(url, model)
        fill = filler(curriculum, server)
        batch = await asyncio.wait_for(fill.fill(2, step=0), 900)
        assert batch.admitted.all()
        assert batch.rewards.shape == (2, 4)
        assert (batch.rewards.mean(axis=1) < 1).all()
        settled(fill, curriculum)
        before = curriculum.metrics()["observed"]
        running = asyncio.ensure_future(fill.fill(1000, step=1))
        while curriculum.metrics()["observed"] < before + 3:
            await asyncio.sleep(0.01)
            assert not running.done()
        process.kill()
        with pytest.raises(EngineError, match="no server answers"):
            await asyncio.wait_for(running, 900)
        settled(fill, curriculum)
        assert curriculum.metrics()["in_flight"] == 0
        kept = fill.metrics()["fill/kept"]
        await fill.close()
        await server.close()
        return kept

    chains, _ = saved_models
    with transformers_serve(tmp_path) as (url, process):
        kept = asyncio.run(fill_and_die(url, chains, process))
    assert kept == curriculum.metrics()["admitted"] - 2

    async def again(url, model):
        server = engine(url, model)
        async with filler(curriculum, server) as fill:
            batch = await asyncio.wait_for(fill.fill(2, step=1), 900)
        await server.close()
        return batch

    with transformers_serve(tmp_path) as (url, _):
        batch = asyncio.run(again(url, chains))
    assert batch.admitted.tolist() == [True, True]
    assert curriculum.metrics()["in_flight"] == 0
    assert np.isfinite(batch.advantages).all()
