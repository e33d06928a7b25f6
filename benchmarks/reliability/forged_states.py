"""Forged states: the state of a curriculum in training, with entries replaced, cut, bent or removed, or with
bytes of its file overwritten. A fresh curriculum loads it. Either that ends in a CheckpointError, or two more
training steps end without an error that is not curro's own. `faults.py states` makes many.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from curro import Curriculum, Reply
from curro.core.errors import CheckpointError, CurroError
from curro.data import PromptSet

SIZE, BATCH, GROUP = 24, 4, 4
TEXTS = PromptSet([{"prompt": f"{i} + {i * i} =", "answer": "", "key": str(i)} for i in range(SIZE)])
SHARES = {
    "prompts": PromptSet(
        [{"prompt": f"{i} =", "answer": "", "key": str(i), "source": "ab"[i % 2]} for i in range(SIZE)]
    ),
    "source_weights": "a=2,b=1",
}
CURRICULA: dict[str, dict[str, Any]] = {
    "uniform": {"selection": "uniform"},
    "uniform, knapsack": {"selection": "uniform", "allocation": "knapsack"},
    "uniform, shares": {"selection": "uniform", **SHARES},
    "greso, shares": {"selection": "greso", **SHARES},
    "published replay, shares": {
        "selection": "prioritized-replay:variant=published,retest_every=2",
        **SHARES,
    },
    "scheduled": {"selection": "scheduled"},
    "least-visited": {"selection": "least-visited"},
    "replay": {"selection": "prioritized-replay", "allocation": "knapsack"},
    "published replay": {"selection": "prioritized-replay:variant=published,retest_every=2"},
    "published replay, sum tree": {"selection": "prioritized-replay:variant=published,draw=proportional"},
    "pspo, smoothed": {"selection": "pspo", "advantage": "smoothed", "admission": "signal"},
    "posterior": {"selection": "posterior"},
    "frontier": {"selection": "frontier"},
    "frontier, texts": {"selection": "frontier", "prompts": TEXTS},
    "adcl": {"selection": "adcl:chunks=3"},
    "sec": {"selection": "sec:categories=3"},
    "metis": {"selection": "metis:candidates=2", "advantage": "leave-one-out"},
    "pcl": {"selection": "pcl:candidates=2,hidden=4"},
}
NUMBERS = (0, -1, 1, 2**31, 2**63 - 1, -(2**63), 2**70, 1.5, -0.0, 1e308, float("nan"), float("inf"))
OTHERS = (*NUMBERS, None, True, "", "x" * 1000, [], [1], {}, np.zeros(0), np.zeros((2, 2)), np.array("x"))


class Policy:
    """A policy of one tiny layer, which judges every prompt by its number."""

    def prompt(self, number: int) -> str:
        if not 0 <= number < SIZE:
            raise IndexError(f"the data set has no prompt {number}")
        return f"{number} + {number} ="

    def answer(self, conversations: Sequence[Sequence[dict[str, str]]], max_tokens: int) -> list[Reply]:
        sizes = [len(messages[-1]["content"]) for messages in conversations]
        return [Reply(f"\\boxed{{0.{size % 30:02}}}", (1, 2), (3,)) for size in sizes]

    def backbone(self) -> tuple[Any, Any]:
        model, tokenizer = tiny_model()
        return copy.deepcopy(model), tokenizer


@cache
def tiny_model() -> tuple[Any, Any]:
    import torch

    from curro.lab.model import build_model, build_tokenizer

    torch.manual_seed(0)
    return build_model(build_tokenizer(), width=8, layers=1).base_model, build_tokenizer()


def make(kind: str) -> Curriculum:
    curriculum = Curriculum(**{"prompts": SIZE, **CURRICULA[kind]})
    curriculum.attach(Policy())
    return curriculum


def train(curriculum: Curriculum, steps: int, seed: int, leave: bool = False) -> None:
    """Some training steps with random rewards; `leave` leaves the last draw in flight."""
    rng = np.random.default_rng(seed)
    for number in range(steps):
        budget = {"rollouts": BATCH * GROUP} if curriculum.has_allocation else {}
        draw = curriculum.select(BATCH, step=curriculum.step + 1, **budget)
        if leave and number == steps - 1:
            return
        size = max(int(draw.rollouts.max()), GROUP)
        generated = np.arange(size) < np.where(draw.rollouts > 0, draw.rollouts, GROUP)[:, None]
        right = rng.random(generated.shape) < 0.5
        curriculum.observe(draw.tickets, np.where(generated, right, np.nan))


def leaves(state: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places of all entries, folders too."""
    paths = [path] if path else []
    if isinstance(state, dict):
        for name in state:
            paths += leaves(state[name], (*path, name))
    return paths


