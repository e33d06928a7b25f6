"""The actor that owns the curriculum: several ask it, and it survives being killed."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
import ray
from ray_for_tests import start_ray

import curro
from curro.core.groups import Feedback
from curro.hosts.verl.owner import CurriculumClient, start_owner
from curro.runs.folder import RunFolder


class Rows:
    """Sixty prompts, as `VerlRows` describes a data set."""

    keys = tuple(str(row) for row in range(60))
    fingerprint = "sixty"
    rows = None


@pytest.fixture
def owner(tmp_path):
    start_ray()
    config = {"selection": "prioritized-replay", "seed": 2}
    client = start_owner(config, Rows(), tmp_path, f"owner-{tmp_path.name}")
    yield client
    ray.kill(client.actor)


def rewards(prompts):
    return np.array([[(prompt + session) % 3 == 0 for session in range(4)] for prompt in prompts], float)


def report(client, draw):
    values = rewards(draw.prompts)
    return client.observe(Feedback.read(draw.tickets, values))


def kill(client):
    """SIGKILL to the actor's process."""
    os.kill(ray.get(client.actor.__ray_call__.remote(lambda self: os.getpid())), signal.SIGKILL)


def test_several_workers_ask_at_once_and_get_different_prompts(owner, tmp_path):
    @ray.remote(num_cpus=0.1)
    def work(name):
        client = CurriculumClient(name)
        draws = [client.select(2, step=1) for _ in range(3)]
        for draw in draws[:2]:
            report(client, draw)
        client.drop(draws[2].tickets.tolist())
        return [draw.tickets.tolist() for draw in draws]

    found = ray.get([work.remote(f"owner-{tmp_path.name}") for _ in range(3)])
    tickets = sorted(ticket for draws in found for draw in draws for ticket in draw)
    assert tickets == list(range(18))
    metrics = owner.metrics()
    assert (metrics["observed"], metrics["dropped"], metrics["in_flight"]) == (12, 6, 0)


def test_a_killed_owner_goes_on_where_it_was(owner):
    twin = curro.Curriculum("prioritized-replay", Rows(), seed=2)
    for step in range(3):
        draw, expected = owner.select(4, step=step), twin.select(4, step=step)
        np.testing.assert_array_equal(draw.prompts, expected.prompts)
        if step == 0:
            kill(owner)  # with tickets in flight
        ours, theirs = report(owner, draw), twin.observe(expected.tickets, rewards(expected.prompts))
        np.testing.assert_array_equal(ours.advantages, theirs.advantages)
        if step == 1:
            kill(owner)
    assert owner.metrics() == pytest.approx(twin.metrics(), nan_ok=True)


def test_a_call_whose_reply_was_lost_counts_once(owner):
    """Ray repeats a call that died with the actor: the same call number gets the same reply."""
    draw = owner.select(3, step=0)
    again = ray.get(owner.actor.select.remote(owner.client, owner.calls, 3, 0, []))
    np.testing.assert_array_equal(again.tickets, draw.tickets)
    kill(owner)
    again = ray.get(owner.actor.select.remote(owner.client, owner.calls, 3, 0, []))
    np.testing.assert_array_equal(again.prompts, draw.prompts)
    assert owner.metrics()["selected"] == 3


def test_errors_are_the_curriculums_own(owner):
    with pytest.raises(curro.ExhaustedError, match="61 prompts were asked for and 60 of 60 are free"):
        owner.select(61, step=0)
    with pytest.raises(curro.TicketError, match="never given out"):
        owner.drop([7])
    assert len(owner.select(60, step=0)) == 60


def test_checkpoints_outlive_the_owner(owner, tmp_path):
    draw = owner.select(5, step=0)
    report(owner, draw)
    flying = owner.select(2, step=1)
    owner.save(tmp_path / "saved.npz")
    owner.select(9, step=2)
    owner.load(tmp_path / "saved.npz", kept=flying.tickets[:1].tolist(), step=1)
    kill(owner)
    metrics = owner.metrics()
    assert (metrics["observed"], metrics["dropped"], metrics["in_flight"]) == (5, 1, 1)
    owner.drop(flying.tickets[:1].tolist())


def test_the_owner_writes_the_run_down(owner, tmp_path):
    for step in (1, 2):
        draw = owner.select(3, step=step - 1)
        report(owner, draw)
        owner.write_step(step, owner.metrics())
        if step == 1:
            kill(owner)
    run = RunFolder.open(tmp_path)
    assert run.path == tmp_path / "curro"
    assert [row["step"] for row in run.groups()] == [1, 1, 1, 2, 2, 2]
    assert [row["prompt"] for row in run.groups()][3:] == draw.prompts.tolist()
    assert [row["reason"] for row in run.groups()][3:] == draw.reasons.tolist()
    assert {row["rollouts"] for row in run.groups()} == {4}
    assert [(row["step"], row["rollouts"]) for row in run.metrics()] == [(1, 12), (2, 24)]
    assert "table/learnable" in run.metrics()[0]
