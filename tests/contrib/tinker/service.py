"""A Tinker service in this process: prompts of one token, answers of one token, and real training loops."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace

import chz
import numpy as np
import tinker
import torch
from tinker_cookbook.rl import train
from tinker_cookbook.rl.types import Env, EnvGroupBuilder, RLDatasetBuilder, StepResult

from curro import Curriculum
from curro.contrib.tinker import CurriculumDataset, FilledGroups

PROMPTS = 16
RIGHT, WRONG = 101, 102


class Future:
    def __init__(self, value):
        self.value = value

    async def result_async(self):
        return self.value

    def __await__(self):
        return self.result_async().__await__()


class SamplingClient:
    """Answers by the prompt, the step and how often it was asked; a slow prompt waits for two more steps."""

    def __init__(self, service):
        self.service, self.step = service, service.steps

    async def sample_async(self, prompt, num_samples, sampling_params, **_):
        service, number = self.service, prompt.to_ints()[0]
        rollout = service.asked.count((self.step, number))
        service.asked.append((self.step, number))
        if number in service.broken:
            raise ConnectionError(f"prompt {number} has no answer")
        if number in service.slow:
            while service.steps < self.step + 2:
                await asyncio.sleep(0)
            service.slow.discard(number)
        token = RIGHT if service.is_right(self.step, number, rollout) else WRONG
        sequence = SimpleNamespace(tokens=[token], logprobs=[-0.5], stop_reason="stop")
        return SimpleNamespace(sequences=[sequence])


class TrainingClient:
    def __init__(self, service):
        self.service = service

    async def forward_backward_async(self, data, loss_fn, loss_fn_config=None):
        advantages = [
            (datum.model_input.to_ints()[0], float(datum.loss_fn_inputs["advantages"].to_torch().sum()))
            for datum in data
        ]
        self.service.trained.append(advantages)
        lengths = [datum.model_input.length for datum in data]
        outputs = [{"logprobs": tinker.TensorData.from_torch(torch.zeros(length))} for length in lengths]
        return Future(SimpleNamespace(loss_fn_outputs=outputs))

    async def optim_step_async(self, adam):
        self.service.steps += 1
        if self.service.steps == self.service.dies_after:
            raise ConnectionError("the service is gone")
        return Future(SimpleNamespace(metrics={}))

    async def save_state_async(self, name, **_):
        return Future(SimpleNamespace(path=f"tinker://state/{name}"))

    async def save_weights_for_sampler_async(self, name, **_):
        return Future(SimpleNamespace(path=f"tinker://sampler/{name}"))

    async def save_weights_and_get_sampling_client_async(self, **_):
        return SamplingClient(self.service)

    def create_sampling_client(self, path):
        return SamplingClient(self.service)


def by_share(step, number, rollout):
    """Prompt p is answered rightly with the probability p / prompts."""
    return np.random.default_rng([step, number, rollout]).random() < number / PROMPTS


class Service:
    """What `tinker.ServiceClient` is to the cookbook's loop.

    Attributes:
        asked: (step of the policy, prompt) of every rollout.
        trained: for each optimizer step, (prompt, advantage) of every rollout.
        slow, broken: prompts whose first rollout takes two steps; prompts that are not answered.
        dies_after: the optimizer step that fails.
    """

    def __init__(self, is_right=by_share):
        self.is_right = is_right
        self.asked, self.trained, self.steps, self.dies_after = [], [], 0, None
        self.slow, self.broken = set(), set()

    def prompts(self):
        """The prompts of each step's rollouts, each once, in their order."""
        found = {}
        for step, number in self.asked:
            found.setdefault(step, {})[number] = None
        return [list(numbers) for _, numbers in sorted(found.items())]

    async def create_lora_training_client_async(self, *_, **__):
        return TrainingClient(self)

    async def create_training_client_from_state_with_optimizer_async(self, path, **_):
        self.steps = int(path.rpartition("/")[2])
        return TrainingClient(self)


class OneAnswer(Env):
    def __init__(self, prompt):
        self.prompt = prompt

    async def initial_observation(self):
        return tinker.ModelInput.from_ints([self.prompt]), []

    async def step(self, action, *, extra=None):
        right = float(action[0] == RIGHT)
        return StepResult(
            reward=right, episode_done=True, next_observation=tinker.ModelInput.empty(),
            next_stop_condition=[], metrics={"half": right / 2, "stop/completed": 1.0},
        )  # fmt: skip


class Answers(EnvGroupBuilder):
    """G rollouts of a prompt."""

    def __init__(self, prompt, rollouts):
        self.prompt, self.rollouts = prompt, rollouts

    async def make_envs(self):
        return [OneAnswer(self.prompt) for _ in range(self.rollouts)]

    def logging_tags(self):
        return ["even" if self.prompt % 2 == 0 else "odd"]


@chz.chz
class Prompts(RLDatasetBuilder):
    """Gives the data set that a test has made, so that the test can look at it."""

    made: Callable[[], CurriculumDataset]

    async def __call__(self):
        return self.made(), None


def dataset(folder, curriculum, *, batches=4, groups=3, size=4, **options):
    return CurriculumDataset(
        curriculum,
        Answers,
        groups_per_batch=groups,
        group_size=size,
        batches=batches,
        log_path=str(folder),
        **options,
    )


def a_curriculum(**options):
    return Curriculum(**({"selection": "uniform", "prompts": PROMPTS, "seed": 7} | options))


def run(monkeypatch, folder, made, service, **options):
    """Train by the cookbook's own `main`."""
    monkeypatch.setattr(tinker, "ServiceClient", lambda **_: service)
    tokenizer = SimpleNamespace(decode=lambda tokens, **_: " ".join(map(str, tokens)))
    monkeypatch.setattr(train, "get_tokenizer", lambda _: tokenizer)
    settings = {
        "learning_rate": 1e-4, "dataset_builder": Prompts(made=lambda: made), "model_name": "none",
        "recipe_name": "test", "max_tokens": 1, "log_path": str(folder), "eval_every": 0, "save_every": 2,
        "rollout_json_export": False, "num_groups_to_log": 0, "rollout_error_tolerance": FilledGroups(),
    }  # fmt: skip
    asyncio.run(train.main(train.Config(**(settings | options))))
