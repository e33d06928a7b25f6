"""What hosts write down of a run: groups, kept rollouts, steps; and metrics by source."""

import gc
import json
import math
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from curro import Curriculum
from curro.core.errors import ConfigError, RunError
from curro.data import PromptSet
from curro.runs.folder import RunFolder
from curro.runs.writer import MOST_TEXT, Clock, Completion, KeepRollouts, RunWriter, spread

HOSTILE = "</script>\x1b[31m\u202e"
ROWS = [
    {"prompt": HOSTILE, "answer": "1", "key": "a", "data_source": "openai/gsm8k"},
    {"prompt": [{"role": "user", "content": "Hi"}], "answer": "2", "key": "b", "data_source": "math"},
]


def one_step(folder, keep=KeepRollouts(), rewards=((1.0, 0.0, math.nan), (0.0, 0.0, 0.0))):  # noqa: B008
    """Both prompts, observed and written down as step 1."""
    curriculum = Curriculum("uniform", PromptSet(ROWS), seed=0)
    writer = RunWriter(RunFolder.create(folder, {}), curriculum.table, keep)
    draw = curriculum.select(2, step=0)
    writer.drawn(draw)
    rewards_PG = np.array(rewards)[draw.prompts]
    verdict = curriculum.observe(draw.tickets, rewards_PG)
    completions = [
        [Completion(f"{prompt}{HOSTILE}{j}", 10 + j, j == 2) for j in range(3)] for prompt in draw.prompts
    ]
    writer.groups(1, draw.tickets, draw.prompts, rewards_PG, verdict, np.array([3, 3]), completions)
    writer.step(1, curriculum.metrics())
    return writer, curriculum


def test_a_host_s_run_is_not_written_through_a_link(tmp_path):
    """A trainer's folder from elsewhere that is resumed would rewrite the lines of another run."""
    writer, curriculum = one_step(tmp_path / "mine")
    (tmp_path / "output").mkdir()
    (tmp_path / "output" / "curro").symlink_to(tmp_path / "mine")
    before = writer.folder.groups()
    with pytest.raises(RunError, match="output/curro is a link"):
        RunWriter.of_host(tmp_path / "output", curriculum).begin(1)
    RunWriter.of_host(tmp_path / "output", curriculum).begin(0)
    assert not (tmp_path / "output" / "curro").is_symlink()
    assert writer.folder.groups() == before


SECOND = """\
import sys
from dataclasses import replace
from pathlib import Path
from curro import Curriculum
from curro.runs.writer import RunWriter

RunWriter.of_host(Path(sys.argv[1]), Curriculum("uniform", 4)).begin(int(sys.argv[2]))
"""


@pytest.mark.parametrize("step", ["0", "1"])
def test_a_second_process_does_not_write_into_a_run_that_is_going_on(tmp_path, step):
    curriculum = Curriculum("uniform", 4, seed=0)
    writer = RunWriter.of_host(tmp_path, curriculum)
    writer.begin(0)
    second = subprocess.run(
        [sys.executable, "-c", SECOND, str(tmp_path), step], capture_output=True, text=True, check=False
    )
    assert f"{tmp_path / 'curro'} is in use by process {os.getpid()} on" in second.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["curro"]
    RunWriter.of_host(tmp_path, curriculum).begin(0)  # in this process, a trainer that begins anew may
    assert sorted(path.name for path in tmp_path.iterdir()) == ["curro", "curro-1"]
    del writer
    gc.collect()
    subprocess.run([sys.executable, "-c", SECOND, str(tmp_path), step], check=True)


def test_an_empty_folder_is_begun_in_wherever_the_run_is(tmp_path):
    (tmp_path / "curro").mkdir()
    writer = RunWriter.of_host(tmp_path, Curriculum("uniform", 4))
    writer.begin(3)
    assert writer.has_begun


def test_a_group_s_line(tmp_path):
    writer, _ = one_step(tmp_path / "run")
    a, b = sorted(writer.folder.groups(), key=lambda row: row["prompt"])
    assert (a["key"], a["source"], a["mean"], a["variance"]) == ("a", "openai/gsm8k", 0.5, 0.25)
    assert (a["rollouts"], a["tokens"], a["cut"], a["admitted"]) == (3, 33, 1, True)
    assert (b["mean"], b["source"]) == (0.0, "math")
    (step,) = writer.folder.metrics()
    assert (step["step"], step["rollouts"], step["reward"], step["signal_share"]) == (1, 6, 0.2, 0.5)
    assert not writer.folder.rollouts_file.exists()


def test_a_group_without_a_reward_has_no_mean(tmp_path):
    writer, _ = one_step(tmp_path / "run", rewards=([math.nan] * 3, [1.0, 0.0, 1.0]))
    means = {row["key"]: row["mean"] for row in writer.folder.groups()}
    assert math.isnan(means["a"])
    assert means["b"] == pytest.approx(2 / 3)
    assert writer.folder.metrics()[0]["signal_share"] == 1.0  # of the one group that is known


def test_groups_without_a_reward_count_neither_as_flat_nor_as_varied(tmp_path):
    writer, _ = one_step(tmp_path / "run", rewards=([math.nan] * 3, [math.nan] * 3))
    assert math.isnan(writer.folder.metrics()[0]["signal_share"])
    assert math.isnan(writer.folder.metrics()[0]["reward"])


def test_metrics_by_source(tmp_path):
    writer, curriculum = one_step(tmp_path / "run")
    found = curriculum.metrics()
    assert (found["openai-gsm8k/share"], found["openai-gsm8k/pass_rate"]) == (0.5, 0.5)
    assert (found["math/pass_rate"], found["math/signal_share"]) == (0.0, 0.0)
    assert writer.folder.metrics()[0]["openai-gsm8k/signal_share"] == 1.0
    assert not any("/pass_rate" in name for name in Curriculum("uniform", 4).metrics())


