"""Whole runs: how they end, what an interrupt or an error leaves behind, and how they go on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from curro import ConfigError, Curriculum, CurroError, RewardError
from curro.core.errors import PromptError
from curro.hosts.trl.trainer import CurriculumGRPOTrainer
from curro.rollout.engines.engine import SamplingSettings
from curro.rollout.engines.models import load_model
from curro.rollout.sampling import evaluate
from curro.runs.folder import RunFolder
from curro.training import run as training_run
from curro.training import saved_model
from curro.training.evaluation.suites import SUITES
from curro.training.plan import plan
from curro.training.run import train
from curro.training.saved_model import EVALUATION, best_models, keep_best
from curro.training.settings import TrainSettings

STEP = 4 * 8


def settings(**options):
    """A run of 4 steps of 4 prompts."""
    small = {
        "prompts_per_step": 4,
        "rollouts": 4 * STEP,
        "eval_prompts": 4,
        "eval_samples": 2,
        "eval_every": 0,
    }
    return TrainSettings(**({"data": "lab:chains", "limit": 40} | small | options))


@pytest.fixture
def run(tmp_path):
    """Start a run or go on with it; returns its folder, whether it is complete or its error, what it said."""

    def start(asked, *, resume=False, on_step=lambda line: None):
        prepared = plan(asked)
        path, said = tmp_path / "run", []
        folder = RunFolder.open(path) if resume else RunFolder.create(path, {"settings": asked.as_dict()})
        try:
            complete = train(prepared, folder, resume=resume, on_step=on_step, say=said.append)
        except (CurroError, ZeroDivisionError, KeyboardInterrupt) as error:
            complete = error
        return folder, complete, " ".join(said)

    return start


@pytest.fixture
def reward(tmp_path, monkeypatch):
    """Write a reward function's source to a module of its own; returns its name for `reward`."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(name, *lines):
        (tmp_path / f"{name}.py").write_text("\n".join(lines) + "\n")
        return f"{name}:reward"

    return write


