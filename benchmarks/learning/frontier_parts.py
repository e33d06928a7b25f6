"""What each part of `frontier` is worth: it is trained without them, one at a time and all together.

    python -m benchmarks.learning.frontier_parts             # trains what has no row yet; an hour of a core
    python -m benchmarks.learning.frontier_parts --seeds 0   # the simulation alone; five minutes
    python -m benchmarks.learning.frontier_parts --report    # trains nothing, writes the page
    python -m benchmarks.learning.frontier_parts --pretrained runs/pretrained  # a pretrained model; hours

Every variant is trained on the five hard pools of `benchmarks.bench`, with the same seeds and at the task's
own settings, and on five pools of the policy of simulated_policy.py, which takes less than a second a run and
so has more seeds. A row is added to benchmarks/results/frontier_parts.jsonl as a run ends, seed by seed. What
was measured before two parts were taken out is in frontier_parts_before.jsonl. The pretrained model, whose
folder `make pretrained` makes, is trained without all parts at once; the rows of `frontier` and of uniform
sampling are those of pretrained_mixed.jsonl.

Gives up: the pools' models are small, their runs 100 to 200 steps of 4 prompts, so that a fit after every 4
groups is a fit a step. What takes the place of a learned number was read off runs with seed 0. In the
simulation texts tell nearly all there is to tell.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import typer
from benchmarks.bench.tasks import TASKS
from benchmarks.common import RESULTS, mean_with_interval, write_page
from benchmarks.learning import credits, pretrained_mixed
from benchmarks.learning.simulated_policy import Settings, World
from benchmarks.papers.variants import Results, Row, Variant

from curro import Curriculum
from curro.core.errors import ConfigError
from curro.methods.prediction.features import BYTES, LENGTHS, WORDS, TextFeatures
from curro.methods.prediction.frontier import PRIOR_ROLLOUTS, FeaturePosterior, Frontier
from curro.methods.selection.predicted import Predicted
from curro.runs.json_lines import append_rows, read_rows
from curro.runs.report.compare import METRIC

HALF_LIFE, SELDOM = 8.0, 32
"""In place of the learned half-life, and of a fit after every 4 groups."""
PARTS = {
    "half-life": f"the learned half-life: {HALF_LIFE:g} steps",
    "kinds": "a prior variance for each kind of feature: one for all",
    "ranks": "weights that fall with a group's rank: all groups count alike",
    "correlation": "correlated trials: a group of G counts as G trials",
    "refit": f"a fit after every 4 groups: after every {SELDOM}",
    "calibration": "the calibration",
    "bytes": "bytes",
}
"""Each part, and what stands in its place."""
WHOLE, REDUCED = "`frontier`", "without all of these: lengths and words"
OURS = "benchmarks.learning.frontier_parts:without"
VARIANTS = {
    WHOLE: Variant("frontier"),
    REDUCED: Variant(f"{OURS}:parts={'+'.join(PARTS)}", name="without all"),
    **{
        f"without {words}": Variant(f"{OURS}:parts={part}", name=f"without {part}")
        for part, words in PARTS.items()
    },
    "with `rest=true`": Variant("frontier:rest=true"),
    "uniform sampling": Variant("uniform"),
}
TAKEN_OUT = {
    "the learned strength S: 4 rollouts": "without strength",
    "pairs of bytes": "without pairs",
}
"""Parts that `frontier` had until November 2026, by the variant that had all others."""
BEFORE = {
    WHOLE: "frontier",
    REDUCED: "without all",
    **{f"without {words}": key for words, key in TAKEN_OUT.items()},
    "without these two: `frontier` now": "now",
    **{f"without {words}": f"without {part}" for part, words in PARTS.items()},
    "with `rest=true`": "frontier:rest=true",
    "uniform sampling": "uniform",
}
POOLS = [name for name in TASKS if name.endswith("/hard")]
SIMULATED = {f"simulated, {name}": settings for name, settings in credits.POOLS.items()}
PRETRAINED = {"sums_75": 4, "sums_90": 4, "arithmetic_75": 4, "sums_50": 0, "sums_0": 0}
"""The pools of the pretrained model, and of each the first of five seeds: where sizes and rates were tried on
the first two, later ones."""
RATE = {"learning_rate": 3e-6}
PRETRAINED_VARIANTS = {
    WHOLE: Variant("frontier", RATE),
    REDUCED: Variant(f"{OURS}:parts={'+'.join(PARTS)}", RATE, name="without all"),
    "uniform sampling": Variant("uniform", RATE),
}
STEPS, STEP_SIZE = 60, 0.06
"""Of the simulation, with 8 prompts a step."""
COMMAND = "python -m benchmarks.learning.frontier_parts --report"


def without(*, parts: str) -> Predicted:
    """`frontier` without these of `PARTS`, joined by +.

    Raises:
        ConfigError: a part that there is not.
    """
    unknown = set(parts.split("+")) - PARTS.keys()
    if unknown:
        raise ConfigError(
            f"there is no part {', '.join(map(repr, sorted(unknown)))}; there are: {', '.join(PARTS)}"
        )
    return Predicted(predictor={"name": f"{__name__}:Reduced", "parts": parts}, candidates=8)


class Reduced(Frontier):
    """The predictor `Frontier` without some of its parts."""

    def __init__(self, *, parts: str) -> None:
        super().__init__()
        self.posterior = ReducedPosterior(frozenset(parts.split("+")))


class ReducedPosterior(FeaturePosterior):
    """`FeaturePosterior` without some of its parts."""

    def __init__(self, parts: frozenset[str]) -> None:
        super().__init__(HALF_LIFE if "half-life" in parts else None, ReducedTexts(parts))
        self.parts = parts

    def _calibrate(self, believed: np.ndarray, size: np.ndarray, variance: np.ndarray) -> None:
        if "calibration" not in self.parts:
            super()._calibrate(believed, size, variance)

    def _fit(self) -> None:
        if "refit" not in self.parts or self.regression is None or self.new >= SELDOM:
            super()._fit()

    def _trials(self, size_K: np.ndarray) -> np.ndarray:
        is_independent = "correlation" in self.parts
        trials_K = size_K if is_independent else size_K / (1 + (size_K - 1) / (PRIOR_ROLLOUTS + 1))
        return trials_K if "ranks" in self.parts else trials_K * super()._trials(np.ones(len(size_K)))


class ReducedTexts(TextFeatures):
    """`TextFeatures` without some of their kinds, or with one prior variance for all of them."""

    def __init__(self, parts: frozenset[str]) -> None:
        self.parts = parts
        kinds = ("bytes", "words", "lengths")
        self.kept_D = np.repeat([kind not in parts for kind in kinds], [BYTES, WORDS, LENGTHS])

    def blocks(self, width: int) -> Sequence[int]:
        return (width,) if "kinds" in self.parts else super().blocks(width)

    def of(self, prompts: np.ndarray) -> np.ndarray:
        return super().of(prompts) * self.kept_D


def simulate(path: Path, seeds: int) -> None:
    """Add the rows of the simulated runs that have none."""
    done = {(row["variant"], row["pool"], row["seed"]) for row in read_rows(path)}
    for seed in range(seeds):
        for pool, settings in SIMULATED.items():
            for variant in VARIANTS.values():
                if (variant.key, pool, seed) in done:
                    continue
                world = World(seed, Settings(**{**vars(settings), "steps": STEPS, "adam": STEP_SIZE}))
                curriculum, signal = Curriculum(variant.curriculum, world.prompts, seed=seed), []
                for step in range(STEPS):
                    draw = curriculum.select(settings.batch, step=step)
                    rewards = world.practise(draw.prompts)
                    curriculum.observe(draw.tickets, rewards)
                    signal.append(float((np.ptp(rewards, axis=1) > 0).mean()))
                level = [[STEPS], [round(world.level(), 5)]]
                series = {METRIC: level, "signal_share": [[STEPS], [round(np.mean(signal), 5)]]}
                append_rows(path, [{"variant": variant.key, "seed": seed, "pool": pool, "series": series}])


def train_lab(path: Path, seeds: int) -> None:
    """Add the rows of the lab's runs that have none."""
    for seed in range(seeds):
        for pool in POOLS:
            task = asdict(TASKS[pool].settings())
            common = {name: value for name, value in task.items() if name != "curriculum"}
            common |= {"eval_every": 10**6, "eval_prompts": 250}
            rows = Results(path, Path("runs/frontier-parts"), pool=pool)
            rows.run(VARIANTS.values(), 1, common, series=("signal_share",), first_seed=seed)