def test_rollouts_are_kept_as_they_are(tmp_path):
    writer, _ = one_step(tmp_path / "run", KeepRollouts(2))
    from curro.runs.json_lines import read_rows

    a, b = sorted(read_rows(writer.folder.rollouts_file), key=lambda row: row["prompt"])
    assert (a["step"], a["text"], b["text"]) == (1, HOSTILE, "user: Hi")
    # of rewards 1, 0 and none the lowest and the highest
    assert [one["reward"] for one in a["rollouts"]] == [1.0, 0.0]
    assert [one["text"] for one in a["rollouts"]] == [f"0{HOSTILE}0", f"0{HOSTILE}1"]
    assert [(one["tokens"], one["cut"]) for one in a["rollouts"]] == [(10, False), (11, False)]
    assert b"\x1b" not in writer.folder.rollouts_file.read_bytes()


def test_no_more_than_so_many_megabytes(tmp_path):
    assert not one_step(tmp_path / "none", KeepRollouts(8, 0))[0].folder.rollouts_file.exists()
    with pytest.raises(ConfigError):
        KeepRollouts(-1)


def test_the_lowest_and_the_highest_reward_are_among_the_kept():
    rewards = np.array([0.5, 1.0, 0.5, 0.0, 0.5])
    assert spread(rewards, 2) == [1, 3]
    assert spread(rewards, 3) == [1, 2, 3]
    assert spread(rewards, 9) == [0, 1, 2, 3, 4]
    unscored = np.array([0.5, np.nan, 0.0, 1.0])
    assert spread(unscored, 2) == [2, 3]  # the lowest and the highest, not the one without a reward
    assert spread(unscored, 4) == [0, 1, 2, 3]
    assert spread(np.full(3, np.nan), 2) == [0, 1]
    assert MOST_TEXT > 100_000


def test_a_host_s_run_keeps_an_earlier_run_and_goes_on_after_a_resume(tmp_path):
    for rollouts in (1, 2):
        writer = RunWriter.of_host(tmp_path, Curriculum("uniform", 4, seed=rollouts))
        writer.rollouts = rollouts
        for step in (1, 2, 3):
            writer.step(step, {})
    assert RunFolder.open(tmp_path / "curro-1").config["curriculum"]["seed"] == 1
    resumed = RunWriter.of_host(tmp_path, Curriculum("uniform", 4, seed=3))
    resumed.step(3, {"more": 1.0})
    assert RunFolder.open(tmp_path).config["curriculum"]["seed"] == 2
    assert [(row["step"], row["rollouts"]) for row in RunFolder.open(tmp_path).metrics()] == [
        (1, 2),
        (2, 2),
        (3, 2),
    ]


def test_a_clock_counts_what_lies_between_start_and_stop(monkeypatch):
    """It runs from 10 to 13 and from 20 to 24, of which an evaluation took 1: 3 + 3 seconds, and 5 before."""
    now = {"seconds": 10.0, "cpu_seconds": 1.0}
    monkeypatch.setattr("curro.runs.writer._READ", {name: lambda name=name: now[name] for name in now})
    clock = Clock()
    clock.leave_out(4)  # it has not been started
    assert clock.spent == {"seconds": 0.0, "cpu_seconds": 0.0}
    clock.start()
    now |= {"seconds": 13.0, "cpu_seconds": 2.0}
    clock.stop()
    now |= {"seconds": 20.0, "cpu_seconds": 9.0}
    clock.start()
    now |= {"seconds": 24.0, "cpu_seconds": 9.5}
    clock.leave_out(1)
    assert clock.spent == {"seconds": 6.0, "cpu_seconds": 1.5}
    clock.set_to({"seconds": 5, "rewards": None})
    now |= {"seconds": 26.0, "cpu_seconds": 9.5}
    assert clock.spent == {"seconds": 7.0, "cpu_seconds": 0.0}


def test_lengths_of_all_groups_and_of_those_that_are_trained_on(tmp_path):
    writer, curriculum = one_step(tmp_path / "run")
    draw, rewards_PG = curriculum.select(2, step=1), np.array([[1.0, 0.0], [0.0, math.nan]])
    verdict = replace(curriculum.observe(draw.tickets, rewards_PG), admitted=np.array([True, False]))
    made = [[Completion("", 10, False)] * 2, [Completion("", 40, True), None]]
    writer.groups(2, draw.tickets, draw.prompts, rewards_PG, verdict, completions=made)
    line = writer.step(2, {})
    assert (line["drawn/completion_length"], line["trained/completion_length"]) == (25.0, 10.0)
    assert "drawn/completion_length" not in writer.step(3, {})


def test_the_form_of_the_lines(tmp_path):
    """The lines' form is that of earlier versions, whose folders are resumed and read."""
    writer, _ = one_step(tmp_path / "run")
    (line,) = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert line.startswith('{"step": 1, "rollouts": 6, "seconds": ')
    lengths = ["drawn/completion_length", "trained/completion_length"]
    assert list(json.loads(line))[4:9] == ["reward", "signal_share", *lengths, "selected"]
    first, _ = (tmp_path / "run" / "groups.jsonl").read_text().splitlines()
    assert list(json.loads(first)) == [
        "step", "prompt", "ticket", "key", "text", "reason", "mean", "variance", "admitted", "rollouts",
        "source", "tokens", "cut",
    ]  # fmt: skip
    writer.evaluated(1, {"eval/pass@1": 0.5})
    assert list(writer.folder.latest()) == ["step", "rollouts", "seconds", "cpu_seconds", "eval/pass@1"]
