"""One seed's world: a virtual clock, a disk that fails, kills, and a twin that is never killed.

Every number comes from a stream that the seed and the name of its place decide, so that a fault which is left
out moves no other. A fault that happens has a name, `place.number`; `only` lets no others happen.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import io
import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from stat import S_ISDIR
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
from tests.methods.prediction.judging import Scripted, by_number

from curro import AuxiliarySamples, Curriculum
from curro.core import checkpoint
from curro.rollout.fill import Fill

SELECTIONS = (
    "uniform", "least-visited", "prioritized-replay", "pspo", "adcl:chunks=2",
    "frontier", "posterior", "sec:categories=2", "prioritized-replay-published:retest_every=2",
    "metis:candidates=2,exploration=0.3", "pcl:candidates=2,hidden=3,batch=4",
)  # fmt: skip
GATES = ("everything", "band:0,1", "band:0.4,0.6")
MOST_KILLS = 3
WATCHED_CALLS = 8
"""How many calls after a resume are compared with those of the twin."""


class Killed(BaseException):
    """The process is no more."""


class World:
    """What the seed decides.

    Args:
        folder: where the disk is.
        steps: training steps at most.
        only: the faults that may happen; None: all.

    Attributes:
        faults: the names of those that have happened.
        now: the clock, in virtual seconds.
    """

    def __init__(
        self, seed: int, folder: Path, *, steps: int | None = None, only: Collection[str] | None = None
    ) -> None:
        self.seed, self.only = seed, only
        self.faults: list[str] = []
        self.kills = 0
        self._streams: dict[str, Random] = {}
        self._asked: Counter[str] = Counter()
        self.disk = Disk(self, folder)
        self.steps = min(self.number("steps", 1, 4), steps or 4)
        self.size = self.number("prompts", 7, 14)
        self.gate = self.choice("gate", GATES)
        self.selection = self.choice("selection", SELECTIONS)

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def wait(self, seconds: float) -> None:
        """Move the clock from within a call that does not know the event loop."""
        asyncio.get_running_loop()._clock.now += seconds  # type: ignore[attr-defined]

    def stream(self, place: str) -> Random:
        if place not in self._streams:
            self._streams[place] = Random(f"{self.seed} {place}")
        return self._streams[place]

    def number(self, place: str, low: int, high: int) -> int:
        return self.stream(place).randint(low, high)

    def chance(self, place: str, probability: float) -> bool:
        return self.stream(place).random() < probability

    def choice(self, place: str, kinds: Sequence[Any]) -> Any:
        return kinds[self.number(place, 0, len(kinds) - 1)]

    def fault(self, place: str, probability: float) -> bool:
        """Whether something goes wrong here and now."""
        name = f"{place}.{self._asked[place]}"
        self._asked[place] += 1
        happens = self.chance(place, probability) and (self.only is None or name in self.only)
        if happens:
            self.faults.append(name)
        return happens

    def first_fault(self, place: str, kinds: Mapping[str, float]) -> str:
        """The kind of what goes wrong; an empty text where nothing does."""
        happened = [kind for kind, probability in kinds.items() if self.fault(f"{place}.{kind}", probability)]
        return happened[0] if happened else ""

    def may_die(self, place: str, probability: float) -> None:
        """Let the process be killed here, or the machine lose its power."""
        if self.kills < MOST_KILLS and self.fault(f"{place}.killed", probability):
            self.die(place)

    def die(self, place: str) -> None:
        self.kills += 1
        self.disk.crash(power=self.fault(f"{place}.power", 0.4))
        raise Killed

    def curriculum(self, **options: Any) -> Watched:
        """A new process's curriculum."""
        return Watched(self.selection, self.size, admission=self.gate, seed=self.seed % 997, **options)

    def started(self, path: Path, allocation: Any) -> tuple[Watched, Trainer, bool]:
        """A new process's curriculum and trainer, and whether they go on from what was saved last."""
        curriculum, trainer = self.curriculum(allocation=allocation), Trainer()
        saved = self.disk.saved(path)
        if saved is not None:
            calls, *remembered = saved.note
            trainer = Trainer(*remembered)
            curriculum.resume(path, calls)
            curriculum.drop(curriculum.ledger.tickets)
        self.disk.note = lambda: (list(curriculum.calls), *trainer.saved())
        return curriculum, trainer, saved is not None

    def check_gate(self, curriculum: Curriculum, admitted: bool, rewards_G: np.ndarray) -> None:
        """Compare a verdict on a group's 0/1 rewards with the gate, by arithmetic of our own."""
        scored = [reward for reward in rewards_G.tolist() if reward == reward]
        passes = bool(scored)
        if scored and self.gate != "everything":
            low, high = map(float, self.gate.removeprefix("band:").split(","))
            passes = low + 1e-9 < sum(scored) / len(scored) < high - 1e-9
        if curriculum.selection.leaves_out == "groups":  # the method leaves out others besides
            assert passes or not admitted, "a group is admitted that the gate rejects"
        else:
            assert admitted == passes, "the gate says something else"


