"""The benchmark can tell a good choice of prompts from a bad one, and goes on where it was stopped."""

import os
from contextlib import chdir, redirect_stdout
from io import StringIO
from unittest import mock

import numpy as np
import pyarrow.parquet as pq
import pytest
from benchmarks.bench import __main__ as command
from tests.in_process import forked_runs


def run(folder):
    """Run the smoke benchmark on short answers with few rollouts; returns what it printed."""
    out = StringIO()
    with (
        chdir(folder),
        redirect_stdout(out),
        mock.patch.dict(os.environ, COLUMNS="200"),
        mock.patch.multiple(command, EVALUATIONS=1, SMOKE_PROMPTS=250),
        forked_runs(),
    ):
        command.bench(smoke=True, task=["chains/hard"], seeds=1, rollouts=320, eval_prompts=8, out=folder)
    return out.getvalue()


@pytest.fixture(scope="module")
def smoke(made_once):
    return made_once("smoke", lambda folder: (folder / "said.txt").write_text(run(folder)))


def test_the_oracle_finds_more_signal_than_uniform_and_its_inverse_finds_less(smoke):
    rows = pq.read_table(smoke / "results.parquet").to_pylist()
    signal_share = {row["method"]: np.mean(row["signal"]) for row in rows}
    assert len(rows) == len(signal_share) == 3
    assert signal_share["oracle"] > 1.5 * signal_share["uniform"]
    assert signal_share["inverted"] < signal_share["uniform"] / 1.5


def test_it_leaves_a_table_and_no_run_folders(smoke):
    assert "rollouts to uniform's level" in (smoke / "said.txt").read_text()
    assert not any((smoke / "runs").iterdir())
    assert "3/3" in run(smoke)
