"""Two processes under FSDP2 train with METIS: the owner judges with weights that both gather for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.hosts.trl.launch import under_fsdp2


@pytest.fixture(scope="module")
def ranks(made_once):
    script = str(Path(__file__).with_name("split_weights.py"))
    folder = made_once(
        "split-weights", lambda folder: under_fsdp2(script, str(folder), folder=folder, precision="no")
    )
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)]


def test_the_second_loss_is_that_of_equation_9(ranks):
    owner, _ = ranks
    assert owner["size"] > 0.01
    assert owner["error"] < 1e-3 * owner["size"]


def test_the_owner_judges_with_the_weights_of_all_processes(ranks):
    owner, other = ranks
    assert owner["split"] + other["split"] == pytest.approx(1)
    assert owner["split"] == pytest.approx(0.5, abs=0.1)
    assert owner["equal"]
    assert other["equal"]
    assert owner["answers"] == other["answers"] == owner["plain answers"]