@pytest.fixture
def suite(tmp_path, monkeypatch):
    """The suite MATH-500 with three problems of one answer each, in a file."""
    path = tmp_path / "math-500.jsonl"
    rows = [{"problem": f"{i}a=", "answer": "40", "level": 1} for i in range(3)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setitem(SUITES, "MATH-500", replace(SUITES["MATH-500"], data=str(path)))


@pytest.mark.parametrize(("data", "says"), [("lab:chains", True), ("lab:chains_judge", False)])
def test_a_policy_that_cannot_judge_is_said_before_metis_relies_on_it(run, data, says):
    curriculum = "metis:template=lab,max_tokens=12"
    _, complete, said = run(settings(data=data, curriculum=curriculum, rollouts=STEP))
    assert complete is True
    assert ("10 of the policy's first 10 judgments cannot be read" in said) == says


def test_a_suite_is_evaluated_by_its_name_beside_a_data_set(run, suite):
    """With the suite's own prompts and reward, and with the mean over both as what a run has always had."""
    folder, complete, _ = run(settings(eval_data="MATH-500,lab:chains"))
    assert complete is True
    for line in folder.metrics():
        if "eval/pass@1" not in line:
            continue
        for name in ("pass@1", "pass@2", "reward"):
            both = [line[f"eval/{part}/{name}"] for part in ("MATH-500", "lab:chains")]
            assert line[f"eval/{name}"] == pytest.approx(np.mean(both))
    asked = plan(settings(eval_data="MATH-500,lab:chains")).held_out
    assert [(part.name, len(part.prompts)) for part in asked] == [("MATH-500", 3), ("lab:chains", 4)]
    assert asked[0].prompts[0]["prompt"][0]["content"].startswith("0a=\n\nPlease reason step by step")
    assert asked[0].reward.score(["\\boxed{40}"], [asked[0].prompts[0]]) == [1.0]
    (alone,) = plan(settings(eval_data="MATH-500")).held_out
    assert alone.name == "", "of one data set the metrics are called as ever"


def test_held_out_rows_without_the_answers_that_the_reward_needs_are_refused(tmp_path):
    """They would all count as unsolved."""
    for name, column in (("train", "answer"), ("held", "target")):
        rows = [json.dumps({"prompt": f"{i} + 1 =", column: str(i + 1)}) for i in range(8)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(rows))
    files = {name: str(tmp_path / f"{name}.jsonl") for name in ("train", "held")}
    asked = settings(data=files["train"], eval_data=files["held"], reward="math", model="lab:chains")
    with pytest.raises(ConfigError, match="'math' compares with an answer and no row has one"):
        plan(asked)


def test_the_best_evaluations_model_is_kept(run):
    """It is the first of the best, and its weights have the score that was written down."""
    options = {
        "eval_every": 1,
        "learning_rate": 3e-3,
        "warmup_steps": 0,
        "keep_best": True,
        "eval_prompts": 16,
    }
    asked = settings(**options)
    folder, complete, said = run(asked)
    assert complete is True
    lines = [line for line in folder.metrics() if "eval/pass@1" in line]
    best = max(lines, key=lambda line: (line["eval/pass@1"], line["eval/reward"]))
    ((_, path),) = best_models(folder)
    kept = json.loads((path / EVALUATION).read_bytes())
    expected = {"step": best["step"], "pass@1": best["eval/pass@1"], "reward": best["eval/reward"]}
    assert kept == expected
    assert f"the best model so far, of step {best['step']}, is in {path}" in said
    assert min(line["eval/pass@1"] for line in lines) < best["eval/pass@1"]
    prepared = plan(asked)
    (held_out,) = prepared.held_out
    sampling = SamplingSettings(prepared.settings.max_completion_length, 1.0)
    scores = evaluate(*load_model(str(path)), held_out.prompts, held_out.reward, samples=2, settings=sampling)
    assert scores["eval/pass@1"] == best["eval/pass@1"]


def line(step, accuracy):
    return {"step": step, "eval/pass@1": accuracy, "eval/reward": accuracy}


def test_the_disk_has_the_best_model_before_the_one_before_is_removed(tmp_path, monkeypatch):
    """Its files, then their names, then its own name."""
    done = []

    def fsync(descriptor):
        done.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).relative_to(tmp_path))

    def rmtree(path, ignore_errors=False):
        done.extend([] if ignore_errors else [f"{path.name} is removed"])

    folder = RunFolder.create(tmp_path / "run", {})
    monkeypatch.setattr(saved_model, "save_model", lambda trainer, part: (part / "model").write_text("whole"))
    keep_best(None, folder, line(1, 0.5), lambda said: None)
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(saved_model.shutil, "rmtree", rmtree)
    keep_best(None, folder, line(2, 0.75), lambda said: None)
    best = folder.best.relative_to(tmp_path)
    files = {best / ".step-2.part" / name for name in ("model", EVALUATION)}
    assert set(done[:2]) == files
    assert done[2:] == [best / ".step-2.part", best, "step-1 is removed"]


def test_what_a_user_put_beside_the_best_model_stays(tmp_path, monkeypatch):
    folder = RunFolder.create(tmp_path / "run", {})
    monkeypatch.setattr(saved_model, "save_model", lambda trainer, part: (part / "model").write_text("whole"))
    keep_best(None, folder, line(1, 0.5), lambda said: None)
    shutil.copytree(folder.best / "step-1", folder.best / "step-1-copy")
    (folder.best / "step-1.txt").write_text("notes")
    keep_best(None, folder, line(2, 0.75), lambda said: None)
    assert sorted(path.name for path in folder.best.iterdir()) == ["step-1-copy", "step-1.txt", "step-2"]


