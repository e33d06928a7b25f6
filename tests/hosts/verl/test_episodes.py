"""verl's agent loop that plays episodes: made by verl's own registry file, with a scripted server."""

from __future__ import annotations

import asyncio
import math
import types

import hydra
import numpy as np
import pytest
from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import DictConfigWrap, ToolListWrap
from verl.workers.rollout.replica import TokenOutput

from curro.core.errors import EnvironmentFailure
from curro.lab.model import build_tokenizer

TOKENIZER = build_tokenizer()
ASKED = [{"role": "user", "content": "12 ="}]


class Count:
    """Tells the number of the action; the reward is the share of actions that are the row's answer."""

    turns, turn_tokens = 3, 4

    def start(self, row, seed):
        assert row["task"] == "add", "the data set's own columns are there"
        return Counting(row)


class Counting:
    def __init__(self, row):
        self.row, self.right = row, []

    def step(self, action):
        if action == "!":
            raise RuntimeError("broken")
        self.right.append(action == self.row["answer"])
        return f"{len(self.right)}"

    def reward(self):
        return None if not self.right else sum(self.right) / 3


class Server:
    """Writes the next text of a script after each context, and ends it where there is room."""

    def __init__(self, *texts, logprobs=True):
        self.texts, self.logprobs = list(texts), logprobs
        self.asked = []

    async def generate(self, request_id, prompt_ids, sampling_params, priority=0):
        self.asked.append((request_id, TOKENIZER.decode(prompt_ids), sampling_params))
        tokens = TOKENIZER(self.texts[len(self.asked) - 1], add_special_tokens=False)["input_ids"]
        tokens = [*tokens, TOKENIZER.eos_token_id][: sampling_params["max_tokens"]]
        step = len(self.asked)
        return TokenOutput(
            token_ids=tokens,
            log_probs=[-0.5] * len(tokens) if self.logprobs else None,
            extra_fields={"min_global_steps": step, "max_global_steps": step},
        )


def played(server, length=64):
    """An episode by a loop that verl's worker would make."""
    rollout = {"prompt_length": 64, "response_length": length}
    config = OmegaConf.create({"actor_rollout_ref": {"rollout": rollout}, "data": {}})
    loop = {"_target_": "curro.hosts.verl.episodes.EpisodeLoop", "environment": "test_episodes:Count"}

    async def run():
        made = hydra.utils.instantiate(
            OmegaConf.create(loop),
            trainer_config=DictConfigWrap(config=config),
            server_manager=server,
            tokenizer=TOKENIZER,
            processor=None,
            hf_model_type=None,
            dataset_cls=types.SimpleNamespace,
            data_config=DictConfigWrap(config.data),
            tools=ToolListWrap([]),
        )
        row = {
            "raw_prompt": np.array(ASKED),
            "reward_model": {"ground_truth": "7"},
            "task": "add",
            "uid": "u",
        }
        return await made.run({"temperature": 1.0}, priority=np.int64(3), global_steps=5, **row)

    return asyncio.run(run())


def test_an_episode():
    server = Server("7", "8", "7")
    output = played(server)
    fields = output.as_dict()
    eos = TOKENIZER.eos_token
    assert TOKENIZER.decode(output.prompt_ids) == "<bos><|user|>12 =<|assistant|>"
    written = f"7{eos}<|user|>1<|assistant|>8{eos}<|user|>2<|assistant|>7{eos}"
    assert TOKENIZER.decode(output.response_ids) == written
    assert fields["response_mask"].tolist() == [1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1]
    assert fields["rollout_log_probs"].tolist() == [-0.5 * own for own in output.response_mask]
    assert fields["rm_scores"].tolist() == [0.0] * 11 + [pytest.approx(2 / 3)]
    requests, contexts, parameters = zip(*server.asked, strict=True)
    assert len(set(requests)) == 1, "a server keeps what it has computed of the episode"
    assert contexts[1] == f"<bos><|user|>12 =<|assistant|>7{eos}<|user|>1<|assistant|>"
    assert parameters[0] == {"temperature": 1.0, "max_tokens": 4}
    assert output.num_turns == 6
    versions = (output.extra_fields["min_global_steps"], output.extra_fields["max_global_steps"])
    assert versions == (1, 3), "of the weights that wrote the first and the last action"


def test_what_is_cut_off_is_not_executed():
    output = played(Server("7", "1 2 3 4 5", logprobs=False))
    assert output.response_mask == [1, 1, 0, 0, 0, 1, 1, 1, 1]
    assert output.response_logprobs is None
    assert output.reward_score == pytest.approx(1 / 3)
    assert len(played(Server("7", "8"), length=6).response_ids) <= 6
    assert math.isnan(played(Server("1 2 3 4")).reward_score), "an episode that is not scored"


def test_an_environment_that_fails_is_named():
    with pytest.raises(EnvironmentFailure, match=r"environment Count: step failed with RuntimeError: broken"):
        played(Server("!"))
