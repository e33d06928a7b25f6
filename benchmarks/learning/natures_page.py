"""The page and the picture of `pretrained_natures`: what its rows say, and how sure that is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.bench.statistics import geometric_mean, rollouts_to_level
from benchmarks.learning.pictures import STYLE

from curro.core.intervals import bootstrap_interval

Row = Mapping[str, Any]
Runs = dict[str, dict[tuple[int, str], Row]]
"""The rows of a pool by method, and by seed and device: one seed begins otherwise on another device."""
BASELINE = "uniform"
RESAMPLES = 1_000
STARVED = 0.5
"""A learnable family with less than this share of uniform sampling's groups in the first quarter starves."""


def runs_of(rows: Sequence[Row], pool: str) -> Runs:
    runs: Runs = defaultdict(dict)
    for row in rows:
        if row["pool"] == pool:
            runs[row["method"]][row["seed"], row["device"]] = row
    return runs


def counts(row: Row) -> np.ndarray:
    """The right answers of each held-out problem at each evaluation, int (E, I)."""
    return np.array([list(map(int, text)) for text in row["items"]])


def samples(row: Row) -> float:
    """The samples of a held-out problem at an evaluation."""
    return round(counts(row)[0].mean() / row["pass@1"][0]) if row["pass@1"][0] else 2


@dataclass(frozen=True)
class Pairs:
    """A method and uniform sampling with the same seeds on a pool, on one device where both ran on it.

    Attributes:
        rollouts_E: of the evaluations.
        ours_SEI, theirs_SEI: the share of right samples, by seed, evaluation and held-out problem.
    """

    rollouts_E: np.ndarray
    ours_SEI: np.ndarray
    theirs_SEI: np.ndarray

    @classmethod
    def of(cls, runs: Runs, method: str) -> Pairs | None:
        """None where no seed has rows of both."""
        ours, theirs = runs.get(method, {}), runs.get(BASELINE, {})
        keys = [(key, key) for key in sorted(set(ours) & set(theirs))]
        paired = {key[0] for key, _ in keys}
        keys += [(a, b) for a in sorted(ours) for b in sorted(theirs) if a[0] == b[0] and a[0] not in paired]
        if not keys:
            return None
        both = (
            np.array([counts(rows[pair[side]]) / samples(rows[pair[side]]) for pair in keys])
            for side, rows in enumerate((ours, theirs))
        )
        return cls(np.array(ours[keys[0][0]]["rollouts"], float), *both)

    @property
    def seeds(self) -> int:
        return len(self.ours_SEI)

    def resampled(self) -> Iterator[Pairs]:
        """The pairs with seeds and held-out problems drawn again, the same ones for both methods."""
        rng = np.random.default_rng(0)
        seeds, _, problems = self.ours_SEI.shape
        for _ in range(RESAMPLES):
            chosen = np.ix_(
                rng.integers(seeds, size=seeds),
                range(len(self.rollouts_E)),
                rng.integers(problems, size=problems),
            )
            yield Pairs(self.rollouts_E, self.ours_SEI[chosen], self.theirs_SEI[chosen])

    def interval(self, statistic: Callable[[Pairs], float]) -> tuple[float, float, float]:
        """The statistic and its 95% interval, widened for few seeds; of one seed over problems alone."""
        values = np.array([statistic(pairs) for pairs in self.resampled()])
        values = values[~np.isnan(values)]
        if not len(values):
            return statistic(self), np.nan, np.nan
        return statistic(self), *bootstrap_interval(values, max(self.seeds, 2), max(self.seeds - 1, 1))


def end(pairs: Pairs) -> float:
    """How much higher the method ends."""
    return float((pairs.ours_SEI - pairs.theirs_SEI)[:, -1].mean())


def mean_gain(pairs: Pairs) -> float:
    """How much higher it is in the mean of all evaluations but the first."""
    return float((pairs.ours_SEI - pairs.theirs_SEI)[:, 1:].mean())


def share(pairs: Pairs) -> float:
    """Its rollouts to uniform sampling's final level, as a share of uniform sampling's."""
    curves = (values.mean(axis=2) for values in (pairs.ours_SEI, pairs.theirs_SEI))
    return float(rollouts_to_level(pairs.rollouts_E, *curves))


def saturation(rollouts_E: np.ndarray, accuracy_E: np.ndarray) -> tuple[float, float]:
    """The ceiling A and the midpoint C_mid, in rollouts, of the sigmoid nearest to a learning curve.

    With R_0, the accuracy before training, R(C) = R_0 + (A - R_0) / (1 + C_mid / C): ScaleRL's curve
    (arXiv 2510.13786, equation 1) with the exponent 1, because five evaluations do not tell it. C_mid is
    looked for among 200 values from 1/50 of the budget to 10 budgets; for each, A has a closed form, and is
    held between R_0 and 1.
    """
    start, x, gained = accuracy_E[0], rollouts_E[1:], accuracy_E[1:] - accuracy_E[0]
    middles_M = np.geomspace(x[-1] / 50, x[-1] * 10, 200)
    rising_ME = 1 / (1 + middles_M[:, None] / x)
    height_M = np.clip((rising_ME @ gained) / (rising_ME**2).sum(axis=1), 0, 1 - start)
    errors_M = ((height_M[:, None] * rising_ME - gained) ** 2).sum(axis=1)
    best = int(errors_M.argmin())
    return float(start + height_M[best]), float(middles_M[best])


