"""TRL's asynchronous trainer and its own rollout process, with `curro serve` and a server in vLLM's place."""

from __future__ import annotations

import json
import multiprocessing
import sys
import time

import pytest
import torch
from examples import trl_async as example
from tests.contrib.trl_async.setup import (
    OPTIONS,
    dataset,
    no_reward,
    save_model,
    served,
    train_alone,
    trainer,
    without_gpu,
)
from tests.contrib.trl_async.vllm_server import vllm_server
from trl.experimental.async_grpo import async_grpo_trainer, async_rollout_worker

from curro.contrib import trl_async
from curro.contrib.serve import ServedCurriculum
from curro.core.errors import ConfigError, RewardError


@pytest.fixture(autouse=True)
def cpu(monkeypatch):
    without_gpu(monkeypatch.setattr)


@pytest.fixture(autouse=True)
def an_hour_to_start(monkeypatch):
    """TRL gives its process of rollouts, which imports all that this one does, five minutes."""
    defaults = async_rollout_worker.AsyncRolloutWorker.__init__.__kwdefaults__
    monkeypatch.setitem(defaults, "child_ready_timeout", 3600)


@pytest.fixture
def vllm():
    with vllm_server() as address:
        yield address


def test_it_trains_on_admitted_groups_with_their_credit_and_resumes(tmp_path, vllm):
    with served(tmp_path, selection="uniform", admission="signal", advantage="leave-one-out") as service:
        host = trainer(tmp_path, vllm, service, max_steps=2)
        before = host.model.model.embed_tokens.weight.clone()
        host.train()
        assert not torch.equal(before, host.model.model.embed_tokens.weight)
        assert host.advantages == {1.0, -0.3333}  # one of four is right: 1 - 0, and 0 - 1/3
        metrics = host.served_curriculum.metrics()
        assert metrics["in_flight"] == 0
        assert metrics["selected"] == metrics["observed"] + metrics["dropped"]
        assert 4 <= metrics["admitted"] < metrics["observed"]
        logged = [line for line in host.state.log_history if "reward" in line]
        assert [line["reward"] for line in logged] == [0.25, 0.25]
        assert all("curriculum/selected" in line for line in logged)

        trained = json.loads((tmp_path / "run" / "checkpoint-2" / "rollout_state.json").read_text())
        assert trained["prompt_index"] == len(host._trained_groups)
        forgotten = host.served_curriculum.select(3, step=9).tickets
        with pytest.raises(ConfigError, match="the service is at step 9 of an earlier run: resume from"):
            trainer(tmp_path, vllm, service, max_steps=3).train()
        resumed = trainer(tmp_path, vllm, service, max_steps=3)
        resumed.train(resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-2"))
        assert resumed.state.global_step == 3
        again = resumed.served_curriculum.metrics()
        assert len(forgotten) == 3
        assert again["in_flight"] == 0
        assert again["selected"] == again["observed"] + again["dropped"]


def test_a_run_whose_rollouts_never_get_a_reward_ends_with_a_sentence(tmp_path, vllm):
    with served(tmp_path, selection="uniform") as service:
        host = trainer(tmp_path, vllm, service, max_steps=1, reward=no_reward)
        with pytest.raises(RewardError, match=r"none of the first 2 groups has a reward \(no_reward\)"):
            host.train()
        metrics = host.served_curriculum.metrics()
        assert (metrics["observed"], metrics["in_flight"]) == (0, 0)


def test_a_killed_trainers_rollouts_end_and_are_dropped(tmp_path, vllm):
    with served(tmp_path, selection="uniform") as service:
        curriculum = ServedCurriculum(*service)
        process = multiprocessing.get_context("spawn").Process(
            target=train_alone, args=(tmp_path, vllm, service)
        )
        process.start()
        while process.is_alive() and curriculum.metrics()["observed"] < 8:
            time.sleep(0.1)
        process.kill()
        process.join()
        deadline = time.monotonic() + 60
        while curriculum.metrics()["in_flight"] and time.monotonic() < deadline:
            time.sleep(0.1)
        metrics = curriculum.metrics()
        assert metrics["in_flight"] == 0
        assert metrics["observed"] >= 8
        time.sleep(1)
        assert curriculum.metrics() == pytest.approx(metrics, nan_ok=True)


def test_an_error_of_the_reward_function_stays_trls(tmp_path, vllm, monkeypatch):
    """How its process of rollouts comes to tell it is in the test before; here it has told."""

    def fail(*_, **__):
        raise RuntimeError("Rollout worker child has failed") from RuntimeError("LookupError: no answer\n...")

    monkeypatch.setattr(async_grpo_trainer.AsyncGRPOTrainer, "_inner_training_loop", fail)
    with served(tmp_path, selection="uniform") as service:
        host = trainer(tmp_path, vllm, service, max_steps=1)
        with pytest.raises(RuntimeError, match="Rollout worker child has failed") as failure:
            host.train()
        assert "LookupError: no answer" in str(failure.value.__cause__)


@pytest.mark.parametrize("wanted", [1, 16, 128])
@pytest.mark.parametrize("prompts", [3, 8, 24, 64, 1000])
def test_a_prompt_is_free_whenever_a_rollout_can_start(prompts, wanted):
    found = trl_async.limits(prompts, wanted)
    assert 1 <= found["max_inflight_tasks"] <= wanted
    assert 1 <= found["score_queue_maxsize"] <= 16
    assert sum(found.values()) + 1 <= prompts


def test_it_trains_on_fewer_prompts_than_it_would_roll_out_at_once(tmp_path, vllm):
    with served(tmp_path, dataset(3), selection="uniform") as service:
        host = trainer(tmp_path, vllm, service, dataset(3), max_steps=2)
        host.train()
        assert host.state.global_step == 2
        with pytest.raises(ConfigError, match="needs 3 prompts or more, and the data set has 2"):
            trl_async.limits(2, 16)


def test_the_example_trains_with_trls_advantages(tmp_path, vllm, monkeypatch):
    with served(tmp_path, selection="frontier") as (address, token):
        data, file = tmp_path / "train.parquet", tmp_path / "service" / "token"
        options = OPTIONS | {"vllm_server_base_url": vllm, "output_dir": tmp_path / "run", "max_steps": 1}
        given = [part for name, value in options.items() for part in (f"--{name}", str(value))]
        monkeypatch.setattr(
            sys, "argv", ["trl_async.py", save_model(tmp_path), str(data), address, str(file), *given]
        )
        example.main()
        curriculum = ServedCurriculum(address, token)
        metrics = curriculum.metrics()
        assert metrics["observed"] >= 2
        assert metrics["in_flight"] == 0


def test_the_example_is_short():
    with open(example.__file__) as file:
        assert len(file.readlines()) < 50


def test_other_data_and_allocations_are_refused(tmp_path, vllm):
    with served(tmp_path, selection="uniform", allocation="knapsack") as service:
        for data, words in (
            (dataset().select(range(9)), "the curriculum is over 64 prompts, train_dataset has 9"),
            (dataset().select(range(63, -1, -1)), "another data set than train_dataset"),
            (dataset(), "an allocation needs groups of several sizes"),
        ):
            with pytest.raises(ConfigError, match=words):
                trainer(tmp_path, vllm, service, max_steps=1, data=data)
