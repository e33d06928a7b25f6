"""Pass rates measured, interrupted and gone on with; data files curated from them and trained on."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import subprocess
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from tests.forks import python
from tests.in_process import run_command
from tests.rollout.server_setup import FakeServer

from curro import lab
from curro.core.errors import ConfigError, EngineError, RunError
from curro.data import PromptSet, load_prompts
from curro.reward import Reward
from curro.rollout.engines.engine import Rollout, SamplingSettings
from curro.runs.estimate_folder import COLUMNS, EstimateFolder, bands, render, shares
from curro.runs.lock import only_process
from curro.training.evaluation import estimate as estimation
from curro.training.evaluation.curation import curate, write_prompts
from curro.training.evaluation.estimate import SamplingJob, estimate_with

CHAINS = ["lab:chains", "--limit", "48", "-k", "8", "--batch", "16"]


@pytest.fixture(scope="module")
def estimated(tmp_path_factory):
    """An estimate of 48 chains, made without interruption."""
    folder = tmp_path_factory.mktemp("estimated")
    said = run_command("estimate", *CHAINS, "-o", "est", folder=folder)
    return folder, said


def test_estimated(estimated):
    folder, said = estimated
    table = pq.read_table(folder / "est" / "pass_rates.parquet").to_pandas()
    prompts = load_prompts("lab:chains", limit=48)
    assert table["key"].tolist() == prompts.keys
    assert table["prompt"].tolist() == list(range(48))
    assert (table["rollouts"] == 8).all()
    assert (table["scored"] == 8).all()
    np.testing.assert_allclose(table["variance"], table["mean"] * (1 - table["mean"]))
    assert set(table["mean"] * 8) <= set(range(9))
    # docs/lab.md: .63 of the 4,000 are never solved, .01 always
    assert 0.4 < (table["mean"] == 0).mean() < 0.85
    assert "48 prompts, 8 rollouts each: mean reward" in said
    share = ((table["mean"] > 0) & (table["mean"] < 1)).mean()
    assert f"(0, 1)      {share:.3f}         {8 / share:.1f}" in said


def test_two_processes_do_not_sample_into_one_folder(estimated, curro, tmp_path):
    """The scores of one would stand beside the texts of the other."""
    shutil.copytree(estimated[0] / "est", tmp_path / "est")
    groups = tmp_path / "est" / "groups.jsonl"
    groups.write_text("".join(groups.read_text().splitlines(keepends=True)[:-1]))  # one is left to do
    with only_process(tmp_path / "est"):
        said = curro("estimate", *CHAINS, "-o", "est", status=2)
    assert f"est is in use by process {os.getpid()}" in said


def test_interrupted_and_gone_on_with_as_if_never_interrupted(estimated, curro, tmp_path, interrupting):
    groups = tmp_path / "est" / "groups.jsonl"
    done = subprocess.run(
        [python(), "-m", "curro", "estimate", *CHAINS, "-o", "est"],
        cwd=tmp_path,
        env=interrupting("curro.runs.estimate_folder:EstimateFolder.append", 10),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1800,
    )
    said = done.stdout
    assert done.returncode == 130, said
    assert "of 48 prompts; the same command goes on" in said
    stopped = groups.read_text()
    assert 10 <= stopped.count("\n") < 48
    groups.write_text(stopped + '{"prompt": 47, "key"')  # as a killed process leaves it
    curro("estimate", *CHAINS, "-o", "est")
    assert groups.read_text().startswith(stopped)
    assert groups.read_text().count("\n") == 48
    found, whole = (pq.read_table(path / "est" / "pass_rates.parquet") for path in (tmp_path, estimated[0]))
    assert found["key"] == whole["key"]
    # other batches round otherwise, and one token in thousands differs
    assert np.mean(found["mean"].to_numpy() != whole["mean"].to_numpy()) < 0.02


def test_pass_rates_are_of_the_part_that_verifies(estimated, curro, tmp_path):
    """Half a point for every completion makes no prompt easier."""
    folder, _ = estimated
    (tmp_path / "shaped.py").write_text("def one(completions, **_):\n    return [1.0 for _ in completions]\n")
    said = curro("estimate", *CHAINS, "-o", "est", "--reward", "lab+0.5*./shaped.py:one")
    assert "pass rates are of lab:chains, the part of the reward that verifies the answer" in said
    table = pq.read_table(tmp_path / "est" / "pass_rates.parquet")
    plain = pq.read_table(folder / "est" / "pass_rates.parquet")
    assert table["mean"].to_pylist() == plain["mean"].to_pylist()
    assert EstimateFolder.open(tmp_path / "est").settings["reward"] == "lab+0.5*./shaped.py:one"


def test_a_folder_of_other_settings_is_refused(estimated, curro, tmp_path):
    shutil.copytree(estimated[0] / "est", tmp_path / "est")
    said = curro("estimate", *CHAINS[:-4], "-k", "4", "-o", "est", status=2)
    assert "est holds another estimate (k was 8, is 4): choose another folder with --out" in said


def test_a_model_that_was_trained_on_is_another_one(curro, tmp_path):
    """A copy of the model, whose files are newer, is the same one."""
    asked = ["lab:chains", "--limit", "4", "-k", "2", "--model", "model", "-o", "est"]
    model, tokenizer = lab.load("chains")
    for _ in range(2):
        model.save_pretrained(tmp_path / "model")
        tokenizer.save_pretrained(tmp_path / "model")
        curro("estimate", *asked)
    with torch.no_grad():
        model.model.norm.weight[-1] += 1e-3
    model.save_pretrained(tmp_path / "model")
    said = curro("estimate", *asked, status=2)
    assert "est holds another estimate (weights was" in said


@pytest.mark.parametrize(
    ("means", "variances"),
    [([-1.0, 1.0], [0.0, 0.0]), ([0.25, 0.75, np.nan], [0.9375, 0.4375, np.nan]), ([0.5, 2.0], [0.25, 0.0])],
)
def test_rewards_that_are_not_from_0_to_1_are_no_pass_rates(curro, tmp_path, means, variances):
    """On an easy pool the mean of -1 and 1 is above 0 for every prompt."""
    folder = EstimateFolder.begin(tmp_path / "est", {})
    for i, (mean, variance) in enumerate(zip(means, variances, strict=True)):
        folder.append(
            dict.fromkeys(COLUMNS, 0) | {"prompt": i, "key": f"k{i}", "mean": mean, "variance": variance}
        )
    folder.write_table()
    assert "so there are no pass rates" in render(np.array(means), np.array(variances), 8)
    for rule in (["--keep", "0,1"],):
        said = curro("curate", "est", *rule, "-o", "x.jsonl", status=2)
        assert "the rewards of the estimate in est are not from 0 to 1" in said


def test_a_file_that_exists_is_not_written_over(estimated, curro, tmp_path):
    shutil.copytree(estimated[0] / "est", tmp_path / "est")
    (tmp_path / "data.jsonl").write_text("precious")
    assert "data.jsonl exists and is not written over" in curro("curate", "est", "-o", "data.jsonl", status=2)
    assert (tmp_path / "data.jsonl").read_text() == "precious"
    assert "data.jsonl cannot be used" in curro("curate", "est", "-o", "data.jsonl/x.jsonl", status=2)


def test_curated_data_of_a_family_with_metadata_is_the_same_data(tmp_path):
    prompts = load_prompts("lab:chain_sum", limit=30)
    ids, rates = np.arange(30)[::-1], np.linspace(0, 1, 30)
    write_prompts(tmp_path / "new.jsonl", prompts, ids, rates)
    again = load_prompts(str(tmp_path / "new.jsonl"))
    assert [prompts[i] | {"prompt_id": i, "pass_rate": rates[i]} for i in ids] == list(again)


def test_curated_data_keeps_the_answers_of_a_column_that_was_named(tmp_path):
    """Where none is named, that of verl comes first."""
    row = {"prompt": "What is 1/2?", "reward_model": {"ground_truth": "one half"}, "short": "1/2"}
    (tmp_path / "own.jsonl").write_text(json.dumps(row))
    for column, answer in (("short", "1/2"), ("reward_model.ground_truth", "one half")):
        prompts = load_prompts(tmp_path / "own.jsonl", answer_column=column)
        write_prompts(tmp_path / f"{column}.jsonl", prompts, np.array([0]), np.ones(1))
        again = load_prompts(tmp_path / f"{column}.jsonl")
        assert (again[0]["answer"], again.keys) == (answer, prompts.keys)


def test_a_servers_estimate(curro, tmp_path):
    """With a key from the environment, and the data's own columns."""
    rows = [{"q": f"{i}a=", "a": "40", "id": f"p{i}"} for i in range(6)]
    rows[3]["a"] = "5"
    (tmp_path / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    columns = ["--prompt-column", "q", "--answer-column", "a", "--key-column", "id"]
    with FakeServer().running() as url:
        arguments = ["own.jsonl", "--server", url, "--server-model", "tiny", "-k", "4", "--reward", "exact"]
        said = curro("estimate", *arguments, *columns, "-o", "est")
    table = pq.read_table(tmp_path / "est" / "pass_rates.parquet").to_pandas()
    assert table["key"].tolist() == [f"p{i}" for i in range(6)]
    assert table["mean"].tolist() == [1, 1, 1, 0, 1, 1]
    assert "6 prompts, 4 rollouts each: mean reward 0.833" in said
    curro("curate", "est", "--keep", "0,0", "--closed", "both", "-o", "hard.jsonl")
    assert load_prompts(str(tmp_path / "hard.jsonl")).keys == ["p3"]
    (tmp_path / "own.jsonl").write_text(json.dumps(rows[0]) + "\n")
    said = curro("curate", "est", "-o", "again.jsonl", status=2)
    assert "own.jsonl has changed since it was estimated" in said


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("estimate lab:chains -k 0", "greater than or equal to 1"),
        ("estimate lab:chains --threads 0", "threads must be from 1 to 1024, not 0"),
        ("estimate lab:chains --max-completion-length 0", "max_completion_length must be 1 or more, not 0"),
        ("estimate lab:chains --model lab:chains --server http://x", "not both"),
        ("estimate lab:chains --server http://localhost:1", "--server-model"),
        ("estimate lab:chains --server nowhere --server-model m", "is like http://"),
        ("estimate lab:chains --model lab:chain", "the lab has no model 'chain'"),
        (
            "estimate lab:chains --limit 2 --server http://127.0.0.1:9 --server-model m",
            "no server answers at http://127.0.0.1:9/v1",
        ),
        ("curate none -o x.jsonl", "none holds no estimate"),
        ("curate none -o x.jsonl --keep half", "--keep must be two numbers"),
    ],
)
def test_mistakes(curro, tmp_path, arguments, sentence):
    assert sentence in curro(*shlex.split(arguments), status=2)
    assert not (tmp_path / "estimates").exists() or not any((tmp_path / "estimates").iterdir())


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("estimate images.jsonl --model lab:chains", "a model here reads text alone: ask a --server"),
        ("evaluate lab:chains --data images.jsonl", "a model here reads text alone: ask a --server"),
        ("estimate images.jsonl --server http://127.0.0.1:9 --server-model m", "gets the messages alone"),
    ],
)
def test_images_that_no_model_would_see(curro, tmp_path, command, sentence):
    (tmp_path / "images.jsonl").write_text('{"prompt": "Which?", "images": ["a.png"], "answer": "5"}\n')
    said = curro(*shlex.split(command), status=2)
    assert "row 0 of images.jsonl has more than text (images)" in said
    assert sentence in said


