"""Problems without end: tasks that are generated at a level of difficulty, in place of a fixed data set.

An *arm* is a family of tasks at one level, "sums of five terms". A row of the prompt table is an arm, so that
selections, predictions, gates and metrics take it for a prompt. Four things follow.

* A draw gives arms and tickets, and the number of the ticket is the seed of its problem: `Levels.problem`
  makes the problem from the curriculum's seed, the arm and that number. Tickets count up and are saved with
  the curriculum, so that a resumed run draws the same problems, and nothing else has to be saved. The lines
  of `groups.jsonl` have the ticket, from which a problem can be made again.
* The owner of the curriculum draws arms and tickets; every process of a host makes the problems from them by
  itself, the same ones.
* An arm may be in flight any number of times, each time with another problem (`Selection.repeats`).
* An arm's own row is an example of its problems. It is what reports show of the arm, and the fingerprint is
  of these examples, so that a generator that has changed is refused like another data set.

A hash of its prompt decides whether a problem is trained on or held out, so that the two never overlap.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np

from curro.data.arrow_rows import Row
from curro.data.prompt_set import PromptSet
from curro.data.raw import DataError

Split = Literal["train", "test"]

HELD_OUT = 500
"""Problems to evaluate on, where nobody says how many."""

TRIES = 1000
"""Draws of a level until its problems of a split are taken to be used up."""

LEVEL, DIFFICULTY = "level", "difficulty"
"""Columns of the arms: the level, from 0, and the same from 0 for a family's easiest to 1 for its hardest."""


class LevelFamily(Protocol):
    """A family of tasks that is generated at levels. A class of your own needs no base class.

    It may have a method `score(completion, row)`, a number in [0, 1], which is the reward of its problems.

    Attributes:
        name: of the family, the `source` of its rows.
        levels: the parameters of every level as numbers by name, from the easiest to the hardest. Selections
            predict a level from them.
    """

    @property
    def name(self) -> str: ...
    @property
    def levels(self) -> Sequence[Mapping[str, float]]: ...

    def problem(self, level: int, rng: random.Random) -> Mapping[str, Any]:
        """A problem of a level: `prompt` (text or messages), `answer`, and perhaps `metadata`, a dict.

        Everything that is random comes from `rng`, so that the same numbers make the same problem.
        """
        ...


