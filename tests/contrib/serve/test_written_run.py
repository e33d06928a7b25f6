"""What the service writes down of a run, for `curro watch`."""

from __future__ import annotations

import os

import numpy as np
import pytest
from tests.contrib.serve.asking import post

from curro import Curriculum
from curro.contrib.serve.application import Service
from curro.durable import DurableCurriculum
from curro.durable.frames import decode
from curro.durable.replies import unpack
from curro.runs.folder import RunFolder
from curro.runs.reader import read_history


class Client:
    """A trainer that asks a service in a folder; every call is sent twice."""

    def __init__(self, folder, name="a", **options):
        self.name, self.calls = name, 0
        curriculum = Curriculum("prioritized-replay", 20, seed=1)
        self.durable = DurableCurriculum(curriculum, folder / "live", run_folder=folder / "run", **options)
        self.run = self.durable.run
        self.service = Service(self.durable, "secret", {})

    def call(self, question, **fields):
        self.calls += 1
        first, again = (
            post(self.service, question, client=self.name, call=self.calls, **fields) for _ in range(2)
        )
        assert first == again
        assert first[0] == 200
        return first[1]

    def train(self, step, rewards):
        """A step; the first prompt that was drawn is dropped."""
        draw = self.call("select", n=len(rewards) + 1, step=step)
        self.call("drop", tickets=draw["tickets"][:1])
        self.call("observe", tickets=draw["tickets"][1:], rewards=rewards)
        return draw["prompts"][1:], draw["reasons"][1:]


def test_groups_and_steps_are_written_once(tmp_path):
    client = Client(tmp_path)
    first, first_reasons = client.train(0, [[1, 0, None], [0, 0, 0, 0]])
    second, second_reasons = client.train(1, [[1, 1]])
    history = read_history(RunFolder.open(tmp_path / "run"))
    assert history.series("step")[0].tolist() == [1]
    client.run.end_step()
    client.run.end_step()
    client.durable.close()
    history = read_history(RunFolder.open(tmp_path / "run"))
    groups = history.groups
    assert groups.prompt.tolist() == first + second
    assert groups.reason.tolist() == first_reasons + second_reasons
    assert groups.step.tolist() == [1, 1, 2]
    assert groups.rate.tolist() == [0.5, 0, 1]
    assert groups.rollouts.tolist() == [3, 4, 2], "a rollout that was not scored was rolled out"
    assert history.series("step")[0].tolist() == [1, 2]
    assert history.series("rollouts")[1].tolist() == [7, 9]
    assert history.last("dropped") == 2


@pytest.mark.parametrize("restart", [False, True])
def test_rewards_as_arrays_have_the_sizes_that_were_drawn(tmp_path, restart):
    """A row ends in NaN where its last rollouts were not scored, and where its group is a smaller one."""

    def opened():
        curriculum = Curriculum("uniform", 20, allocation="knapsack", seed=1)
        return DurableCurriculum(curriculum, tmp_path / "live", run_folder=tmp_path / "run")

    durable, none = opened(), np.nan
    draw = unpack(decode(durable.call("a", 1, "select", {"n": 3, "step": 0, "rollouts": 12})))
    assert draw.rollouts.tolist() == [4, 4, 4]
    if restart:
        durable.snapshot()
        durable.close()
        durable = opened()
    rewards = [[1, 0, none, none, none], [1, 0, 1, 0, 1], [none] * 5]
    durable.call("a", 2, "observe", {"tickets": draw.tickets, "rewards": np.array(rewards)})
    durable.run.end_step()
    durable.close()
    run = RunFolder.open(tmp_path / "run")
    assert [row["rollouts"] for row in run.groups()] == [4, 5, 4]
    assert [row["rollouts"] for row in run.metrics()] == [13]


def test_an_observe_and_a_select_in_one_request_are_written_as_two(tmp_path):
    client = Client(tmp_path)
    draw = client.call("select", n=2, step=0)
    ended = {"tickets": draw["tickets"], "rewards": [[1, 0], [0, 0]]}
    second = client.call("observe_and_select", n=1, step=1, **ended)["draw"]
    ended = {"tickets": second["tickets"], "rewards": [[1, 1]]}
    assert client.call("observe_and_select", n=21, step=1, **ended)["draw"] is None
    client.run.end_step()
    client.durable.close()
    history = read_history(RunFolder.open(tmp_path / "run"))
    assert history.groups.prompt.tolist() == draw["prompts"] + second["prompts"]
    assert history.groups.step.tolist() == [1, 1, 2]
    assert history.series("rollouts")[1].tolist() == [4, 6]