# the parts


class Scripted:
    """An engine whose rollouts are those of a dict, by prompt."""

    def __init__(self, rollouts):
        self.rollouts, self.most, self.open = rollouts, 0, 0

    async def generate(self, prompt, n):
        self.open += 1
        self.most = max(self.most, self.open)
        await asyncio.sleep(0.001)
        self.open -= 1
        return [self.rollouts(prompt, j) for j in range(n)]

    async def close(self):
        self.is_closed = True


def run(rollouts, prompts=12, score=float):
    engine, rows = Scripted(rollouts), []
    data = PromptSet([{"prompt": str(i), "answer": None, "key": f"k{i}"} for i in range(prompts)])
    reward = Reward("test", lambda texts, _: [score(text) for text in texts])
    settings = {"k": 4, "batch": 4, "seed": 0, "threads": 1}
    job = SamplingJob(data, reward, None, "tiny", "http://x", SamplingSettings(8), **settings)
    left_out = asyncio.run(estimate_with(job, engine, range(prompts), rows.append))
    assert engine.most <= estimation.IN_FLIGHT
    assert engine.is_closed
    return left_out, {row["prompt"]: row for row in rows}


def test_failed_rollouts_are_not_counted_and_unscored_ones_not_in_the_mean():
    def rollouts(prompt, j):
        if prompt == "5" or (prompt == "7" and j == 0):
            return Rollout("", error="lost")
        return Rollout("none" if prompt == "8" and j < 3 else str(j), finish="length" if j == 3 else "stop")

    left_out, rows = run(rollouts, score=lambda text: None if text == "none" else float(text))
    assert left_out == ["lost"]
    assert sorted(rows) == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11]
    assert rows[0] == {
        "prompt": 0, "key": "k0", "rollouts": 4, "scored": 4, "correct": 3, "truncated": 1, "mean": 1.5,
        "variance": 1.25,
    }  # fmt: skip
    assert (rows[7]["rollouts"], rows[7]["mean"]) == (3, 2.0)
    assert (rows[8]["scored"], rows[8]["mean"], rows[8]["variance"]) == (1, 3.0, 0.0)


