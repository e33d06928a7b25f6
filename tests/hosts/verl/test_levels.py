"""Problems without end in verl: each group's problem is made from its ticket, resumed runs repeat them."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
from setup_run import BATCH, Run, configuration, run
from twin import Twin

import curro
from curro.data import load_levels
from curro.data.levels import Levels, split_of
from curro.hosts.verl.reward import compute_score
from curro.hosts.verl.settings import PROBLEM
from curro.runs.folder import RunFolder

LEVELS = "levels:test_levels:Problems"
ON_LEVELS = [f"data.train_files={LEVELS}", f"data.val_files={LEVELS}", "data.val_max_samples=18"]
SAVE = "trainer.save_freq=2"


class Problems:
    """What the simulated policy solves by the number at the end, which is the level."""

    name = "problems"
    levels = tuple({"number": number} for number in range(6))

    def problem(self, level, rng):
        return {"prompt": f"case {rng.randrange(10**9)}: problem {level}", "answer": level}

    def score(self, completion, row):
        assert row["prompt"].endswith(f"problem {row['answer']}")
        return float(completion == row["answer"])


class Watched(Run):
    """Also keeps what the engine was asked: (step, uid, text)."""

    def before(self, engine):
        self.texts, answer = [], engine._answer

        def watched(prompt, step, validate):
            if not validate:
                self.texts.append((step, prompt["uid"], prompt["raw_prompt"][0]["content"]))
            answer(copy.copy(prompt), step, validate)

        engine._answer = watched


def on_levels(folder, *overrides, steps=3):
    return Watched(configuration(folder, *ON_LEVELS, *overrides, steps=steps))


@pytest.mark.parametrize(
    "more",
    [["+curro.selection=frontier"], ["+curro.selection=uniform", "data.train_batch_size=8"]],
    ids=["frontier", "more groups than levels"],
)
def test_every_group_is_of_its_own_problem_as_without_verl(tmp_path, more):
    done = on_levels(tmp_path / "out", *more, "+curro.seed=3")
    levels = load_levels(LEVELS)
    twin = Twin(done, levels)
    batch = done.trainer.config.data.train_batch_size
    for step in (1, 2, 3):
        twin.step(step, batch)
    assert done.asked == twin.asked
    assert [text for _, _, text in done.texts] == [
        levels.problem(arm, ticket, 3)["prompt"] for ticket, (_, arm) in enumerate(twin.asked)
    ]
    assert len({text for _, _, text in done.texts}) == 3 * batch
    assert {split_of(text) for _, _, text in done.texts} == {"train"}
    assert max(np.bincount([arm for step, arm in done.asked if step == 1])) > 1, "an arm in flight twice"
    assert done.metrics["observed"] == 3 * batch


def test_a_resumed_run_generates_the_problems_that_would_have_come(tmp_path):
    options = ["+curro.selection=frontier", "+curro.admission=signal", SAVE]
    whole = on_levels(tmp_path / "whole", *options, steps=4)
    on_levels(tmp_path / "cut", *options, steps=2)
    resumed = on_levels(tmp_path / "cut", *options, steps=4)
    assert resumed.texts == [line for line in whole.texts if line[0] > 2]
    for part in ("selection", "ledger", "table"):
        np.testing.assert_equal(resumed.state[part], whole.state[part], err_msg=part)


def test_validation_is_on_held_out_problems_of_all_levels(tmp_path):
    done = on_levels(tmp_path / "out", "trainer.val_before_train=True", steps=1)
    assert sorted(done.engine.validated) == sorted([0, 1, 2, 3, 4, 5] * 3)
    held_out = [row["raw_prompt"][0]["content"] for row in done.trainer.val_dataset]
    assert held_out == [row["prompt"] for row in load_levels(LEVELS).held_out(18)]
    assert {split_of(text) for text in held_out} == {"test"}


def test_no_problem_is_held_out_for_the_training_data(tmp_path, monkeypatch):
    asked, held_out = [], Levels.held_out
    monkeypatch.setattr(Levels, "held_out", lambda self, n: asked.append(n) or held_out(self, n))
    on_levels(tmp_path / "out", "trainer.val_before_train=True", steps=1)
    assert asked == [18]


def test_a_run_has_no_epochs_that_end_it(tmp_path, monkeypatch):
    monkeypatch.setattr("curro.hosts.verl.levels.HELD_OUT", 2 * BATCH)
    done = on_levels(tmp_path / "out", "trainer.total_epochs=1", steps=3)
    assert done.metrics["observed"] == 3 * BATCH


def test_a_data_set_may_be_evaluated_beside_levels(tmp_path):
    files = configuration(tmp_path / "files").data.val_files
    done = on_levels(tmp_path / "out", f"data.val_files={files}", "trainer.val_before_train=True", steps=1)
    assert done.engine.validated == [0, 1, 2, 3, 4]


def test_the_run_folder_has_the_problem_of_every_group(tmp_path):
    done = on_levels(tmp_path / "out", steps=2)
    groups = RunFolder.open(Path(tmp_path / "out" / "curro")).groups()
    assert [group["text"] for group in groups] == [text for _, _, text in done.texts]
    assert [group["ticket"] for group in groups] == list(range(2 * BATCH))


def test_a_familys_own_score_is_a_reward():
    problem = load_levels(LEVELS).problem(4, 0, 0)
    extra = {"index": 0, PROBLEM: problem}
    assert compute_score("problems", "4", "4", extra, reward=LEVELS)["score"] == 1.0
    assert compute_score("problems", "5", "4", extra, reward=LEVELS)["score"] == 0.0


REFUSED = {
    "trainer.total_training_steps=null": "no epochs: set trainer.total_training_steps",
    "data.filter_overlong_prompts=True": "leave data.filter_overlong_prompts out",
    "data.train_max_samples=5": "leave data.train_max_samples out",
    f"data.train_files=[{LEVELS},rows.parquet]": "no part of a list with files",
    "data.custom_cls.path=mine.py": "data.custom_cls names another class",
    "+curro.selection='pspo:beta=0'": "levels have new problems in every group",
    "+curro.advantage=smoothed": "levels have new problems",
}


@pytest.mark.parametrize("override", REFUSED)
def test_what_levels_cannot_be_combined_with_is_refused(tmp_path, override):
    given = override.partition("=")[0]
    lines = [line for line in ON_LEVELS if not line.startswith(given)]
    with pytest.raises(curro.CurroError, match=REFUSED[override]):
        run(tmp_path / "out", *lines, override, steps=1)
