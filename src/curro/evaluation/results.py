"""What an evaluation found, as tables for the terminal and the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.table import Table

from curro.evaluation.intervals import wilson
from curro.evaluation.pass_at_k import pass_at_k_of_each
from curro.messages import printable


@dataclass(frozen=True)
class Result:
    """One model on one suite.

    Attributes:
        suite, model: their names.
        samples: of each problem.
        correct_P: how many of them are right.
        truncated: the share of samples that the limit of tokens cut.
        groups: the value of the suite's column of groups for each problem; empty where it has none.
    """

    suite: str
    model: str
    samples: int
    correct_P: np.ndarray
    truncated: float
    groups: Sequence[str] = field(default=())

    def by_group(self) -> dict[str, np.ndarray]:
        """The counts of right samples in each group, by name."""
        names = np.array(self.groups, object)
        return {str(name): self.correct_P[names == name] for name in sorted(set(self.groups))}


@dataclass(frozen=True)
class Sheet:
    """A table of texts: a title, the columns' names, and rows of cells."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def render(self) -> Table:
        """For the terminal."""
        table = Table(*self.columns, title=printable(self.title), title_justify="left", box=None)
        for row in self.rows:
            table.add_row(*(printable(cell) for cell in row))
        return table


def sheets(
    results: Sequence[Result], ks: Sequence[int], not_asked: Mapping[str, Sequence[Sequence[str]]]
) -> list[Sheet]:
    """The overview of all suites, then of each suite its groups, where it has any, and what was not asked.

    Args:
        ks: the k of pass@k; of a suite with fewer samples the larger ones are left out.
        not_asked: by suite, the packages that each problem lacks which was not asked for want of them.
    """
    suites = list(dict.fromkeys(result.suite for result in results))
    columns = ("suite", "model", "problems", "samples", *(f"pass@{k}" for k in ks), "cut off")
    overview = Sheet("Accuracy", columns, [_row(result, ks) for result in results])
    parts = [[result for result in results if result.suite == suite and result.groups] for suite in suites]
    groups = [_groups(found) for found in parts if found]
    return [overview, *groups, *(_not_asked(*item) for item in not_asked.items() if item[1])]


def _row(result: Result, ks: Sequence[int]) -> list[str]:
    cells = [accuracy(result.correct_P, result.samples, k) if k <= result.samples else "" for k in ks]
    counts = [str(len(result.correct_P)), str(result.samples)]
    return [result.suite, result.model, *counts, *cells, f"{result.truncated:.1%}"]


def _groups(results: Sequence[Result]) -> Sheet:
    names = list(dict.fromkeys(name for result in results for name in result.by_group()))
    sizes = {name: len(counts) for result in results for name, counts in result.by_group().items()}
    rows: list[list[Any]] = []
    for name in names:
        found = [result.by_group().get(name) for result in results]
        cells = [
            "" if counts is None else accuracy(counts, result.samples, 1)
            for counts, result in zip(found, results, strict=True)
        ]
        rows.append([name, str(sizes[name]), *cells])
    models = [result.model for result in results]
    return Sheet(f"pass@1 on {results[0].suite} by group", ["group", "problems", *models], rows)


def _not_asked(suite: str, missing: Sequence[Sequence[str]]) -> Sheet:
    """How many problems each package that is missing costs; a problem may lack several."""
    counts = Counter(name for names in missing for name in names)
    rows = [[name, str(problems)] for name, problems in counts.most_common()]
    return Sheet(f"Not asked: {len(missing)} of {suite}", ["package that is missing", "problems"], rows)


def accuracy(correct_P: np.ndarray, samples: int, k: int) -> str:
    """pass@k with its 95% interval, as `.433 (.301 to .577)`."""
    values = pass_at_k_of_each(correct_P, samples, k)
    low, high = wilson(values, samples)
    return f"{_short(values.mean())} ({_short(low)} to {_short(high)})"


def _short(share: float) -> str:
    return f"{share:.3f}".removeprefix("0")