@contextmanager
def replaced(names_of: Mapping[str, Mapping[str, Any]], package: str) -> Iterator[None]:
    """Import modules of a package of curro's within, with the modules of others replaced by these names.

    Afterwards both are forgotten, so that other tests of this process import them as they are.
    """
    stubs = {name: ModuleType(name) for name in names_of if name not in sys.modules}
    for name, stub in stubs.items():
        vars(stub).update(names_of[name])
    before = set(sys.modules)
    sys.modules.update(stubs)
    try:
        yield
    finally:
        for name in set(sys.modules) - before:
            if name in stubs or f"{name}.".startswith(f"{package}."):
                del sys.modules[name]


# ------------------------------ the curriculum ------------------------------


class Watched(Curriculum):
    """A curriculum that notes its calls: a twin that has had the same calls, and was never saved or loaded,
    must say the same after a resume."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.twin: Curriculum | None = None
        self._weights: dict[int, float] = {}  # of the tickets that this process gave out
        self.causes: dict[int, str] = {}  # of the tickets that were dropped
        self._left = self._depth = 0
        self._make = lambda: Curriculum(*arguments, **options)
        super().__init__(*arguments, **options)
        self.attach(Scripted(by_number))

    def resume(self, path: Path, calls: Sequence[tuple[str, tuple[Any, ...], dict[str, Any]]]) -> None:
        """Load what was saved after these calls."""
        self.load(path)
        self.follow(calls)

    def follow(self, calls: Sequence[tuple[str, tuple[Any, ...], dict[str, Any]]]) -> None:
        """Compare with a twin that has had these calls."""
        self.calls, self.twin, self._left = list(calls), self._make(), WATCHED_CALLS
        self.twin.attach(Scripted(by_number))
        for name, arguments, options in calls:
            getattr(self.twin, name)(*arguments, **options)
        same(self.state_dict(), self.twin.state_dict(), "the state after a resume")

    def _call(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        self._depth += 1
        try:
            answer = getattr(super(), name)(*arguments, **options)
        finally:
            self._depth -= 1
        if self._depth:  # `observe` calls `drop`
            return answer
        self.calls.append((name, arguments, options))
        if self.twin is not None:
            expected = getattr(self.twin, name)(*arguments, **options)
            if answer is not None:
                same(vars(answer), vars(expected), f"{name} after a resume")
            self._left -= 1
            self.twin = self.twin if self._left else None
        ledger = self.ledger
        assert ledger.selected == ledger.observed + ledger.dropped + len(ledger), "a ticket is lost"
        return answer

    def select(self, *arguments: Any, **options: Any) -> Any:
        draw = self._call("select", arguments, options)
        self._weights |= dict(zip(draw.tickets.tolist(), draw.weights.tolist(), strict=True))
        return draw

    def observe(self, tickets: Any, *arguments: Any, **options: Any) -> Any:
        verdict = self._call("observe", (tickets, *arguments), options)
        for ticket, weight in zip(np.asarray(tickets).tolist(), verdict.weights.tolist(), strict=True):
            same(weight, self._weights.get(ticket, weight), "the weight of a group")
        return verdict

    def drop(self, tickets: Any, cause: str = "dropped") -> None:
        self.causes |= dict.fromkeys(np.asarray(tickets).tolist(), cause)
        self._call("drop", (np.array(tickets, np.int64), cause), {})


def same(ours: Any, theirs: Any, where: str) -> None:
    """Assert that two nested dicts, lists and arrays are equal."""
    if isinstance(ours, AuxiliarySamples) and isinstance(theirs, AuxiliarySamples):
        same(vars(ours), vars(theirs), where)
    elif isinstance(ours, list):  # in which a NaN equals none
        same(dict(enumerate(ours)), dict(enumerate(theirs)), where)
    elif isinstance(ours, Mapping):
        assert ours.keys() == theirs.keys(), where
        for name in ours:
            same(ours[name], theirs[name], f"{where}: {name}")
    elif isinstance(ours, np.ndarray):
        equal = ours.shape == theirs.shape and bool(
            ((ours == theirs) | ((ours != ours) & (theirs != theirs))).all()
        )
        assert equal, f"{where} differs: {ours} and {theirs}"
    else:
        assert ours == theirs or (ours != ours and theirs != theirs), f"{where} differs: {ours} and {theirs}"


# ------------------------------ the disk ------------------------------


@dataclass(frozen=True)
class Saved:
    """What the world was when a file was written.

    Attributes:
        note: what the host wanted to remember with it.
        start: the number of the service's start in it.
    """

    note: Any
    start: int


class Disk:
    """Files in a folder, written by curro's own code; a write may fill the disk, be cut by a kill, or be lost
    with the power where nothing asked the disk to keep it.

    Attributes:
        note: gives what is remembered of every state that is written whole.
    """

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.folder = world, folder
        self.note: Callable[[], Any] = lambda: None
        self._whole: dict[str, Saved] = {}
        self._kept: set[int] = set()  # inodes whose bytes the disk was asked to keep
        self._replaced: tuple[Path, bytes | None] | None = None
        self._floor: dict[Path, int] = {}
        self._after_crash: dict[Path, bytes] = {}
        self.lost_power = False
        self._is_checked = True  # nothing was written since the last check

    @contextmanager
    def mounted(self) -> Iterator[None]:
        """Let curro's files be written here."""
        with ExitStack() as patches:
            for target, replacement in (
                ("curro.core.files.os", _System(self)),
                ("curro.core.checkpoint._write", self._write),
            ):
                patches.enter_context(patch(target, replacement))
            patches.enter_context(patch("curro.runs.json_lines.open", self._open, create=True))
            yield

    def saved(self, path: Path) -> Saved | None:
        """What was saved in this file, None where there is none. Whoever goes on from it loads it."""
        if not path.exists():
            return None
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        assert digest in self._whole, f"{path.name} holds what was never saved whole"
        return self._whole[digest]

    def check(self) -> None:
        """Whatever lies under its own name was saved whole."""
        if not self._is_checked:
            for folder, _, names in os.walk(self.folder):
                for name in names:
                    if name.endswith(".npz"):
                        self.saved(Path(folder, name))
            self._is_checked = True

    def crash(self, *, power: bool) -> None:
        """The files as the next process finds them."""
        self.lost_power = power
        files = {path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}
        if power:
            for path, content in files.items():
                if path.suffix == ".jsonl":
                    low = min(self._floor.get(path, 0), len(content))
                    files[path] = content[: self.world.number("disk.lines", low, len(content))]
                elif path.stat().st_ino not in self._kept:
                    files[path] = content[: self.world.number("disk.torn", 0, len(content))]
            if self._replaced is not None and self.world.chance("disk.old name", 0.5):
                target, old = self._replaced
                files.pop(target, None)
                files |= {} if old is None else {target: old}
        self._after_crash = files

    def restart(self) -> None:
        """Begin the next process on what the last one left."""
        for path in [path for path in self.folder.rglob("*") if path.is_file()]:
            path.unlink()
        for path, content in self._after_crash.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            self._kept.add(path.stat().st_ino)
        self._replaced, self._is_checked = None, False
        self.check()

    def _write(self, file: Any, state: Mapping[str, Any]) -> None:
        whole = io.BytesIO()
        _REAL_WRITE(whole, state)
        content = whole.getvalue()
        self._kept.discard(os.fstat(file.fileno()).st_ino)
        self._is_checked = False
        self._partly(file, content)
        self._whole[hashlib.sha256(content).hexdigest()] = Saved(self.note(), state.get("start", -1))

    def _partly(self, file: Any, content: bytes) -> None:
        end = self.world.number("disk.end", 0, len(content))
        if self.world.fault("disk.full", 0.04):
            file.write(content[:end])
            file.flush()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.world.kills < MOST_KILLS and self.world.fault("disk.killed", 0.05):
            file.write(content[:end])
            file.flush()
            self.world.die("disk")
        file.write(content)

    def _open(self, path: Path, mode: str = "r", **options: Any) -> Any:
        file = open(path, mode, **options)  # noqa: SIM115 - the caller closes it
        return _Faulty(file, self) if "+" in mode else file

    def kept(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        self._kept.add(status.st_ino)
        if S_ISDIR(status.st_mode):
            self._replaced = None  # the new name holds from here on

    def replace(self, source: Any, target: Any) -> None:
        target = Path(target)
        old = target.read_bytes() if target.exists() else None
        self.world.may_die("disk.before replacing", 0.03)
        os.replace(source, target)
        self._replaced = target, old
        for path in self.folder.rglob("*.jsonl"):
            self._floor[path] = path.stat().st_size
        self.world.may_die("disk.after replacing", 0.03)


_REAL_WRITE = checkpoint._write


class _Faulty:
    """A file of lines, whose writes may go wrong."""

    def __init__(self, file: Any, disk: Disk) -> None:
        self._file, self._disk = file, disk

    def write(self, content: bytes) -> None:
        self._disk._partly(self._file, content)

    def __enter__(self) -> _Faulty:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class _System:
    """The module `os`, as `curro.core.files` sees it."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def fsync(self, descriptor: int) -> None:
        self._disk.kept(descriptor)

    def replace(self, source: Any, target: Any) -> None:
        self._disk.replace(source, target)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


# ------------------------------ what always holds ------------------------------


def check_fill(fill: Fill[Any], curriculum: Curriculum, *, shared: bool = False) -> None:
    """The fill's counts agree with each other and with the curriculum's ledger, and no prompt comes twice.

    Args:
        shared: others draw from the curriculum, or did before a resume.
    """
    counts, ledger = fill.counts, curriculum.ledger
    assert counts.given_out == counts.ended + counts.cancelled + len(fill.in_flight), "a group is lost"
    assert ledger.selected == ledger.observed + ledger.dropped + len(ledger), "a ticket is lost"
    assert sorted(ledger.tickets.tolist()) == sorted([*fill.in_flight, *fill.held]), "in flight for one alone"
    if not shared:
        assert ledger.selected == counts.given_out + counts.repeats
        assert ledger.observed == counts.admitted + counts.rejected
    waiting = fill.in_flight.keys() | fill.admitted.keys()
    assert waiting <= fill.prompts_given_out.keys()
    prompts = [fill.prompts_given_out[ticket] for ticket in waiting]
    assert len(set(prompts)) == len(prompts), "a prompt came twice into a batch"


class Trainer:
    """What a host's trainer remembers, and forgets when it is killed.

    Attributes:
        step: training steps that have finished.
        trained: tickets of all groups that the policy was trained on.
        admitted: rewards of the groups that the gate has admitted in this life and nobody has trained on.
    """

    def __init__(self, step: int = 0, trained: Sequence[Any] = ()) -> None:
        self.step, self.trained = step, list(trained)
        self.admitted: dict[Any, list[float]] = {}

    def train(self, ticket: Any, rewards_G: np.ndarray, *, admitted: bool = True) -> None:
        """Train on a group."""
        assert ticket not in self.trained, f"group {ticket} is trained on twice"
        self.trained.append(ticket)
        if admitted:
            assert ticket in self.admitted, f"group {ticket} is trained on and was not admitted"
            same(np.array(self.admitted.pop(ticket)), rewards_G, f"the rewards of group {ticket}")

    def saved(self) -> tuple[int, list[Any]]:
        return self.step, list(self.trained)