def spread(value: float, low: float, high: float, form: str = "{:+.3f}") -> str:
    """A number with its interval."""

    def text(number: float) -> str:
        return "not reached" if np.isinf(number) else form.format(number)

    return text(value) if np.isnan(low) else f"{text(value)} ({text(low)} to {text(high)})"


def signal(row: Row) -> float:
    """The share of groups whose rewards differ."""
    parts = np.array(list(row["groups"].values())).sum(axis=(0, 1))
    return float(parts[1] / parts[0])


def first_quarter(row: Row, kind: str) -> float:
    """A family's groups in the first quarter of a run; the parts of a row are cut where needed."""
    parts = np.array(row["groups"].get(kind, np.zeros((1, 3))))[:, 0]
    quarter = len(row["rollouts"][1:]) / 4
    whole = int(quarter)
    rest = parts[whole] * (quarter - whole) if whole < len(parts) else 0.0
    return float(parts[:whole].sum() + rest)


def starved(runs: Runs, method: str) -> list[str]:
    """The seeds and families that got too few groups, as the page names them."""
    usual = {
        kind: np.mean([first_quarter(row, kind) for row in runs[BASELINE].values()])
        for kind in next(iter(runs[BASELINE].values()))["kinds"]
    }
    return [
        f"{kind} with seed {seed} ({first_quarter(row, kind):.0f} groups, uniform sampling {groups:.0f})"
        for (seed, _), row in runs[method].items()
        for kind, groups in usual.items()
        if first_quarter(row, kind) < STARVED * groups
    ]