def forge(state: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """The state with one value changed a little, or with one to three entries changed in any way."""
    forged = copy.deepcopy(state)
    gentle = rng.random() < 0.6
    for _ in range(1 if gentle else int(rng.integers(1, 4))):
        *folders, name = rng.choice(np.array([*map(tuple, leaves(forged)), ()], object)[:-1])
        inside = forged
        for folder in folders:
            inside = inside[folder]
        if gentle:
            inside[name] = nudged(inside[name], rng)
        elif rng.random() < 0.1:
            del inside[name]
        elif isinstance(inside[name], np.ndarray) and rng.random() < 0.8:
            inside[name] = bent(inside[name], rng)
        else:
            inside[name] = OTHERS[int(rng.integers(len(OTHERS)))]
    return forged


def nudged(value: Any, rng: np.random.Generator) -> Any:
    """Another value of the same type, mostly one that could be."""
    if isinstance(value, np.ndarray) and value.size:
        changed = value.copy()
        at, other = rng.integers(value.size, size=2)
        nearby = [value.flat[other], value.flat[at] + 1, -value.flat[at]] if value.dtype != bool else []
        with np.errstate(all="ignore"):
            changed.flat[at] = [*nearby, *np.array([0, 1, 2, 50]).astype(value.dtype)][int(rng.integers(4))]
        return changed
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + type(value)((1, -1, 7, 1000)[int(rng.integers(4))])
    return value


def bent(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The array with another value in some places, cut, doubled, of another type or shape."""
    way = int(rng.integers(6)) if array.ndim else 4
    if way == 0:
        return array[: len(array) // 2]
    if way == 1:
        return np.concatenate([array, array])
    if way == 2:
        other = rng.choice(["int8", "int64", "float32", "float64", "bool", "U8"])
        return array.astype("U8" if array.dtype.kind in "SU" else other)
    if way == 3:
        return array.reshape(1, *array.shape)
    changed = array.copy()
    if changed.size:
        places = rng.integers(changed.size, size=1 if way == 4 else max(1, changed.size // 2))
        with np.errstate(all="ignore"):
            try:
                changed.flat[places] = NUMBERS[int(rng.integers(len(NUMBERS)))]
            except (OverflowError, ValueError):
                changed.flat[places] = 77
    return changed


def try_state(kind: str, forged: dict[str, Any]) -> str:
    """Load a forged state and go on: "refused", "works", or "stopped" by an error of curro's."""
    curriculum = make(kind)
    try:
        curriculum.load_state_dict(forged)
    except CheckpointError:
        return "refused"
    try:
        train(curriculum, 2, seed=0)
        curriculum.metrics()
    except CurroError:
        return "stopped"
    return "works"


def try_bytes(kind: str, whole: bytes, path: Path, rng: np.random.Generator) -> str:
    """Overwrite or cut the bytes of a saved file, load it and go on."""
    damaged = bytearray(whole)
    for position in rng.integers(len(damaged), size=int(rng.integers(1, 20))):
        damaged[position] = int(rng.integers(256))
    path.write_bytes(damaged[: int(rng.integers(len(damaged)))] if rng.random() < 0.3 else damaged)
    curriculum = make(kind)
    try:
        curriculum.load(path)
    except CheckpointError:
        return "refused"
    try:
        train(curriculum, 2, seed=0)
    except CurroError:
        return "stopped"
    return "works"


def forged_states(kind: str, cases: int, seed: int, done: Any = None) -> dict[str, int]:
    """How many forged states of a curriculum ended how; four in five by entries, the others by bytes.

    Raises:
        AssertionError: one ended in another error, named with the seed that repeats it.
    """
    states, files = [], []
    counts = {"refused": 0, "works": 0, "stopped": 0}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.npz"
        for leave in (True, False):  # with a draw in flight, and with outcomes that are not learnt from yet
            curriculum = make(kind)
            train(curriculum, 9, seed=seed, leave=leave)
            curriculum.save(path)
            states.append(curriculum.state_dict())
            files.append(path.read_bytes())
        for case in range(cases):
            rng = np.random.default_rng([seed, case])
            state, whole = states[case % 2], files[case % 2]
            try:
                with np.errstate(all="ignore"):
                    by_bytes = case % 5 == 4
                    ended = (
                        try_bytes(kind, whole, path, rng) if by_bytes else try_state(kind, forge(state, rng))
                    )
            except Exception as error:
                raise AssertionError(f"{kind}, seed {seed}, case {case}: {error!r}") from error
            counts[ended] += 1
            if done is not None:
                done.value = case + 1
    return counts
