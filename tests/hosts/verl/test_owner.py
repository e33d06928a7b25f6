"""The actor that owns the curriculum: several processes ask it, and its death is one sentence."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
import ray
from ray_for_tests import start_ray

import curro
from curro.core.groups import Feedback
from curro.hosts.verl.owner import CurriculumClient, OwnerLostError, start_owner
from curro.runs.folder import RunFolder
from curro.runs.writer import Completion


class Rows:
    """Sixty prompts, as `VerlRows` describes a data set."""

    keys = tuple(str(row) for row in range(60))
    fingerprint = "sixty"
    rows = None


CONFIG = {"selection": "prioritized-replay", "seed": 2}


@pytest.fixture
def owner(tmp_path):
    start_ray()
    client = start_owner(f"owner-{tmp_path.name}")
    client.build(CONFIG, Rows(), tmp_path)
    yield client
    ray.kill(client.actor)


def rewards(prompts):
    return np.array([[(prompt + session) % 3 == 0 for session in range(4)] for prompt in prompts], float)


def report(client, draw):
    generated = 4 * [Completion("", 1, False)]
    return client.observe(Feedback.read(draw.tickets, rewards(draw.prompts)), [generated] * len(draw))


def test_several_workers_ask_at_once_and_get_different_prompts(owner, tmp_path):
    @ray.remote(num_cpus=0.1)
    def work(name):
        client = CurriculumClient(name)
        draws = [client.select(2, step=1) for _ in range(3)]
        for draw in draws[:2]:
            report(client, draw)
        client.drop(draws[2].tickets.tolist())
        return [draw.tickets.tolist() for draw in draws]

    drawn = ray.get([work.remote(f"owner-{tmp_path.name}") for _ in range(3)])
    tickets = sorted(ticket for draws in drawn for draw in draws for ticket in draw)
    assert tickets == list(range(18))
    metrics = owner.metrics()
    assert (metrics["observed"], metrics["dropped"], metrics["in_flight"]) == (12, 6, 0)


def test_errors_are_the_curriculums_own(owner, tmp_path):
    with pytest.raises(curro.ExhaustedError):
        owner.select(61, step=0)
    with pytest.raises(curro.TicketError):
        owner.drop([7])
    assert len(owner.select(60, step=0)) == 60
    with pytest.raises(curro.ConfigError, match="frontiers"):
        owner.build({"selection": "frontiers"}, Rows(), tmp_path)


def test_a_killed_owner_is_one_sentence_and_its_successor_goes_on_from_the_checkpoint(owner, tmp_path):
    """The successor draws what the curriculum of the checkpoint would have drawn."""
    twin = curro.Curriculum("prioritized-replay", Rows(), seed=2)
    for step in range(2):
        draw, expected = owner.select(4, step=step), twin.select(4, step=step)
        report(owner, draw)
        twin.observe(expected.tickets, rewards(expected.prompts))
        owner.write_step(step + 1, {})
    in_flight = owner.select(2, step=2)
    owner.save(tmp_path / "saved.npz")
    report(owner, owner.select(9, step=2))
    pid = ray.get(owner.actor.__ray_call__.remote(lambda self: os.getpid()))
    os.kill(pid, signal.SIGKILL)
    ray.wait([owner.actor.metrics.remote()])  # until Ray has noticed
    with pytest.raises(OwnerLostError, match="resumes from its latest checkpoint"):
        owner.metrics()
    successor = start_owner(f"successor-{tmp_path.name}")
    successor.build(CONFIG, Rows(), tmp_path)
    ledger = successor.load(tmp_path / "saved.npz", kept=in_flight.tickets[:1].tolist(), step=2)
    assert ledger["tickets"].tolist() == in_flight.tickets[:1].tolist()
    assert ledger["lost"] == 1
    flying = twin.select(2, step=2)
    twin.drop(flying.tickets[1:])
    np.testing.assert_array_equal(successor.select(4, step=2).prompts, twin.select(4, step=2).prompts)
    ray.kill(successor.actor)
    run = RunFolder.open(tmp_path)
    assert [row["step"] for row in run.groups()] == [1] * 4 + [2] * 4
    assert [(row["step"], row["rollouts"]) for row in run.metrics()] == [(1, 16), (2, 32)]
