"""Two processes train on the same choice: one owns the curriculum, both are told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(REPOSITORY)}
    script = [str(REPOSITORY / "tests" / "hosts" / "two_processes.py"), str(folder)]
    done = subprocess.run(
        command + script, env=environment, capture_output=True, text=True, timeout=300, cwd=REPOSITORY
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)], folder


def test_each_process_rolls_out_its_part_of_one_choice(ranks):
    (owner, other), _ = ranks
    assert other["draws"] == []
    for draw, first_half, second_half in zip(owner["draws"], owner["rows"], other["rows"], strict=True):
        assert first_half + second_half == [prompt for prompt in draw for _ in range(4)]


def test_only_the_owner_learns(ranks):
    (owner, other), _ = ranks
    assert (owner["observed"], other["observed"]) == (12, 0)


def test_weights_are_equal(ranks):
    (owner, other), _ = ranks
    assert owner["weights"] == other["weights"]


def test_an_error_of_the_owner_stops_both(ranks):
    (owner, other), _ = ranks
    assert owner["error"] == other["error"]
    assert owner["error"].startswith("RewardError: rollout 0 of prompt")


def test_the_curriculum_is_saved_once(ranks):
    _, folder = ranks
    assert [path.name for path in (folder / "run" / "checkpoint-3" / "curro").iterdir()] == ["curriculum.npz"]