@pytest.mark.parametrize("killed_in", ["save_model", "rename", "rmtree", None])
def test_whatever_kills_the_saving_of_the_best_model_one_is_there(tmp_path, monkeypatch, killed_in):
    def killed(*_, **__):
        raise KeyboardInterrupt

    folder, said = RunFolder.create(tmp_path / "run", {}), []
    monkeypatch.setattr(saved_model, "save_model", lambda trainer, part: (part / "model").write_text("whole"))
    keep_best(None, folder, line(1, 0.5), said.append)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt) if killed_in else nullcontext():
        if killed_in == "save_model":
            patched.setattr(saved_model, "save_model", killed)
        elif killed_in == "rename":
            patched.setattr(Path, "rename", killed)
        elif killed_in == "rmtree":
            whole = shutil.rmtree

            def half(path, ignore_errors=False):
                if ignore_errors:
                    return whole(path, True)
                (path / EVALUATION).unlink()
                raise KeyboardInterrupt

            patched.setattr(saved_model.shutil, "rmtree", half)
        keep_best(None, folder, line(2, 0.75), said.append)
    assert (best_models(folder)[-1][1] / "model").read_text() == "whole"
    keep_best(None, folder, line(2, 0.75), said.append)
    keep_best(None, folder, line(3, 0.75), said.append)
    assert [path.name for path in folder.best.iterdir()] == ["step-2"]
    assert [words.split(", is in")[0] for words in said] == [
        f"the best model so far, of step {step}" for step in (1, 2)
    ]


def test_evaluations_that_cannot_be(tmp_path):
    (tmp_path / "own.jsonl").write_text(json.dumps({"prompt": "1a=", "answer": "1"}) + "\n")
    own = {"data": str(tmp_path / "own.jsonl"), "model": "lab:chains", "prompts_per_step": 1}
    with pytest.raises(ConfigError, match="--keep-best compares evaluations"):
        plan(settings(**own, keep_best=True))
    with pytest.raises(ConfigError, match="two data sets have the same name"):
        plan(settings(eval_data="lab:chains,lab:chains"))


def steps(folder):
    return [line["step"] for line in folder.metrics()]


def model(folder):
    return (folder.model / "model.safetensors").read_bytes()


def checkpoints(folder):
    return sorted(path.name for path in folder.checkpoints.glob("checkpoint-*"))


@pytest.mark.parametrize("admission", [None, "signal"], ids=["all groups", "admission"])
def test_a_run_killed_before_its_model_was_saved_gains_no_step(run, admission):
    """With an admission the rollouts are spent long before the steps are."""
    asked = settings(curriculum="uniform", admission=admission)
    folder, complete, _ = run(asked)
    assert complete is True
    assert admission is None or steps(folder)[-1] < 4
    trained, lines, table = model(folder), folder.metrics(), folder.table()
    for path in (*folder.model.iterdir(), folder.path / "report.html", folder.path / "table.parquet"):
        path.unlink()
    folder.model.rmdir()
    folder, complete, said = run(asked, resume=True)
    assert complete is True
    assert said == "the budget is spent: there is nothing left to train"
    assert model(folder) == trained
    assert json.dumps(folder.metrics()) == json.dumps(lines)
    assert folder.table().to_pandas().equals(table.to_pandas())
    assert (folder.path / "report.html").is_file()