class Levels(PromptSet):
    """The arms of several families, and their problems.

    Its rows are the arms, which `Curriculum` takes as its prompts. Each is an example problem, with the
    columns of a problem and `level` and `difficulty`.

    Args:
        families: with different names.
        source: what they were loaded from.

    Raises:
        DataError: no families, two of one name, one without levels, or a level without problems.

    Attributes:
        families: by name.
        arms: the name and the level of each of N arms.
        features_ND: the arms as a regression sees them, float64 (N, D): which family it is, one column each;
            how hard it is within its family, from 0 to 1; and each family's parameters, scaled to [0, 1],
            in columns that are 0 for other families.
        blocks: how many of the D features are of each of these three kinds.
    """

    def __init__(self, families: Sequence[LevelFamily], *, source: str = "") -> None:
        self.families = {family.name: family for family in families}
        if len(self.families) < len(families):
            raise DataError(f"{source or 'the levels'}: two families have one name: name each family once")
        empty = [family.name for family in families if not len(family.levels)]
        if empty:
            raise DataError(f"the family {empty[0]!r} has no levels: give it at least one")
        self.arms = [(family.name, level) for family in families for level in range(len(family.levels))]
        rows = []
        for arm, (name, level) in enumerate(self.arms):
            hardest = max(len(self.families[name].levels) - 1, 1)
            example = self.problem(arm, "example", 0)
            rows.append({**example, "key": f"{name}/{level}", LEVEL: level, DIFFICULTY: level / hardest})
        super().__init__(rows, source=source)
        self.features_ND, self.blocks = _features(list(self.families.values()))

    @property
    def levels(self) -> Levels:
        """These levels, by the name under which a curriculum looks for them."""
        return self

    def problem(self, arm: int, number: int | str, seed: int, split: Split = "train") -> Row:
        """The problem of this number at an arm: the same arguments give the same problem.

        Returns:
            `prompt`, `answer`, `metadata` (a dict of plain values), `key`, which is unique, and `source`, the
            family's name: the same columns for every family.

        Raises:
            DataError: the level has no problem of the split, or one without a prompt.
        """
        name, level = self.arms[arm]
        family, rng = self.families[name], random.Random(f"{name}/{level}/{number}/{seed}/{split}")
        for _ in range(TRIES):
            drawn = family.problem(level, rng)
            if drawn.get("prompt") in (None, "", []):
                raise DataError(f"level {level} of {name!r} gave a problem without a prompt: {drawn!r:.80}")
            if split_of(drawn["prompt"]) == split:
                answer = drawn.get("answer")
                return {
                    "prompt": drawn["prompt"],
                    "answer": None if answer is None else str(answer),
                    "metadata": json.loads(json.dumps(drawn.get("metadata") or {}, default=str)),
                    "key": f"{name}/{level}/{number}",
                    "source": name,
                }
        raise DataError(
            f"level {level} of {name!r} has no problem {'to train on' if split == 'train' else 'to hold out'}"
            f": {TRIES} draws gave none, so it has too few problems; leave that level out"
        )

    def held_out(self, n: int, seed: int = 0) -> list[Row]:
        """At most n different problems that are never trained on, equally many of each arm.

        Where n is no multiple of the number of arms, the first ones give one more. An easy level that has
        fewer gives those it has.
        """
        rows: list[Row] = []
        for arm, (name, level) in enumerate(self.arms):
            wanted, prompts = n // len(self.arms) + (arm < n % len(self.arms)), dict[str, Row]()
            for number in range(10 * wanted):
                if len(prompts) == wanted:
                    break
                try:
                    row = self.problem(arm, number, seed, "test")
                except DataError:
                    break
                prompts.setdefault(_text(row["prompt"]), {**row, LEVEL: level})
            rows += [{**row, "key": f"{name}/{level}/held-out/{i}"} for i, row in enumerate(prompts.values())]
        return rows

    def with_column(self, name: str, values: Sequence[Any]) -> PromptSet:
        """Refused: an arm has no column of a data set's."""
        raise DataError(f"levels have no column {name!r} of a data set: their problems are generated")


def split_of(prompt: Any) -> Split:
    """Whether problems with this prompt are trained on, or held out, as one in five is."""
    return "test" if int(digest_of(prompt)[-8:], 16) % 5 == 0 else "train"


def digest_of(prompt: Any) -> str:
    """32 hex digits that stand for a prompt."""
    return hashlib.blake2b(_text(prompt).encode(), digest_size=16).hexdigest()


def _text(prompt: Any) -> str:
    return prompt if isinstance(prompt, str) else json.dumps(prompt, sort_keys=True, default=str)


def _features(families: Sequence[LevelFamily]) -> tuple[np.ndarray, tuple[int, ...]]:
    """`Levels.features_ND` and `Levels.blocks`."""
    parameters = [
        list(dict.fromkeys(name for level in family.levels for name in level)) for family in families
    ]
    rows, before, width = [], 0, sum(map(len, parameters))
    for f, (family, names) in enumerate(zip(families, parameters, strict=True)):
        values_LD = np.array([[float(level.get(name, 0.0)) for name in names] for level in family.levels])
        values_LD = values_LD.reshape(len(family.levels), len(names))
        spread_D = np.ptp(values_LD, axis=0) if len(names) else np.empty(0)
        scaled_LD = (values_LD - values_LD.min(axis=0)) / np.where(spread_D > 0, spread_D, 1.0)
        for level, scaled_D in enumerate(scaled_LD):
            own = np.zeros(width)
            own[before : before + len(names)] = scaled_D
            hardness = level / max(len(family.levels) - 1, 1)
            rows.append(np.concatenate([np.eye(len(families))[f], [hardness], own]))
        before += len(names)
    return np.array(rows), (len(families), 1, *([width] if width else []))
