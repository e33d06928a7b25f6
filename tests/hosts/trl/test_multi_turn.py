"""Episodes in TRL: observations are given, never learnt, and every method trains on the rewards."""

from __future__ import annotations

import random
import shutil
from collections import defaultdict
from typing import Any

import pytest
import torch
from tests.hosts.trl.launch import in_two_processes
from tests.hosts.trl.setup import dataset, generated_by, generators_of, trainer
from tests.hosts.trl.test_fill import Recorded, TheSame, assert_trained_alike
from typer.testing import CliRunner

import curro
from curro.cli import make_app
from curro.data.prompt_set import PromptSet
from curro.hosts.trl import CurriculumGRPOTrainer
from curro.lab.model import build_model, build_tokenizer
from curro.reward.environments.environment import episode_reward
from curro.rollout.engines.engine import SamplingSettings
from curro.rollout.sampling import evaluate

TRAIN = make_app(["train"])

TOKENIZER = build_tokenizer()


class Guess:
    """Answers with the length of the action and a word; the reward is of how often a digit was even."""

    turns, turn_tokens = 3, 4

    def __init__(self) -> None:
        self.started: list[tuple[str, int]] = []

    def start(self, row: dict[str, Any], seed: int) -> Any:
        self.started.append(
            (row["prompt"] if isinstance(row["prompt"], str) else row["prompt"][0]["content"], seed)
        )
        return Guessed(seed)


class Guessed:
    def __init__(self, seed: int) -> None:
        self.rng, self.even = random.Random(seed), []

    def step(self, action: str) -> str:
        self.even.append(len(action) % 2 == 0)
        return f" total {self.rng.randrange(10)}"

    def reward(self) -> float:
        return float(bool(self.even) and sum(self.even) * 2 >= len(self.even))


class Scripted:
    """A trainer mixin whose actions are a function of the context and the place in the batch of alike."""

    def _generate_single_turn(self, contexts: list[list[int]], *_: Any, **__: Any) -> tuple[Any, None]:
        rngs, end = generators_of(contexts), TOKENIZER.eos_token_id
        return [[*rng.integers(10, 40, rng.integers(1, 4)).tolist(), end] for rng in rngs], None


class ScriptedCurriculum(Scripted, CurriculumGRPOTrainer):
    pass


def scripted(folder: Any, **options: Any) -> Any:
    played = {"train_dataset": dataset_with_keys(), "environment": Guess(), "max_completion_length": 40}
    return trainer(folder, ScriptedCurriculum, **played | options)


def dataset_with_keys(conversational: bool = False) -> Any:
    rows = dataset(conversational).to_list()
    return PromptSet([{**row, "answer": None, "key": f"row {row['row']}"} for row in rows]).to_hf()


@pytest.mark.parametrize("conversational", [False, True], ids=["text", "chat"])
def test_the_update_is_that_of_the_models_own_tokens(tmp_path, conversational):
    """One step of plain gradient descent against a direct computation on the tokens that were played."""
    host = scripted(
        tmp_path,
        curriculum="uniform",
        train_dataset=dataset_with_keys(conversational),
        max_steps=1,
        loss_type="dr_grpo",
        scale_rewards="none",
        optim="sgd",
        learning_rate=0.5,
        max_grad_norm=0.0,
    )
    start = {name: value.clone() for name, value in host.model.state_dict().items()}
    kept = generated_by(host)
    host.train()
    (batch,) = kept
    assert batch["tool_mask"].shape == batch["completion_ids"].shape

    def stepped(mask: torch.Tensor) -> dict[str, torch.Tensor]:
        model = build_model(TOKENIZER, width=32, layers=1)
        model.load_state_dict(start)
        total = torch.zeros(())
        for i in range(16):
            prompt = batch["prompt_ids"][i][batch["prompt_mask"][i].bool()]
            completion = batch["completion_ids"][i][batch["completion_mask"][i].bool()]
            logits = model(input_ids=torch.cat([prompt, completion])[None]).logits[0, len(prompt) - 1 : -1]
            logps = logits.log_softmax(-1).gather(1, completion[:, None])[:, 0]
            total = total - batch["advantages"][i] * (logps * mask[i][: len(completion)]).sum()
        (total / (16 * 40)).backward()
        return {name: p.detach() - 0.5 * p.grad for name, p in model.named_parameters()}

    own, every = stepped(batch["tool_mask"]), stepped(torch.ones_like(batch["tool_mask"]))
    moved = dict(host.model.named_parameters())
    for name, value in own.items():
        torch.testing.assert_close(moved[name].detach(), value, rtol=1e-4, atol=1e-6)
    assert any(not torch.allclose(every[name], value, rtol=1e-4, atol=1e-6) for name, value in own.items())


def test_what_is_masked_is_what_the_environment_said(tmp_path):
    host = scripted(tmp_path, curriculum="uniform", max_steps=1)
    kept = generated_by(host)
    host.train()
    (batch,) = kept
    for ids, mask, own in zip(
        batch["completion_ids"], batch["completion_mask"].bool(), batch["tool_mask"].bool(), strict=True
    ):
        said = TOKENIZER.decode(ids[mask & ~own])
        assert said.split() == ["total", said.split()[1], "total", said.split()[3]]
        assert (ids[mask & own] == TOKENIZER.eos_token_id).sum() == Guess.turns
    history = host.state.log_history[0]
    assert history["completions/mean_length"] == pytest.approx(
        (batch["completion_mask"] * batch["tool_mask"]).sum(dim=1).double().mean()
    )
    assert history["completions/clipped_ratio"] == 0