def test_an_engine_that_only_fails_is_given_up():
    with pytest.raises(EngineError, match=r"the last 20 prompts got no rollout at all; .*: lost"):
        run(lambda prompt, j: Rollout("", error="lost"), prompts=60)


def test_shares_and_bands_worked_out_by_hand():
    rates = np.array([0, 0, 0, 0.1, 0.25, 0.5, 0.5, 0.9, 1, np.nan])
    found = dict(shares(rates))
    assert found["0"] == pytest.approx(3 / 9)
    assert found["1"] == pytest.approx(1 / 9)
    assert found["0.1 to 0.2"] == found["0.2 to 0.3"] == found["0.9 to 1"] == pytest.approx(1 / 9)
    assert found["0.5 to 0.6"] == pytest.approx(2 / 9)
    assert sum(found.values()) == pytest.approx(1)
    costs = {(low, high): (share, cost) for low, high, share, cost in bands(rates, 16)}
    assert costs[0, 1] == (pytest.approx(5 / 9), pytest.approx(16 * 9 / 5))
    assert costs[0.1, 0.9] == (pytest.approx(3 / 9), pytest.approx(48))
    assert costs[0.4, 0.6] == (pytest.approx(2 / 9), pytest.approx(72))
    assert bands(np.zeros(4), 16)[0][3] == np.inf
    assert "none of the completions" in render(np.full(3, np.nan), np.full(3, np.nan), 16)
    assert "so there are no pass rates" in render(np.array([-1.0, 2.0]), np.zeros(2), 16)


