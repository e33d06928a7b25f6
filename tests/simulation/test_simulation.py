"""Seeds hold; and each kind of mistake, put into the source, is found, shrunk and repeated."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from tests.simulation.run import shrunk, simulate
from tests.simulation.world import Watched

from curro import Curriculum
from curro.contrib.serve.application import Service
from curro.contrib.serve.saved import SavedCurriculum
from curro.core import files
from curro.core.files import replacing
from curro.core.tickets import TicketLedger
from curro.rollout.fill import Fill
from curro.rollout.filler import Filler
from curro.rollout.group import Group
from curro.runs.folder import RunFolder


def test_seeds_hold():
    """A few: `make simulate` runs thousands.

    1955554: with the power went the name of the service's state, and two starts had one number.
    """
    for seed in (*range(40), 1955554):
        failure = simulate(seed)
        assert failure is None, f"{failure}\n{shrunk(seed).command}"


def on(target: Any, name: str, changed: Callable[..., Any]) -> AbstractContextManager[Any]:
    """Replace a method by one that is called with it and its arguments."""
    plain = getattr(target, name)
    return patch.object(target, name, lambda *arguments, **options: changed(plain, *arguments, **options))


def trained_twice(plain, fill):
    kept = dict(fill.admitted)
    batch = plain(fill)
    fill.admitted |= dict(list(kept.items())[:1])
    return batch


async def goes_on_generating(plain, filler, groups, why="cancelled"):
    for group in groups:
        filler._running.pop(group, None)
        filler._drop(group, why)


def draws_anew(plain, curriculum, state):
    plain(curriculum, state)
    curriculum.rng.bit_generator.state = np.random.default_rng(0).bit_generator.state


def estimates_lost(plain, curriculum, state):
    table = state["table"] | {"visits": state["table"]["visits"] * 0}
    plain(curriculum, state | {"table": table})


def start_not_counted(plain, saved):
    saved.start = 0
    plain(saved)


def settled_forgotten(plain, buffer, groups):
    tickets = plain(buffer, groups)
    buffer.settled = set()
    return tickets


@contextmanager
def in_place():
    """A file is written under its own name."""
    with (
        patch.object(replacing, "__enter__", lambda file: file.target),
        patch.object(replacing, "__exit__", lambda *_: None),
    ):
        yield


@contextmanager
def without_sync():
    """A file takes its name before the disk has its bytes."""
    with patch("tests.simulation.world.Disk.kept", lambda disk, descriptor: None):
        yield


@contextmanager
def on_verl(module, name, method, changed):
    """As `on`, in `curro.hosts.verl.replay` (0) or `.owner` (1)."""
    from tests.simulation.verl import adapter

    with on(getattr(adapter()[module], name), method, changed):
        yield


PLANTED: dict[str, tuple[str, Callable[[], AbstractContextManager[None]]]] = {
    "a ticket is lost": ("Asynchronous", lambda: on(
        Filler, "_drop", lambda plain, filler, group, why: filler._fill.mark_failed(group.ticket, why))),
    "a group is trained on twice": ("Asynchronous", lambda: on(Fill, "take", trained_twice)),
    "an admitted group is lost": ("Asynchronous", lambda: on(
        Fill, "begin", lambda plain, fill, n, step, *, waiting=None: plain(fill, n, step, waiting=()))),
    "a group that is young enough is dropped": ("Asynchronous", lambda: on(
        Fill, "older_than", lambda plain, fill, steps: plain(fill, steps - 1))),
    "a rejected group is trained on": ("Rounds", lambda: on(
        Fill, "reject", lambda plain, fill, ticket, group, **_: fill.admit(ticket, group))),
    "cancelled groups are generated on": ("Asynchronous", lambda: on(
        Filler, "_cancel", goes_on_generating)),
    "rewards of another rollout": ("Asynchronous", lambda: on(
        Group, "extend",
        lambda plain, group, rollouts, rewards, named: plain(group, rollouts, np.roll(rewards, 1), named))),
    "a resume draws anew": ("Rounds", lambda: on(Curriculum, "load_state_dict", draws_anew)),
    "a resume forgets what was learned": ("Rounds", lambda: on(
        Curriculum, "load_state_dict", estimates_lost)),
    "a file is written in its place": ("Verl", in_place),
    "a torn file takes its name": ("Served", without_sync),
    "a folder is not synced": ("Served", lambda: on(
        files, "sync", lambda plain, path: path.is_dir() or plain(path))),
    "a duplicate is counted twice": ("Served", lambda: on(
        Service, "answer", lambda plain, service, method, path, body, form, key="": plain(
            service, method, path, body, form))),
    "groups of an earlier start count": ("Served", lambda: on(
        SavedCurriculum, "_is_known", lambda plain, saved, tickets: np.ones(len(tickets), np.bool_))),
    "starts have no numbers": ("Served", lambda: on(SavedCurriculum, "_begin", start_not_counted)),
    "a settled group is reported again": ("Verl", lambda: on_verl(
        0, "ReportingBuffer", "resume", settled_forgotten)),
    "failed groups count as stale": ("Verl", lambda: on_verl(
        1, "CurriculumOwner", "drop", lambda plain, owner, tickets, cause: plain(owner, tickets, "stale"))),
    "importance weights are lost": ("Rounds", lambda: on(
        TicketLedger, "open", lambda plain, ledger, prompts, step, weights, *rest: plain(
            ledger, prompts, step, np.ones_like(weights), *rest))),
    "credit of another group": ("Asynchronous", lambda: on(
        Curriculum, "credit", lambda plain, curriculum, verdicts: np.roll(
            plain(curriculum, verdicts), 1, axis=0))),
    "the service's unscored rollouts are wrong": ("Served", lambda: on(
        SavedCurriculum, "observe", lambda plain, saved, tickets, rewards, *, named=None: plain(
            saved, tickets, np.nan_to_num(rewards), named=named))),
    "a group has no line": ("Verl", lambda: on(
        RunFolder, "append_groups", lambda plain, folder, rows: plain(folder, list(rows)[1:]))),
    "dropped tickets count as observed": ("Verl", lambda: on(
        TicketLedger, "settle", lambda plain, ledger, rows, *, observed: plain(ledger, rows, observed=True))),
}  # fmt: skip
"""Each with a host that finds it within a few seeds."""


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_fault_is_found_within_fifty_seeds(kind):
    host, planted = PLANTED[kind]
    with planted():
        assert any(simulate(seed, host=host) for seed in range(50))


def test_a_failing_seed_is_shrunk_to_what_it_needs_and_its_line_repeats_it():
    """A kill is needed for a resume, and nothing else."""
    with PLANTED["a resume draws anew"][1]():
        seed = next(seed for seed in range(1000) if simulate(seed))
        failure = shrunk(seed)
        assert len(failure.faults) <= 2
        match = re.fullmatch(
            r"python -m tests.simulation --seed (\d+) --steps (\d+) --only '(.*)'", failure.command
        )
        again = simulate(int(match[1]), steps=int(match[2]), only=match[3].split(","))
        assert again.problem == failure.problem
    assert simulate(seed) is None


def test_a_seed_is_the_same_run_whenever_it_is_run():
    def calls(seed):
        noted = []
        with on(
            Watched, "_call", lambda plain, *arguments: noted.append(str(arguments[1:])) or plain(*arguments)
        ):
            assert simulate(seed) is None
        return noted

    for seed in range(12):
        assert calls(seed) == calls(seed)


def test_the_command_runs_a_range_and_a_seed():
    root = Path(__file__).parents[2]
    for arguments, text in ((["0-3"], "3 seeds, 0 failed"), (["--seed", "5", "--only", ""], "seed 5 holds")):
        done = subprocess.run(
            [sys.executable, "-m", "tests.simulation", *arguments], cwd=root, capture_output=True, text=True,
            env=os.environ | {"PYTHONPATH": str(root / "src")}, check=True,
        )  # fmt: skip
        assert text in done.stdout