def train_pretrained(path: Path, folder: Path, seeds: int, pools: Sequence[str]) -> None:
    """Add the rows of the pretrained model's runs that have none; `folder` has the model and the pools."""
    precision = pretrained_mixed.fast_precision()
    for seed in range(seeds):
        for pool in pools:
            rows = Results(path, Path(f"runs/frontier-parts-{pool}"), pool=pool)
            rows.run(
                [PRETRAINED_VARIANTS[REDUCED]],
                1,
                pretrained_mixed.common(folder, pool, precision),
                series=("signal_share",),
                first_seed=PRETRAINED[pool] + seed,
                more=lambda prepared, folder: {"precision": precision},
            )


def accuracy(row: Row) -> float:
    """The held-out pass@1 of a run at its end."""
    return row["series"][METRIC][1][-1]


def signal(row: Row) -> float:
    """The share of a run's groups with a signal."""
    return float(np.mean(row["series"]["signal_share"][1]))


def mean_accuracy(row: Row) -> float:
    """The mean of a run's evaluations after the first, which is before training."""
    return float(np.mean(row["series"][METRIC][1][1:]))


MEASURES: Mapping[str, Callable[[Row], float]] = {"pass@1": accuracy, "signal": signal}


def table(
    rows: Sequence[Row],
    pools: Mapping[str, str],
    keys: Mapping[str, str],
    measures: Mapping[str, Callable[[Row], float]] = MEASURES,
) -> str:
    """What each variant has more or less than `frontier`, over pools and in each; `pools` have titles, and
    `keys` are those of the rows by label."""
    found = {
        (row["variant"], row["pool"], row["seed"]): [measure(row) for measure in measures.values()]
        for row in rows
        if row["pool"] in pools and row["variant"] in keys.values()
    }
    lines = [
        f"| | seeds | {' | '.join([*measures, *pools.values()])} |",
        f"|---|--:|{'--:|' * (len(measures) + len(pools))}",
    ]
    for label, key in keys.items():
        runs = [
            (pool, seed) for one, pool, seed in found if one == key and (keys[WHOLE], pool, seed) in found
        ]
        if {pool for pool, _ in runs} != pools.keys():
            continue
        ours, theirs = (
            [np.array([found[one, pool, seed] for name, seed in runs if name == pool]) for pool in pools]
            for one in (key, keys[WHOLE])
        )
        if label == WHOLE:
            cells = [f"{mean:.3f}" for mean in np.mean([one_SM.mean(axis=0) for one_SM in ours], axis=0)]
            cells += [", ".join(f"{mean:.3f}" for mean in one_SM.mean(axis=0)) for one_SM in ours]
        else:
            more = [ours_SM - theirs_SM for ours_SM, theirs_SM in zip(ours, theirs, strict=True)]
            cells = [mean_with_interval([one_SM[:, m] for one_SM in more]) for m in range(len(measures))]
            cells += [", ".join(f"{mean:+.3f}" for mean in one_SM.mean(axis=0)) for one_SM in more]
        seeds = sorted({len(one_SM) for one_SM in ours})
        lines.append(f"| {label} | {' to '.join(map(str, seeds))} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(
    seeds: Annotated[int, typer.Option(help="How many seeds of each pool but the simulated ones.")] = 5,
    simulated: Annotated[int, typer.Option(help="How many seeds of the simulated ones.")] = 20,
    pretrained: Annotated[
        Path | None, typer.Option(help="Train the pretrained model of this folder, and nothing else.")
    ] = None,
    pool: Annotated[
        list[str] | None,
        typer.Option(
            help="A pool of its; several times for several. [default: all]",
            callback=pretrained_mixed.only_of(PRETRAINED),
        ),
    ] = None,
    only_report: Annotated[bool, typer.Option("--report", help="Train nothing.")] = False,
) -> None:
    path = RESULTS / "frontier_parts.jsonl"
    if pretrained and not only_report:
        train_pretrained(path, pretrained, seeds, pool or list(PRETRAINED))
    elif not only_report:
        simulate(path, simulated)
        train_lab(path, seeds)
    titles = {
        "on the lab's hard pools": {pool: pool.removesuffix("/hard") for pool in POOLS},
        f"on simulated pools, {STEPS} steps": {pool: pool.removeprefix("simulated, ") for pool in SIMULATED},
    }
    now = {label: variant.key for label, variant in VARIANTS.items()}
    rows = list(read_rows(path))
    of_now = [row | {"variant": "now"} for row in rows if row["variant"] == now[WHOLE]]
    before = [*read_rows(path.with_stem(f"{path.stem}_before")), *of_now]
    chapters = [
        f"## {when}, {title}\n\n{table(of_then, pools, keys)}"
        for when, of_then, keys in (("Now", rows, now), ("Before two parts were taken out", before, BEFORE))
        for title, pools in titles.items()
        if pools.keys() <= {row["pool"] for row in of_then}
    ]
    reduced = {row["pool"] for row in rows} & PRETRAINED.keys()
    if reduced:
        of_pretrained = [*rows, *read_rows(RESULTS / "pretrained_mixed.jsonl")]
        keys = {label: variant.key for label, variant in PRETRAINED_VARIANTS.items()}
        pools = {pool: pool for pool in PRETRAINED if pool in reduced}
        measures = MEASURES | {"pass@1, mean of all evaluations": mean_accuracy}
        chapters.append(f"## Now, on a pretrained model\n\n{table(of_pretrained, pools, keys, measures)}")
    write_page(
        "frontier_parts",
        "What each part of frontier is worth",
        COMMAND,
        "Final held-out pass@1 and the share of groups with a signal: of `frontier`, and how much more or "
        "less of both a variant has, with the same seeds. The first columns of numbers are means over the "
        "pools with 95% intervals, those of pools means over the seeds of one pool.\n\n"
        + "\n\n".join(chapters),
    )


if __name__ == "__main__":
    typer.run(main)