def test_bands_are_kept_in_the_order_asked_for():
    rates = np.array([0.5, 0.2, 0.75, np.nan, 0.5, 0.8, 0.25])
    assert curate(rates, 0.2, 0.8).tolist() == [0, 2, 4, 6]
    assert curate(rates, 0.2, 0.8, order="easy-first").tolist() == [2, 0, 4, 6]
    assert curate(rates, 0.2, 0.8, order="easy-first", closed="both").tolist() == [5, 2, 0, 4, 6, 1]
    assert curate(rates, 0, 1, closed="both").tolist() == [0, 1, 2, 4, 5, 6]
    with pytest.raises(ConfigError, match="order is one of"):
        curate(rates, 0, 1, order="random")


def test_nothing_inside_or_another_format(tmp_path):
    prompts = load_prompts("lab:chains", limit=3)
    with pytest.raises(ConfigError, match="no prompt lies within the band"):
        write_prompts(tmp_path / "x.jsonl", prompts, np.array([], np.int64), np.zeros(3))
    with pytest.raises(ConfigError, match=r"does not end in \.jsonl"):
        write_prompts(tmp_path / "x.csv", prompts, np.array([0]), np.zeros(3))


def test_a_table_without_every_prompt_is_refused(estimated, tmp_path):
    """The rates of the prompts after one that is missing were each taken for those of the one before."""
    shutil.copytree(estimated[0] / "est", tmp_path / "est")
    table = pq.read_table(tmp_path / "est" / "pass_rates.parquet")
    pq.write_table(table.slice(1), tmp_path / "est" / "pass_rates.parquet")
    with pytest.raises(RunError, match="has not every prompt in its order"):
        EstimateFolder.open(tmp_path / "est").pass_rates()


def test_images_are_refused_and_dates_are_text(tmp_path):
    """An image as text is none; Parquet's binary columns may hold texts."""
    rows = {"problem": [b"What is it?", b"And this?"], "when": [date(2026, 11, 29)] * 2}
    pq.write_table(pa.table(rows), tmp_path / "dated.parquet")
    write_prompts(
        tmp_path / "x.jsonl", load_prompts(str(tmp_path / "dated.parquet")), np.array([1]), np.ones(2)
    )
    row = json.loads((tmp_path / "x.jsonl").read_text())
    assert (row["prompt"], row["problem"], row["when"]) == ("And this?", "And this?", "2026-11-29")
    images = [[{"bytes": b"\x89PNG", "path": None}]] * 2
    pq.write_table(pa.table(rows | {"images": images}), tmp_path / "seen.parquet")
    with pytest.raises(ConfigError, match="holds bytes, such as images"):
        write_prompts(
            tmp_path / "y.jsonl", load_prompts(str(tmp_path / "seen.parquet")), np.array([1]), np.ones(2)
        )
    assert not (tmp_path / "y.jsonl").exists()
