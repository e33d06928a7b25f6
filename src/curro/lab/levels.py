"""Families of generated tasks under their names: `levels:NAME`, several with commas between.

A NAME is a data set of reasoning-gym that has a curriculum of its own (`chain_sum`), a family of the lab
(`lab/chains`), or a class of the user's own (`module:Class`), called without arguments.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from curro import lab
from curro.core.errors import ConfigError
from curro.core.loading import load_callable
from curro.core.text import did_you_mean
from curro.data.levels import HELD_OUT, LevelFamily, Levels
from curro.lab.family import Family
from curro.lab.sampling import EpisodeFamily, VerifyProblems, verify_with
from curro.reward import reasoning_gym
from curro.reward.reward import Row, Score

ATTEMPTS = 20
"""Seeds that a data set of reasoning-gym may give up on, one after the other."""


class LabLevels:
    """A family of the lab, with a level for each size of its problems."""

    def __init__(self, family: Family) -> None:
        self.family, self.name = family, family.name
        self.levels = [{"size": float(size)} for size in family.sizes]

    def problem(self, level: int, rng: random.Random) -> Mapping[str, Any]:
        return self.family.draw_size(rng, self.family.sizes[level])


class GymLevels:
    """A data set of reasoning-gym at the levels of its own curriculum.

    At level l every parameter has the l-th of its values, or its last one. A range of values is the single
    value, or the narrowest range that the data set allows, so that problems of lower levels are not among
    those of a level. The levels end before the first that the data set itself cannot generate.
    """

    def __init__(self, name: str) -> None:
        import reasoning_gym  # noqa: F401 - registers its data sets; takes seconds
        from reasoning_gym.coaching.base_curriculum import DefaultCurriculumContext, RangeAttributeMode
        from reasoning_gym.factory import CURRICULA, DATASETS, create_curriculum

        if name not in CURRICULA:
            known = "has no levels of it" if name in DATASETS else "has no such data set"
            raise ConfigError(
                f"levels of {name!r}: reasoning-gym {known}{did_you_mean(name, CURRICULA)}; families of the "
                "lab are lab/NAME, and your own is module:Class"
            )
        self.name = name
        curriculum = create_curriculum(name)
        self.attributes = curriculum.attributes
        self.levels: list[dict[str, float]] = []
        self._data_sets = []
        context = DefaultCurriculumContext(mode=RangeAttributeMode.UPPER_BOUND)
        for level in range(max((len(attribute.levels) for attribute in self.attributes.values()), default=0)):
            curriculum.set_global_level(level)
            try:
                config = curriculum.generate_configuration({"seed": 0, "size": 1}, context=context)
                if hasattr(config, "validate"):
                    config.validate()
                self._data_sets.append(DATASETS[name][0](config=config))
                self.problem(level, random.Random(0))
            except (ValueError, IndexError, AssertionError):
                break
            self.levels.append({each: self._number(each, level) for each in self.attributes})
        if not self.levels:
            raise ConfigError(f"reasoning-gym cannot generate {name!r} without end: choose another data set")

    def _number(self, attribute: str, level: int) -> float:
        """A parameter's value, or its place among the values where they are no numbers."""
        values = self.attributes[attribute].levels
        position = min(level, len(values) - 1)
        return float(values[position]) if isinstance(values[position], int | float) else float(position)

    def problem(self, level: int, rng: random.Random) -> Mapping[str, Any]:
        # the data set seeds its problem i with seed + i, which is below 2^32, so that its size is no bound
        for attempt in range(ATTEMPTS):
            try:
                entry = self._data_sets[level][rng.randrange(2**31)]
                break
            except ValueError:  # it gave up on this seed
                if attempt == ATTEMPTS - 1:
                    raise
        return {"prompt": entry["question"], "answer": entry["answer"], "metadata": entry["metadata"]}


def family_of(name: str) -> LevelFamily:
    """The family of this name."""
    if name.startswith("lab/"):
        return LabLevels(lab.family(name.removeprefix("lab/")))
    if ":" not in name:
        return GymLevels(name)
    family = load_callable(name, "levels")()
    missing = [each for each in ("name", "levels", "problem") if not hasattr(family, each)]
    if missing:
        raise ConfigError(
            f"levels {name!r}: the class has no {' and no '.join(missing)}: it needs a name, levels (their "
            "parameters, a dict each) and problem(level, rng)"
        )
    return family


def _verifier(family: LevelFamily) -> Callable[[Sequence[str], Sequence[Row]], Sequence[Score]]:
    """The function that scores completions of one family's problems."""
    if isinstance(family, GymLevels):
        return reasoning_gym.verify
    if isinstance(family, LabLevels):
        return verify_with(family.family)
    score = getattr(family, "score", None)
    if score is None:
        raise ConfigError(
            f"the family {family.name!r} has no method score(completion, row): write one, or name a reward, "
            "as --reward math"
        )
    return lambda completions, rows: [score(text, row) for text, row in zip(completions, rows, strict=True)]


class LevelTasks:
    """A `curro.core.loading.Provider` of generated tasks, their scores and environments.

    Raises:
        ConfigError: from every method, for a family that there is not.
    """

    def levels(self, name: str) -> Levels:
        """The arms of these families."""
        return Levels([family_of(each.strip()) for each in name.split(",")], source=f"levels:{name}")

    def problems(self, name: str, split: str, limit: int | None) -> list[dict[str, Any]]:
        """Held-out problems, equally many of each arm: 500 if `limit` is None."""
        if split != "test":
            raise ConfigError(
                "levels have no fixed problems to train on or to estimate: train with `curro train`, or with "
                "`curro.data.load_levels` and one of the hosts that docs/levels.md names"
            )
        return self.levels(name).held_out(limit or HELD_OUT)

    def verify(self, name: str) -> VerifyProblems:
        """The families' own scores, reasoning-gym's for its data sets."""
        families = {family.name: family for family in self.levels(name).families.values()}
        verifiers = {family.name: _verifier(family) for family in families.values()}

        def verify(completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
            scores: list[Score] = [None] * len(rows)
            for source, of_family in verifiers.items():
                places = [i for i, row in enumerate(rows) if row["source"] == source]
                if places:
                    scored = of_family([completions[i] for i in places], [rows[i] for i in places])
                    for i, score in zip(places, scored, strict=True):
                        scores[i] = score
            return scores

        return verify

    def environment(self, name: str) -> EpisodeFamily | None:
        family = self._only_family(name)
        return family if isinstance(family, EpisodeFamily) else None

    def model(self, name: str) -> tuple[Any, Any]:
        family = self._only_family(name)
        if family is None:
            raise ConfigError(f"levels:{name} has no model of its own: a single family of the lab has")
        return lab.load(family.name)

    def code(self, name: str) -> list[str]:
        families = [each.strip() for each in name.split(",")]
        return [each for each in families if ":" in each and not each.startswith("lab/")]

    def _only_family(self, name: str) -> Family | None:
        """The lab's family where it is the only one."""
        families = [
            lab.family(each.strip()[4:]) for each in name.split(",") if each.strip().startswith("lab/")
        ]
        if "," in name and any(isinstance(family, EpisodeFamily) for family in families):
            raise ConfigError(f"levels:{name}: a family that is played turn by turn is trained on by itself")
        return families[0] if families and "," not in name else None