def test_a_conversation_that_the_chat_template_refuses_is_told_before_the_first_step(run, tmp_path):
    """One row in eight begins with a role that the model's template does not know."""
    policy, tokenizer = load_model("lab:chains")
    tokenizer.chat_template = (
        "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
        "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    )
    policy.save_pretrained(tmp_path / "policy")
    tokenizer.save_pretrained(tmp_path / "policy")
    turns = [[{"role": "user", "content": f"{i}a="}] for i in range(8)]
    turns[5].insert(0, {"role": "system", "content": "b"})
    rows = [json.dumps({"prompt": prompt, "answer": "1"}) for prompt in turns]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    asked = settings(data=str(tmp_path / "rows.jsonl"), model=str(tmp_path / "policy"), eval_prompts=None)
    folder, error, _ = run(asked)
    assert isinstance(error, PromptError)
    assert str(error).startswith("the tokenizer cannot read the prompt [{'role': 'system', 'content': 'b'}")
    assert str(error).endswith("TemplateError: no system role")
    assert steps(folder) == []


@pytest.fixture
def failing(reward, tmp_path, monkeypatch):
    """Settings of a run whose reward fails in step 4, until there is a file `mended`."""
    monkeypatch.chdir(tmp_path)
    rows = ({"prompt": f"{i}b=", "answer": "5"} for i in range(40))
    (tmp_path / "chains.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    spec = reward(
        f"fails_{tmp_path.name}",
        "import pathlib",
        "calls = 0",
        "def reward(completion, row):",
        "    global calls",
        "    calls += 1",
        f"    fails = calls > {3 * STEP + 5} and not pathlib.Path(__file__).with_name('mended').exists()",
        "    return float('nan') if fails else float(len(completion) % 2)",
    )
    return settings(data="chains.jsonl", model="lab:chains", reward=spec, learning_rate=1e-4)


def test_an_error_saves_the_last_finished_step(run, failing, tmp_path):
    folder, error, said = run(failing)
    assert isinstance(error, RewardError)
    assert said == f"the run stopped; curro train --resume {folder.path} --trust goes on after step 3"
    assert checkpoints(folder) == ["checkpoint-3"]
    assert sum(folder.table()["visits"].to_pylist()) == 3 * 4
    (tmp_path / "mended").touch()
    folder, complete, _ = run(failing, resume=True)
    assert complete is True
    assert steps(folder) == list(range(5))
    assert folder.metrics()[-1]["rollouts"] == 4 * STEP == 8 * folder.metrics()[-1]["observed"]


def test_a_run_says_which_held_out_problems_it_trains_on(run, tmp_path):
    rows = [json.dumps({"prompt": f"{i}b=", "answer": str(i)}) for i in range(12)]
    (tmp_path / "train.jsonl").write_text("\n".join(rows[:8]))
    (tmp_path / "held-out.jsonl").write_text("\n".join(rows[5:9]))
    own = {"data": str(tmp_path / "train.jsonl"), "model": "lab:chains", "rollouts": STEP}
    prepared = plan(settings(**own, eval_data=str(tmp_path / "held-out.jsonl")))
    assert prepared.overlaps() == [
        "3 of the 4 held-out problems are trained on too: what is learnt by heart counts in their accuracy"
    ]
    assert plan(settings(rollouts=STEP)).overlaps() == []


def test_an_error_in_an_update_goes_back_to_the_last_checkpoint(run, monkeypatch):
    """The curriculum has seen rewards that the policy was not trained on: that is no state to go on from."""
    compute_loss, calls = CurriculumGRPOTrainer._compute_loss, []

    def fails_in_step_4(self, *args):
        calls.append(1)
        return 1 / 0 if len(calls) == 4 else compute_loss(self, *args)

    monkeypatch.setattr(CurriculumGRPOTrainer, "_compute_loss", fails_in_step_4)
    folder, error, said = run(settings(save_every=2))
    assert isinstance(error, ZeroDivisionError)
    assert said.endswith("goes on after step 2")
    assert checkpoints(folder) == ["checkpoint-2"]
    assert sum(folder.table()["visits"].to_pylist()) == 4 * 4
    folder, complete, _ = run(settings(save_every=2), resume=True)
    assert complete is True
    assert steps(folder) == list(range(5))


def test_what_ends_the_process_is_an_error(run, monkeypatch):
    monkeypatch.setattr(CurriculumGRPOTrainer, "_compute_loss", lambda *_: sys.exit(0))
    _, error, said = run(settings(rollouts=STEP))
    assert isinstance(error, CurroError)
    assert str(error) == (
        "something in the run, such as a reward or an environment, called sys.exit(0): it must return, or "
        "raise an error"
    )
    assert said == "the run stopped before its first step was finished: start it again with the same command"


def test_an_error_while_saving_hides_no_other(run, failing, monkeypatch):
    def full(self, path):
        raise OSError("the disk is full")

    monkeypatch.setattr(Curriculum, "save", full)
    _, error, said = run(failing)
    assert isinstance(error, RewardError)
    assert said.startswith("what the run had reached could not be saved: ")
    assert "checkpoint-3 could not be saved (the disk is full): what was saved before is still there" in said
    assert said.endswith("goes on after step 0")


def test_a_checkpoint_that_was_cut_off_is_passed_over(run, monkeypatch):
    """The curriculum is written last: without it a checkpoint is not complete."""
    save, calls = Curriculum.save, []

    def killed_at_the_second(self, path):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        save(self, path)

    monkeypatch.setattr(Curriculum, "save", killed_at_the_second)
    folder, error, said = run(settings(save_every=2))
    assert isinstance(error, KeyboardInterrupt)
    assert said.endswith("goes on after step 2")
    assert checkpoints(folder) == ["checkpoint-2", "checkpoint-4"]
    assert (folder.checkpoints / "checkpoint-4" / "trainer_state.json").is_file()
    begun = []
    folder, complete, said = run(settings(save_every=2), resume=True, on_step=begun.append)
    assert complete is True
    assert said == f"{folder.checkpoints / 'checkpoint-4'} was cut off while it was saved, and is removed"
    assert begun[0]["step"] == 3
    assert steps(folder) == list(range(5))


def test_no_run_is_said_to_go_on_from_a_damaged_checkpoint(run):
    def interrupt(line):
        if line["step"] == 2:
            os.kill(os.getpid(), signal.SIGINT)

    folder, _, _ = run(settings(save_every=1), on_step=interrupt)
    (folder.checkpoints / "checkpoint-2" / "optimizer.pt").write_bytes(b"cut")
    folder, error, said = run(settings(save_every=1), resume=True)
    assert "remove that folder, and resuming goes on from the one before" in str(error)
    assert "goes on after" not in said


@pytest.mark.parametrize("name", ["optimizer.pt", "scheduler.pt"])
def test_a_run_says_that_its_optimizer_begins_anew(run, name):
    def interrupt(line):
        if line["step"] == 2:
            os.kill(os.getpid(), signal.SIGINT)

    folder, _, _ = run(settings(save_every=1), on_step=interrupt)
    (folder.checkpoints / "checkpoint-2" / name).unlink()
    _, complete, said = run(settings(save_every=1), resume=True)
    assert complete is True
    assert said.endswith(f"checkpoint-2 has no {name}: the optimizer and the warm-up begin anew")


def test_a_run_with_no_checkpoint_starts_again(run, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(CurriculumGRPOTrainer, "_compute_loss", lambda *_: 1 / 0)
        run(settings())
    folder, complete, _ = run(settings(), resume=True)
    assert complete is True
    assert steps(folder) == list(range(5))


def test_a_second_interrupt_stops_at_once(run):
    def insist(line):
        if line["step"] == 3:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGTERM)

    folder, error, said = run(settings(save_every=2), on_step=insist)
    assert isinstance(error, KeyboardInterrupt)
    assert said.endswith(f"the run stopped; curro train --resume {folder.path} goes on after step 2")


@pytest.mark.parametrize(("score", "right"), [("10 - 1e-9", 1.0), ("9.9", 0.0)])
def test_complete_success_is_the_upper_end_of_the_reward_range(run, reward, score, right):
    name = f"scores_{int(right)}"
    spec = reward(name, "def reward(completion, row):", f"    return {score} - len(completion) * 1e-12")
    folder, _, _ = run(settings(rollouts=STEP, reward=spec, reward_range=(0.0, 10.0)))
    last = folder.metrics()[-1]
    assert last["eval/pass@1"] == right
    assert last["table/solved"] == 4


def test_columns_with_names_of_trl_reach_the_reward_as_they_are(run, reward, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    taken = {"completions": [1], "prompts": 2, "completion_ids": 3, "trainer_state": {"a": 4}, "image": "5"}
    taken |= {"log_extra": None, "completion": "6", "images": [], "prompt_id": "mine"}
    rows = [{"prompt": f"{i}b=", "answer": "5", "number": i, **taken} for i in range(40)]
    (tmp_path / "columns.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    spec = reward(
        "columns",
        "def reward(completion, row):",
        "    assert row['prompt'] == str(row['number']) + 'b='",
        f"    assert {{name: row[name] for name in {list(taken)}}} == {taken}",
        "    return float(len(completion) % 2)",
    )
    _, complete, _ = run(settings(data="columns.jsonl", model="lab:chains", reward=spec, rollouts=STEP))
    assert complete is True


def test_an_environment_refuses_columns_that_trl_would_misread(reward, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "images.jsonl").write_text(json.dumps({"prompt": "1b=", "answer": "5", "image": "x"}) + "\n")
    reward("plays", "class Game:", "    turns, turn_tokens = 1, 4", "    def start(self, row, seed): ...")
    with pytest.raises(CurroError, match=r"images.jsonl has the columns image, which mean something else"):
        plan(TrainSettings("images.jsonl", model="lab:chains", environment="plays:Game"))


def test_several_processes_are_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(CurroError, match=r"is one process: for several, train with .*CurriculumGRPOTrainer"):
        plan(settings())


def test_the_verifier_ranks_and_the_run_says_so(run):
    folder, complete, said = run(settings(reward="lab+0.5*overlong:limit=8,buffer=8", rollouts=STEP))
    assert complete is True
    assert "ranked by lab:chains" in said
    # shares of 8 right answers, and none of the sums with their penalties
    means = [line["mean"] for line in folder.groups()]
    assert len(means) == 4
    assert all(8 * mean % 1 == 0 for mean in means)
    assert folder.metrics()[-1]["reward"] < np.mean(means)


def test_cispo_weighs_tokens_by_their_ratio(run, monkeypatch):
    """It is near 1 here, and below its ceiling: TRL's default of 0.2 would hold every token's at 0.2."""
    logs = []
    monkeypatch.setattr(
        training_run, "write_model", lambda trainer, target: logs.extend(trainer.state.log_history)
    )
    run(settings(loss_type="cispo", rollouts=STEP))
    assert [line["cispo_clip_ratio"] for line in logs if "cispo_clip_ratio" in line] == [0]


def test_the_divergence_from_the_first_model_is_part_of_the_loss(run):
    folder, complete, _ = run(settings(rollouts=11 * STEP, beta=0.1, learning_rate=1e-3, warmup_steps=0))
    assert complete is True
    state = json.loads((folder.checkpoints / "checkpoint-11" / "trainer_state.json").read_text())
    assert [entry["kl"] > 0 for entry in state["log_history"] if "kl" in entry] == [True]


def test_what_vllm_cannot_do_is_refused(monkeypatch):
    with pytest.raises(CurroError, match="--vllm needs the package vllm"):
        plan(settings(vllm=True))
    monkeypatch.setattr("curro.training.plan.find_spec", lambda name: True)
    with pytest.raises(CurroError, match="vLLM loads no model of the lab: leave --vllm out"):
        plan(settings(vllm=True, model="lab:chains"))


@pytest.mark.parametrize("keep", [True, False])
def test_lora_in_training_leaves_a_plain_model(run, keep):
    """Its weights differ from the start's by matrices of the rank asked for.

    To write the best model on the way is to merge the adapters, of a copy: the one in training needs them.
    """
    rates = {"learning_rate": 0.01, "warmup_steps": 0, "eval_every": 1}
    folder = run(settings(lora_rank=2, curriculum="uniform", keep_best=keep, **rates))[0]
    trained, start = load_model(str(folder.model))[0], load_model("lab:chains")[0]
    change = trained.model.layers[0].mlp.up_proj.weight - start.model.layers[0].mlp.up_proj.weight
    sizes = torch.linalg.svdvals(change.double())
    assert sizes[0] > 1e-2
    assert (sizes[2:] < 1e-3 * sizes[0]).all()
    assert torch.equal(trained.model.embed_tokens.weight, start.model.embed_tokens.weight)


def test_weights_that_are_no_numbers_end_in_one_sentence():
    with pytest.raises(CurroError, match="learning-rate"), training_run.saving_on_error(None, None, print):
        torch.multinomial(torch.tensor([float("nan"), 1.0]), 1)