def test_a_service_that_was_killed_goes_on_with_its_lines(tmp_path):
    client = Client(tmp_path)
    prompts = client.train(0, [[1, 0]])[0]
    client.durable.close()
    client = Client(tmp_path, "b")
    prompts += client.train(1, [[1, 0]])[0]
    client.durable.close()
    assert [row["prompt"] for row in RunFolder.open(tmp_path / "run").groups()] == prompts
    assert not (tmp_path / "run" / "curro-1").exists()


@pytest.mark.parametrize("snapshot_after", [1 << 24, 1500])
def test_after_30_kills_the_lines_are_those_of_one_service(tmp_path, snapshot_after):
    """Each kill comes after the call was carried out, and loses some of the last lines, or none."""
    rng = np.random.default_rng(0)
    twin, killed = Client(tmp_path / "twin"), tmp_path / "killed"
    for kill in range(30):
        client = Client(killed, f"client {kill}", snapshot_after=snapshot_after)
        for step in (2 * kill, 2 * kill + 1):
            rewards = rng.integers(0, 2, (3, 4)).tolist()
            assert client.train(step, rewards) == twin.train(step, rewards)
        client.durable._opened.close()  # what a kill leaves
        for name in ("groups.jsonl", "metrics.jsonl"):
            path = killed / "run" / "curro" / name
            if path.exists() and snapshot_after > 1500:
                os.truncate(path, int(rng.integers(path.stat().st_size // 2, path.stat().st_size + 1)))
    client = Client(killed, "last", snapshot_after=snapshot_after)
    client.run.end_step()
    twin.run.end_step()
    ours, theirs = (RunFolder.open(folder / "run") for folder in (killed, tmp_path / "twin"))
    assert ours.groups() == theirs.groups()
    counted = [[row["step"], row["rollouts"], row["observed"], row["reward"]] for row in ours.metrics()]
    assert counted == [
        [row["step"], row["rollouts"], row["observed"], row["reward"]] for row in theirs.metrics()
    ]
    client.durable.close()
    twin.durable.close()


def test_a_checkpoint_that_is_loaded_takes_later_lines_back(tmp_path):
    client = Client(tmp_path)
    kept = client.train(0, [[1, 0]])[0]
    assert post(client.service, "save", name="one")[0] == 200
    client.train(1, [[1, 0]])
    client.train(2, [[1, 0]])
    assert post(client.service, "load", name="one") == (200, {})
    kept += client.train(1, [[0, 0]])[0]
    client.run.end_step()
    client.durable.close()
    run = RunFolder.open(tmp_path / "run")
    assert [row["prompt"] for row in run.groups()] == kept
    assert [row["step"] for row in run.metrics()] == [1, 2]


@pytest.mark.parametrize("killed_at", ["truncate_after", "save_state"])
def test_a_kill_while_a_checkpoint_is_loaded_loses_no_line(tmp_path, monkeypatch, killed_at):
    """Before the snapshot of what was loaded, or before the lines of later steps are taken back."""
    client = Client(tmp_path)
    client.train(0, [[1, 0]])
    assert post(client.service, "save", name="one")[0] == 200
    client.train(1, [[1, 0]])
    client.durable.snapshot()
    client.train(2, [[1, 1]])
    before = RunFolder.open(tmp_path / "run").groups()

    def kill(*_args, **_options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        if killed_at == "truncate_after":
            patched.setattr(RunFolder, "truncate_after", kill)
        else:
            patched.setattr("curro.core.checkpoint.save_state", kill)
        with pytest.raises(KeyboardInterrupt):
            post(client.service, "load", name="one")
    assert post(client.service, "select", client="a", call=99, n=1, step=9)[0] != 200, (
        "it is ahead of the folder"
    )
    client.durable._opened.close()  # what a kill leaves
    client = Client(tmp_path, "b")
    groups = RunFolder.open(tmp_path / "run").groups()
    rollouts = 2 * int(client.durable.curriculum.ledger.observed)
    assert client.run.writer.rollouts == rollouts
    assert groups == (before[:1] if killed_at == "truncate_after" else before)
    # and the next kill, in the middle of the calls since
    kept = [row["prompt"] for row in groups] + client.train(3, [[0, 1]])[0]
    client.durable._opened.close()
    Client(tmp_path, "c").durable.close()
    assert [row["prompt"] for row in RunFolder.open(tmp_path / "run").groups()] == kept


def test_a_mistake_writes_nothing(tmp_path):
    client = Client(tmp_path)
    status, _ = post(client.service, "observe", client="b", call=1, tickets=[9], rewards=[[1.0]])
    client.durable.close()
    assert status == 409
    assert RunFolder.open(tmp_path / "run").groups() == []
