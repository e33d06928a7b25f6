"""TRL's vLLM server mode, with a stand-in of the server: it gets the rows that the curriculum drew."""

from __future__ import annotations

import numpy as np
import pytest
from tests.hosts.trl.setup import PROMPTS, Diary, trainer
from tests.hosts.trl.test_allocation import Uneven
from trl.generation.vllm_generation import VLLMGeneration

import curro


class Server:
    """Answers as TRL's client of the server: n completions of each prompt, one after the other."""

    def __init__(self):
        self.asked = []
        self.rng = np.random.default_rng(0)

    def get_server_info(self):
        return {"model_config": {"logprobs_mode": "processed_logprobs"}}

    def generate(self, prompts, n, max_tokens, **_):
        self.asked += [tuple(ids) for ids in prompts for _ in range(n)]
        completions = [self.rng.integers(3, 9, max_tokens).tolist() for _ in range(len(prompts) * n)]
        logprobs = [[[-1.0] for _ in ids] for ids in completions]
        return {"prompt_ids": prompts, "completion_ids": completions, "logprobs": logprobs}


@pytest.fixture
def server(monkeypatch):
    made = Server()
    monkeypatch.setattr(VLLMGeneration, "_init_vllm", lambda self: setattr(self, "vllm_client", made))
    monkeypatch.setattr(VLLMGeneration, "sync_weights", lambda self: None)
    return made


@pytest.mark.parametrize("admission", [None, "signal"])
@pytest.mark.parametrize("allocation", [None, Uneven()])
def test_the_server_is_asked_for_the_rollouts_of_the_draw(tmp_path, server, allocation, admission):
    diary = Diary()
    curriculum = curro.Curriculum(
        "uniform", PROMPTS, allocation=allocation, admission=admission, advantage="leave-one-out", seed=0
    )
    host = trainer(
        tmp_path, curriculum=curriculum, on_groups=diary, max_steps=2, use_vllm=True, vllm_mode="server"
    )
    host.train()
    texts = [row["prompt"] for row in host.train_dataset]
    ids = [tuple(host._tokenize_prompts([text])[0][0]) for text in texts]
    given = [
        ids[prompt]
        for record in diary.records
        for prompt, rollouts in zip(record.draw.prompts.tolist(), record.sizes, strict=True)
        for _ in range(rollouts)
    ]
    assert sorted(given) == sorted(server.asked)
    sizes = {size for record in diary.records for size in record.sizes}
    assert (len(sizes) > 1) == (allocation is not None)
    assert curriculum.metrics()["in_flight"] == 0