def test_groups_of_several_rounds_are_trained_on_as_trl_alone_trains_on_them(tmp_path):
    diary = Recorded()
    options = {"environment": Constant(), "learning_rate": 1e-3}
    ours = scripted(tmp_path, curriculum="least-visited", admission="signal", on_groups=diary, **options)
    ours.train()
    batches = diary.admitted()
    assert [len(batch) for batch in batches] == [4, 4, 4]
    assert len(diary.records) > 3

    plain = scripted(tmp_path, curriculum=TheSame(batches), **options)
    plain.train()
    assert_trained_alike(ours, plain, ("reward", "completions/"), least=8)


class Constant(Guess):
    """The seed says nothing: what a prompt is answered does not depend on the step."""

    def start(self, row: dict[str, Any], seed: int) -> Any:
        return super().start(row, row["row"])


def test_episodes_of_a_group_start_alike_and_those_of_another_step_do_not(tmp_path):
    environment = Guess()
    scripted(tmp_path, curriculum="least-visited", environment=environment, max_steps=12).train()
    seeds = defaultdict(list)
    for start in range(0, len(environment.started), 4):
        group = environment.started[start : start + 4]
        assert len(set(group)) == 1
        seeds[group[0][0]].append(group[0][1])
    assert all(len(set(each)) == len(each) == 2 for each in seeds.values())


def test_evaluation_plays_with_seeds_of_its_own_and_leaves_training_alone():
    model, tokenizer = build_model(TOKENIZER, width=32, layers=1), TOKENIZER
    prompts = PromptSet([{"prompt": f"{i} =", "answer": None, "key": f"row {i}"} for i in range(4)])
    options = {"reward": episode_reward("guess"), "samples": 8, "settings": SamplingSettings(20)}
    before = torch.random.get_rng_state()
    first, second = Guess(), Guess()
    found = evaluate(model, tokenizer, prompts, environment=first, **options)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(5)
    assert evaluate(model, tokenizer, prompts, environment=second, **options) == found
    assert first.started == second.started
    assert len(first.started) == 32
    assert len(set(first.started)) == 4
    other = evaluate(model, tokenizer, prompts, environment=Guess(), seed=1, **options)
    assert set(other) == {"eval/pass@1", "eval/pass@8", "eval/reward"}


def test_an_environment_that_fails_is_one_error_and_nothing_stays_in_flight(tmp_path):
    class Broken(Guess):
        def start(self, row: dict[str, Any], seed: int) -> Any:
            if row["row"] % 2:
                raise OSError("the sandbox is gone")
            return super().start(row, seed)

    host = scripted(tmp_path, curriculum="uniform", environment=Broken())
    with pytest.raises(
        curro.CurroError, match=r"environment Broken: start .*sandbox is gone, for the prompt 'row \d+'"
    ):
        host.train()
    metrics = host.curriculum.metrics()
    assert (metrics["selected"], metrics["dropped"], metrics["in_flight"]) == (4, 4, 0)


def test_reward_functions_of_ones_own_find_the_episodes_reward(tmp_path):
    def halved(episode_reward: list[float], completions: list[str], **_: Any) -> list[float]:
        assert all("total" in completion for completion in completions)
        return [reward / 2 for reward in episode_reward]

    host = scripted(tmp_path, curriculum="uniform", reward_funcs=halved)
    host.train()
    assert {entry["reward"] * 2 for entry in host.state.log_history if "reward" in entry} - {0.0}


def test_processes_whose_episodes_are_over_wait_for_the_others(made_once):
    owner, other = in_two_processes(made_once, "episodes")
    for name in ("plain", "filled"):
        assert owner[name]["weights"] == other[name]["weights"]
        assert owner[name]["moved"]
    assert (owner["plain"]["groups"], other["plain"]["groups"]) == (12, 0)
    assert owner["filled"]["groups"] >= 12


@pytest.mark.usefixtures("no_pictures")
def test_a_run_that_is_resumed_goes_on_as_one_that_was_not(tmp_path):
    asked = "train --data lab:locks/easy --limit 60 --curriculum pspo --save-every 1 --prompts-per-step 4"
    asked += " --rollouts 64 --eval-every 0 --eval-prompts 2"
    whole = CliRunner().invoke(TRAIN, [*asked.split(), "--out", str(tmp_path / "whole")])
    assert whole.exit_code == 0, whole.output
    shutil.copytree(tmp_path / "whole", tmp_path / "part")
    shutil.rmtree(tmp_path / "part" / "checkpoints" / "checkpoint-2")
    resumed = CliRunner().invoke(TRAIN, ["train", "--resume", str(tmp_path / "part")])
    assert resumed.exit_code == 0, resumed.output
    groups = [(tmp_path / name / "groups.jsonl").read_text() for name in ("whole", "part")]
    assert groups[0] == groups[1]