def method_table(runs: Runs) -> str:
    """What each method on a pool reaches, and what that costs."""
    lines = [
        "| | runs | held-out pass@1 by evaluation | end less uniform's | mean of evaluations less uniform's "
        "| lowest run | share of rollouts | A | C_mid | signal | core seconds | tokens |",
        f"|---|{'--:|' * 11}",
    ]
    usual = np.mean([np.mean(row["pass@1"][1:]) for row in runs[BASELINE].values()])
    for method, rows in runs.items():
        curve = np.mean([row["pass@1"] for row in rows.values()], axis=0)
        ceiling, middle = saturation(np.array(next(iter(rows.values()))["rollouts"], float), curve)
        pairs = Pairs.of(runs, method)
        gains = ["", "", ""]
        if method != BASELINE and pairs is not None:
            gains = [
                spread(*pairs.interval(end)),
                spread(*pairs.interval(mean_gain)),
                spread(*pairs.interval(share), form="{:.2f}"),
            ]
        lowest = min(np.mean(row["pass@1"][1:]) for row in rows.values()) - usual
        cells = [
            method,
            str(len(rows)),
            " ".join(f"{value:.3f}" for value in curve),
            *gains[:2],
            f"{lowest:+.3f}",
            gains[2],
            f"{ceiling:.2f}",
            f"{middle:,.0f}",
            f"{np.mean([signal(row) for row in rows.values()]):.2f}",
            f"{np.median([row['cpu_seconds'] for row in rows.values()]):.0f}",
            f"{np.mean([row['prompt_tokens'] + row['completion_tokens'] for row in rows.values()]):,.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def of_family(row: Row, kind: str) -> np.ndarray:
    """pass@1 on the held-out problems of a family, (E,)."""
    place = str(list(row["kinds"]).index(kind))
    chosen_I = np.array([text == place for text in row["item_kinds"]])
    return counts(row)[:, chosen_I].mean(axis=1) / samples(row)


def family_table(runs: Runs) -> str:
    """What became of each family with each method."""
    kinds = dict.fromkeys(kind for rows in runs.values() for row in rows.values() for kind in row["groups"])
    learnable = next(iter(runs[BASELINE].values()))["kinds"]
    lines = [f"| | {' | '.join(runs)} |", f"|---|{'---|' * len(runs)}"]
    for kind in sorted(kinds, key=lambda kind: (kind not in learnable, kind)):
        cells = []
        for rows in runs.values():
            parts = [np.sum(row["groups"].get(kind, [[0, 0, 0]]), axis=0) for row in rows.values()]
            groups, differing, right = np.mean(parts, axis=0)
            cells.append(f"{groups:.0f}, {differing:.0f}, {right:.0f}")
            if kind in learnable:
                curve = np.mean([of_family(row, kind) for row in rows.values()], axis=0)
                cells[-1] += f": {curve[0]:.2f} to {curve[-1]:.2f}"
        lines.append(
            f"| {'**' * (kind in learnable)}{kind}{'**' * (kind in learnable)} | {' | '.join(cells)} |"
        )
    return "\n".join(lines)


def by_gain(pools: Mapping[str, Runs], method: str) -> list[tuple[str, Pairs]]:
    """The pools with pairs of a method, the one on which it gains least in the mean of evaluations first."""
    found = [(pool, pairs) for pool, runs in pools.items() if (pairs := Pairs.of(runs, method)) is not None]
    return sorted(found, key=lambda item: mean_gain(item[1]))


def short_table(pools: Mapping[str, Runs], natures: Mapping[str, str], method: str) -> str:
    """A line a pool for the README, the pool on which the method gains least first."""
    found = by_gain(pools, method)
    lines = [
        "| pool | share of uniform sampling's rollouts | gain at the end | mean of evaluations | seeds |",
        "|---|--:|--:|--:|--:|",
    ]
    for pool, pairs in found:
        cells = [
            f"`{pool}` ({natures[pool]})",
            spread(*pairs.interval(share), form="{:.2f}"),
            spread(*pairs.interval(end)),
            spread(*pairs.interval(mean_gain)),
            str(pairs.seeds),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    shares = [np.array(share(pairs)) for pool, pairs in found if natures[pool] != "easy"]
    if len(shares) > 1:
        mean = spread(float(geometric_mean(shares)), np.nan, np.nan, form="{:.2f}")
        lines.append(f"\nThe geometric mean of the shares is {mean}, without easy pools, which have no room.")
    return "\n".join(lines)


def page(chapters: Mapping[str, tuple[Sequence[Row], Mapping[str, str]]], shown: Sequence[str]) -> str:
    """The page.

    Args:
        chapters: by title, rows, and pools with their natures.
        shown: the methods with a short table each in every chapter.
    """
    parts = [
        "Differences are between runs with the same seed, on the same device where both ran on it. "
        "Intervals are a bootstrap's over seeds and held-out problems together, widened for few seeds; of "
        "one seed they say nothing about other seeds. A is the ceiling and C_mid the rollouts to half the "
        "gain of a fitted sigmoid. *Lowest run* is the mean of evaluations of the worst seed, less uniform "
        "sampling's mean."
    ]
    for title, (rows, natures) in chapters.items():
        pools = {pool: runs for pool in natures if BASELINE in (runs := runs_of(rows, pool))}
        for method in shown:
            if any(Pairs.of(runs, method) for runs in pools.values()):
                parts += [f"## {title}: {method}", short_table(pools, natures, method)]
        for pool, runs in pools.items():
            parts += [f"### {pool}: {natures[pool]}", method_table(runs)]
            guess = next(iter(runs[BASELINE].values()))["guess"]
            parts.append(
                f"Who always gives the most frequent answer is right in {guess:.3f}. By family: groups, "
                "groups with a signal, and groups that were all right, the mean of a run; of the learnable "
                "families, in bold, held-out pass@1 before training and at the end."
            )
            parts.append(family_table(runs))
            if too_few := [f"{method}: {case}" for method in runs for case in starved(runs, method)]:
                parts.append(
                    "Learnable families with less than half of uniform sampling's groups in the first "
                    f"quarter: {'; '.join(too_few)}."
                )
    return "\n\n".join(parts)


def draw(
    rows: Sequence[Row], natures: Mapping[str, str], shown: str, colours: Mapping[str, str], picture: Path
) -> None:
    """Held-out pass@1 against rollouts, a panel for each pool, the one with the least gain first.

    Seeds are thin, their mean is thick. Other methods' runs are those with a pair of `shown`.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    pools = {pool: runs for pool in natures if BASELINE in (runs := runs_of(rows, pool))}
    if not (order := [pool for pool, _ in by_gain(pools, shown)]):
        return
    with plt.rc_context(STYLE):
        columns = min(4, len(order))
        figure, panels = plt.subplots(
            -(-len(order) // columns),
            columns,
            figsize=(3.7 * columns, 3.1 * -(-len(order) // columns)),
            layout="constrained",
            squeeze=False,
        )
        for axes in panels.flat[len(order) :]:
            axes.set_axis_off()
        for axes, pool in zip(panels.flat, order, strict=False):
            runs = pools[pool]
            for method, colour in colours.items():
                seeds = {seed for seed, _ in runs[shown]}
                if not (done := [row for key, row in runs.get(method, {}).items() if key[0] in seeds]):
                    continue
                rollouts, curves = done[0]["rollouts"], np.array([row["pass@1"] for row in done])
                axes.plot(rollouts, curves.T, color=colour, lw=0.8, alpha=0.3)
                axes.plot(rollouts, curves.mean(axis=0), "o-", color=colour, label=f"{method} ({len(done)})")
            axes.set_title(f"{pool}: {natures[pool]}", fontsize=10)
            axes.set(xlim=(0, None))
            axes.legend(frameon=False, fontsize=8)
        for axes in panels[-1]:
            axes.set_xlabel("rollouts")
        panels[0, 0].set_ylabel("held-out pass@1")
        figure.savefig(picture, metadata={"Date": None})
