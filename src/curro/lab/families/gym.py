"""Families whose problems and scores are reasoning-gym's; the worked steps and their mistakes are ours."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from functools import cache
from typing import Any, ClassVar

from curro.lab.family import Family, Kind, Problem


class GymFamily(Family):
    """A data set of reasoning-gym, solved by writing the running total after every step.

    Every step calls on one skill of many. In a demonstration each skill fails at its own rate, always
    too high by as much: two mistakes never cancel, and an answer is right only if every step is.

    Attributes:
        data_set: its name in reasoning-gym.
        settings: of the data set, by the kind of problem.
        size_settings: the names of its settings that bound the size of a problem from below and from above.
        metadata_names: the entries of its metadata that the worked answer needs.
        digits: how many a total is written with; totals of one length make the next step easy to find.
    """

    data_set: ClassVar[str]
    settings: ClassVar[dict[Kind, dict[str, Any]]]
    size_settings: ClassVar[tuple[str, str]]
    metadata_names: ClassVar[tuple[str, ...]]
    digits: ClassVar[int]

    @abstractmethod
    def start(self, metadata: dict[str, Any]) -> tuple[int, list[Any]]:
        """The total before the first step, and the steps."""

    @abstractmethod
    def step(self, total: int, step: Any) -> tuple[int, Hashable]:
        """What a step adds to the total, and the skill it calls on."""

    @abstractmethod
    def phrase(self, metadata: dict[str, Any]) -> str:
        """The start and the steps in the words of the question."""

    @staticmethod
    @abstractmethod
    def easy() -> Sequence[dict[str, Any]]:
        """The metadata of every easy problem, as far as `metadata_names` has them."""

    @staticmethod
    @abstractmethod
    def mistakes() -> dict[Hashable, tuple[float, int]]:
        """How often a demonstration gets each skill wrong, and how much too high its total is then."""

    def draw(self, rng: random.Random, kind: Kind) -> Problem:
        # The data set seeds its problem i with seed + i, so its size is no bound.
        row = self._entry(rng, self.settings["short" if kind == "easy" else kind])
        return self._with(row, rng.choice(self.easy())) if kind == "easy" else row

    def draw_size(self, rng: random.Random, size: int) -> Problem:
        return self._entry(rng, self.settings["hard"] | dict.fromkeys(self.size_settings, size))

    def _entry(self, rng: random.Random, settings: dict[str, Any]) -> Problem:
        entry = _create(self.data_set, **settings)[rng.randrange(2**48)]
        metadata = {name: entry["metadata"][name] for name in ("source_dataset", *self.metadata_names)}
        return {"prompt": entry["question"], "answer": entry["answer"], "metadata": metadata}

    def _with(self, row: Problem, metadata: dict[str, Any]) -> Problem:
        """The problem with other steps: reasoning-gym has no setting that keeps to some skills."""
        total, steps = self.start(metadata)
        for step in steps:
            total += self.step(total, step)[0]
        prompt = row["prompt"].replace(self.phrase(row["metadata"]), self.phrase(metadata))
        return {"prompt": prompt, "answer": str(total), "metadata": row["metadata"] | metadata}

    def worked(self, row: Problem, rng: random.Random | None = None) -> str:
        total, steps = self.start(row["metadata"])
        totals = []
        for step in steps:
            amount, skill = self.step(total, step)
            total += amount
            rate, slip = self.mistakes()[skill]
            if rng is not None and rng.random() < rate:
                total += slip
            totals.append(f" {total:0{self.digits}}")
        return "".join(totals)

    def score(self, completion: str, row: Problem) -> float:
        tokens = completion.split()
        if not tokens:
            return 0.0
        total = tokens[-1].lstrip("0") or "0"
        return float(_create(self.data_set).score_answer(total, {"answer": row["answer"]}) == 1.0)


def unreliable(skills: Sequence[Hashable], seed: int) -> dict[Hashable, tuple[float, int]]:
    """For each of the skills, how often it goes wrong and by how much then (1 to 5).

    One in ten always goes wrong, the others 5% to 60% of the time. So half of the problems are out of
    the warm model's reach: no sample of theirs ever earns a reward, as in real data.
    """
    rng = random.Random(seed)
    unknown = set(rng.sample(skills, len(skills) // 10))
    return {s: (1.0 if s in unknown else rng.uniform(0.05, 0.6), rng.randint(1, 5)) for s in skills}


def _create(name: str, **settings: Any) -> Any:
    return _data_set(name, tuple(sorted(settings.items())))


@cache
def _data_set(name: str, settings: tuple[tuple[str, Any], ...]) -> Any:
    import reasoning_gym  # takes seconds to import

    return reasoning_gym.create_dataset(name, seed=0, **dict(settings))
