"""The benchmark can tell a good choice of prompts from a bad one, and goes on where it was stopped."""

import shutil
import subprocess

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.forks import python
from tests.in_process import run_command

from curro.runs.folder import RunFolder

SHORT = ("bench", "--smoke", "--seeds", "1", "--rollouts", "320", "--eval-prompts", "40", "--out", "results")


@pytest.fixture(scope="module")
def smoke(made_once):
    def run(folder):
        (folder / "said.txt").write_text(run_command(*SHORT, folder=folder))

    folder = made_once("smoke", run)
    return folder, (folder / "said.txt").read_text()


def test_the_oracle_finds_more_signal_than_uniform_and_its_inverse_finds_less(smoke):
    folder, _ = smoke
    rows = pq.read_table(folder / "results" / "results.parquet").to_pylist()
    signal_share = {row["method"]: np.mean(row["signal"]) for row in rows}
    assert len(rows) == len(signal_share) == 3
    assert signal_share["oracle"] > 1.5 * signal_share["uniform"]
    assert signal_share["inverted"] < signal_share["uniform"] / 1.5


def test_it_leaves_a_table_a_page_and_no_run_folders(smoke):
    folder, said = smoke
    assert "locks/hard" in said
    assert "rollouts to uniform's level" in said
    assert "Held-out pass@1" in (folder / "results" / "report.html").read_text()
    assert not any((folder / "results" / "runs").iterdir())
    assert "3/3" in run_command(*SHORT, folder=folder)


def test_interrupted_runs_are_resumed(smoke, tmp_path, interrupting):
    shutil.copytree(smoke[0] / "results" / "pools", tmp_path / "results" / "pools")  # measured once
    flags = [*SHORT, "--rollouts", "160", "--method", "uniform", "--jobs", "1"]
    run = tmp_path / "results" / "runs" / "locks-hard-uniform-seed-0"
    done = subprocess.run(
        [python(), "-m", "curro", *flags],
        cwd=tmp_path,
        env=interrupting("curro.runs.folder:RunFolder.append_metrics", 2),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 130, done.stdout
    assert [line["step"] for line in RunFolder.open(run).metrics()] == [0, 1]
    assert (run / "checkpoints" / "checkpoint-1").is_dir()
    assert "1/1" in run_command(*flags, folder=tmp_path)
    (row,) = pq.read_table(tmp_path / "results" / "results.parquet").to_pylist()
    assert row["eval_rollouts"][-1] == 160
    assert row["eval_step"] == sorted(set(row["eval_step"]))
