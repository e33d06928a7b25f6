"""Methods on a pretrained model where most problems are hopeless: who finds those that can be learnt?

    make pretrained                                          # the model and the pools, in runs/pretrained
    python -m benchmarks.learning.pretrained_mixed           # trains what has no row yet
    python -m benchmarks.learning.pretrained_mixed --report  # trains nothing, writes the page

SmolLM2-135M-Instruct on the pools `sums_0`, `sums_50`, `sums_75` and `sums_90`: 250 sums of two or three
numbers of one or two digits alone, or among 250, 750 or 2,250 that no training would teach it; on
`arithmetic_75`, 250 terms of numbers of one digit with `+`, `-` and `*` among 750 hopeless ones; and on
`many_sums_75`, which has four times as many problems of both kinds as `sums_75`. Steps of 8 prompts with 4
rollouts, 3,840 rollouts a run, held-out accuracy on 100 problems of the first kind with 4 samples each (its
standard error is about .02). A row is added to benchmarks/results/pretrained_mixed.jsonl as a run ends, seed
by seed, so that all methods have equally many wherever it is stopped; `--pool` and `--method` choose some of
them. With `--results FILE.jsonl` the rows, the page and the picture are your own. It gives up a search: of
two learning rates each method has both.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import typer
from benchmarks.bench.statistics import bootstrap, geometric_mean, rollouts_to_level
from benchmarks.common import PICTURES, RESULTS, write_page
from benchmarks.learning.pictures import DRAWN, STYLE
from benchmarks.papers.variants import Results, Row, Tables, Variant, mean_interval, report
from scipy.stats import ttest_1samp

from curro.core.errors import ConfigError
from curro.rollout.engines.models import multiplies_bfloat16
from curro.runs.report.compare import METRIC
from curro.training.declared import flags_of

POOLS = {
    "sums_75": "three problems in four",
    "sums_90": "nine problems in ten",
    "sums_50": "half of the problems",
    "sums_0": "none of the problems",
    "arithmetic_75": "three problems in four",
    "many_sums_75": "three problems in four",
}
"""How many problems of each pool are hopeless."""
HOPELESS = ("sums_75", "sums_90", "arithmetic_75")
"""The pools by which methods are judged, where most problems are hopeless, all of one size."""
COMMAND = "python -m benchmarks.learning.pretrained_mixed --report"
HALF = {"prompts_per_step": 4, "eval_every": 40}
"""Steps of half the size, evaluated after equally many rollouts."""
WIDE = {"prompts_per_step": 16, "eval_every": 10}
"""Steps of twice the size."""
LARGE_GROUPS = {"prompts_per_step": 4, "rollouts_per_prompt": 8}
"""Steps of the same size in fewer, larger groups."""
PUBLISHED = "prioritized-replay:variant=published"
REFILL = {"admission": "signal", "eval_every": 1}
"""Groups without signal are replaced, until ten times as many were rolled out as a step has."""
ESTIMATE = "ESTIMATE"
"""Stands for the folder of the pool's pass rates, of 16 rollouts a prompt: POOL.estimate beside its data."""
TABLES: Tables = {
    "Two learning rates": {
        "uniform": Variant("uniform", {"learning_rate": 3e-6}),
        "frontier": Variant("frontier", {"learning_rate": 1e-5}),
        "uniform, 1e-5": Variant("uniform", {"learning_rate": 1e-5}),
        "frontier, 3e-6": Variant("frontier", {"learning_rate": 3e-6}),
        "prioritized replay": Variant("prioritized-replay", {"learning_rate": 3e-6}),
        "prioritized replay, 1e-5": Variant("prioritized-replay", {"learning_rate": 1e-5}),
        "published replay": Variant(PUBLISHED, {"learning_rate": 3e-6}),
        "published replay, 1e-5": Variant(PUBLISHED, {"learning_rate": 1e-5}),
        "PSPO": Variant("pspo", {"learning_rate": 3e-6}),
        "PSPO, 1e-5": Variant("pspo", {"learning_rate": 1e-5}),
        "PSPO, 1e-5, without weights": Variant("pspo:beta=0", {"learning_rate": 1e-5}),
        "posterior": Variant("posterior", {"learning_rate": 3e-6}),
        "posterior, 1e-5": Variant("posterior", {"learning_rate": 1e-5}),
        "refill": Variant("uniform", {"learning_rate": 3e-6, **REFILL}),
        "refill, 1e-5": Variant("uniform", {"learning_rate": 1e-5, **REFILL}),
        "refill, 3e-5": Variant("uniform", {"learning_rate": 3e-5, **REFILL}),
    },
    "What else `frontier` may know of a prompt": {
        "frontier, 3e-6": Variant("frontier", {"learning_rate": 3e-6}),
        "texts and entropies, 3e-6": Variant("frontier:features=text+entropy", {"learning_rate": 3e-6}),
        "measured pass rates": Variant(
            "frontier", {"learning_rate": 3e-6, "known": ESTIMATE}, "frontier, 3e-6, known pass rates"
        ),
    },
    "Steps of other sizes": {
        "uniform": Variant("uniform", {"learning_rate": 3e-6}),
        "frontier, 3e-6": Variant("frontier", {"learning_rate": 3e-6}),
        "uniform, groups of 8": Variant("uniform", {"learning_rate": 3e-6, **LARGE_GROUPS}),
        "frontier, groups of 8": Variant("frontier", {"learning_rate": 3e-6, **LARGE_GROUPS}),
        "prioritized replay, groups of 8": Variant(
            "prioritized-replay", {"learning_rate": 3e-6, **LARGE_GROUPS}
        ),
        "published replay, groups of 8": Variant(PUBLISHED, {"learning_rate": 3e-6, **LARGE_GROUPS}),
        "PSPO, groups of 8": Variant("pspo", {"learning_rate": 3e-6, **LARGE_GROUPS}),
        "posterior, groups of 8": Variant("posterior", {"learning_rate": 3e-6, **LARGE_GROUPS}),
        "uniform, 16 prompts": Variant("uniform", {"learning_rate": 3e-6, **WIDE}),
        "frontier, 16 prompts": Variant("frontier", {"learning_rate": 3e-6, **WIDE}),
        "prioritized replay, 16 prompts": Variant("prioritized-replay", {"learning_rate": 3e-6, **WIDE}),
        "published replay, 16 prompts": Variant(PUBLISHED, {"learning_rate": 3e-6, **WIDE}),
        "PSPO, 16 prompts": Variant("pspo", {"learning_rate": 3e-6, **WIDE}),
        "posterior, 16 prompts": Variant("posterior", {"learning_rate": 3e-6, **WIDE}),
        "uniform, 4 prompts": Variant("uniform", {"learning_rate": 3e-6, **HALF}),
        "frontier, 4 prompts": Variant("frontier", {"learning_rate": 1e-5, **HALF}),
    },
    "Evaluated with 8 samples": {
        "uniform, 8 samples": Variant("uniform", {"learning_rate": 3e-6, "eval_samples": 8}),
        "frontier, 8 samples": Variant("frontier", {"learning_rate": 3e-6, "eval_samples": 8}),
    },
    "Steps without signal skipped": {
        "uniform, 1e-5": Variant("uniform", {"learning_rate": 1e-5}),
        "uniform, 1e-5, skipping": Variant("uniform", {"learning_rate": 1e-5, "skip_empty_steps": True}),
    },
    "What might turn the signal of `frontier` into more accuracy": {
        "frontier": Variant("frontier", {"learning_rate": 1e-5}),
        "steps without signal skipped": Variant(
            "frontier", {"learning_rate": 1e-5, "skip_empty_steps": True}
        ),
        "more candidates": Variant("frontier:candidates=32", {"learning_rate": 1e-5}),
        "texts and entropies": Variant("frontier:features=text+entropy", {"learning_rate": 1e-5}),
    },
}
VARIANTS = {label: variant for table in TABLES.values() for label, variant in table.items()}
BASELINE = "uniform"
OURS = {"frontier": "frontier, 1e-5", "frontier, 3e-6": "frontier, 3e-6"}
"""What is compared with uniform sampling at 3e-6, `frontier` at both rates, by what the picture calls it."""
TRIED = 2
"""The first seeds, on which sizes and rates were tried: what the others say has no choice in it."""
COLOURS = {
    "uniform, 3e-6": DRAWN["uniform"],
    "frontier, 1e-5": "#e69f00",
    "frontier, 3e-6": DRAWN["frontier"],
}
SERIES = ("eval/pass@4", "eval/pass@8", "signal_share")


def fast_precision() -> str:
    """bfloat16 where the processor multiplies in it, else float32."""
    return "bfloat16" if multiplies_bfloat16() else "float32"


def common(folder: Path, pool: str, precision: str) -> dict[str, Any]:
    """The settings that all runs on a pool share.

    Raises:
        ConfigError: the folder lacks the model.
    """
    if not (folder / "model").is_dir():
        raise ConfigError(f"{folder} has no model: run make pretrained, or name its folder")
    return {
        "data": str(folder / f"{pool}.jsonl"),
        "eval_data": str(folder / f"{pool}.held-out.jsonl"),
        "model": str(folder / "model"),
        "reward": "math",
        "precision": precision,
        "max_completion_length": 6,
        "prompts_per_step": 8,
        "rollouts_per_prompt": 4,
        "rollouts": 3_840,
        "eval_every": 20,
        "eval_prompts": 100,
        "save_every": 1_000,
    }


def former(variant: Variant) -> Variant:
    """The variant with `frontier` as it was when the committed rows were made, under their name."""
    method, between, options = variant.curriculum.partition(":")
    if method != "frontier":
        return variant
    curriculum = f"frontier:exploration=0,prior_rollouts=4{',' * bool(between)}{options}"
    return replace(variant, curriculum=curriculum, name=variant.key)


def variants(labels: Sequence[str], shared: Mapping[str, Any]) -> list[Variant]:
    """The variants of these labels; pass rates that one of them is to know are measured here, once a pool."""
    estimate = str(Path(shared["data"]).with_suffix(".estimate"))
    chosen = [former(VARIANTS[label]) for label in labels]
    knowing = [variant for variant in chosen if variant.settings.get("known") == ESTIMATE]
    if knowing:
        names = ("model", "reward", "precision", "max_completion_length")
        options = flags_of({name: shared[name] for name in names} | {"out": estimate})
        subprocess.run([sys.executable, "-m", "curro", "estimate", shared["data"], *options], check=True)
    return [
        replace(variant, settings={**variant.settings, "known": estimate}) if variant in knowing else variant
        for variant in chosen
    ]


def curves(rows: Results) -> str:
    """The held-out accuracy of each method as training goes on, and what the runs found and cost."""
    runs = {label: done for label, variant in VARIANTS.items() if (done := rows.of(variant))}
    rollouts_E = evaluated_after(rows.of(VARIANTS[BASELINE])[0])
    after = " | ".join(f"{rollouts:,.0f}" for rollouts in rollouts_E)
    lines = [
        f"| | seeds | {after} | pass@k before and after | groups with signal | minutes of a core |",
        f"|---|--:|{'--:|' * len(rollouts_E)}--:|--:|--:|",
    ]
    for label, done in runs.items():
        accuracies = np.array(
            [np.interp(rollouts_E, evaluated_after(row), row["series"][METRIC][1]) for row in done]
        )
        cells = [_range(column) for column in accuracies.T]
        samples = VARIANTS[label].settings.get("eval_samples", 4)
        pass_k = np.mean(
            [np.array(row["series"][f"eval/pass@{samples}"][1])[[0, -1]] for row in done], axis=0
        )
        signal = np.mean([_signal(row) for row in done])
        minutes = np.median([row["cpu_seconds"] for row in done]) / 60
        cells += [f"{pass_k[0]:.3f}, {pass_k[1]:.3f}", f"{signal:.3f}", f"{minutes:.0f}"]
        lines.append(f"| {label} | {len(done)} | {' | '.join(cells)} |")
    title = (
        "Held-out pass@1 after so many rollouts: the mean, the lowest and the highest seed. pass@k is of all "
        "samples: 4, where the row does not say 8."
    )
    return "\n\n".join([title, "\n".join(lines)])


def _signal(row: Row) -> float:
    """The share of all groups with a signal; steps with `REFILL` have different numbers of groups."""
    shares_T, rollouts_S = row["series"]["signal_share"][1], row["series"]["rollouts"][1]
    return float(np.average(shares_T, weights=np.diff(rollouts_S)))


def _range(values: np.ndarray) -> str:
    mean = f"{values.mean():.3f}"
    return mean if len(values) == 1 else f"{mean} ({values.min():.3f} to {values.max():.3f})"


def evaluated_after(row: Row) -> np.ndarray:
    """After how many rollouts a run was evaluated: (E,), the same for all runs but those with `REFILL`."""
    return np.interp(row["series"][METRIC][0], *row["series"]["rollouts"])


def of_both(rows: Results, label: str, *, first: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of the seeds from `first` on that both uniform sampling and another method have: the rollouts (E,) of
    the evaluations, and pass@1 (S, E) of the two."""
    by_seed = [
        {row["seed"]: row for row in rows.of(VARIANTS[name]) if row["seed"] >= first}
        for name in (BASELINE, label)
    ]
    seeds = sorted(set(by_seed[0]) & set(by_seed[1]))
    theirs, ours = (np.array([of_seed[seed]["series"][METRIC][1] for seed in seeds]) for of_seed in by_seed)
    return evaluated_after(by_seed[0][seeds[0]]) if seeds else np.empty(0), theirs, ours


def difference(rows: Results, label: str) -> str:
    """A method's gain over uniform sampling with the same seeds; nothing with fewer than two."""
    rollouts, theirs, ours = of_both(rows, label)
    if len(ours) < 2:
        return ""
    lines = [
        f"*{label}* with {len(ours)} seeds, against the same seeds of uniform sampling (Student's intervals "
        "and t tests of the paired differences; the share's interval is a bootstrap's over the seeds):",
        "",
        *gains(rollouts, theirs, ours),
    ]
    others = of_both(rows, label, first=TRIED)
    if len(others[2]) > 1:
        lines += [
            "",
            f"Without seeds 0 to {TRIED - 1}, on which sizes and rates were tried:",
            "",
            *gains(*others),
        ]
    return "\n".join(lines)


def gains(rollouts: np.ndarray, theirs: np.ndarray, ours: np.ndarray) -> list[str]:
    """What a method gains over uniform sampling in pass@1, a line for each way to look at it."""
    best = theirs[:, theirs.mean(axis=0).argmax()]
    gained = {
        "at the end, against uniform sampling's end": ours[:, -1] - theirs[:, -1],
        "at the end, against uniform sampling's best": ours[:, -1] - best,
        "the mean of all evaluations after the first": (ours - theirs)[:, 1:].mean(axis=1),
    }
    return [
        *(
            f"* {name}: {mean_interval(gain)}, p = {ttest_1samp(gain, 0).pvalue:.3f};"
            for name, gain in gained.items()
        ),
        f"* rollouts to uniform sampling's final level (of the mean curves, made non-decreasing), as a share "
        f"of uniform sampling's: {share([(rollouts, theirs, ours)])}.",
    ]


def share(pools: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> str:
    """`frontier`'s rollouts to uniform sampling's level as a share of its own, their geometric mean."""

    def mean(*ours_theirs: Sequence[np.ndarray]) -> np.ndarray:
        pairs = zip(*ours_theirs, strict=True)
        return geometric_mean([rollouts_to_level(pools[0][0], ours, theirs) for ours, theirs in pairs])

    found = bootstrap(mean, [ours for *_, ours in pools], [theirs for _, theirs, _ in pools])
    return f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f})"


def page(results: dict[str, Results]) -> str:
    """A chapter of each pool with runs of uniform sampling, after what `HOPELESS` say together."""
    done = {pool: rows for pool, rows in results.items() if rows.of(VARIANTS[BASELINE])}
    parts = []
    for label in OURS:
        shares = {}
        for first in (0, TRIED):
            both = {pool: of_both(done[pool], label, first=first) for pool in HOPELESS if pool in done}
            both = {pool: curves for pool, curves in both.items() if len(curves[2]) > 1}
            if both:
                shares[first] = f"{share(list(both.values()))} over {', '.join(both)}"
        if shares:
            without = f", and without seeds 0 to {TRIED - 1}: {shares[TRIED]}" if TRIED in shares else ""
            parts.append(
                f"Rollouts of *{label}* to uniform sampling's final level, the geometric mean over pools, as "
                f"a share of uniform sampling's: {shares[0]}{without}."
            )
    for pool, rows in done.items():
        tables = f"\n{report(TABLES, rows)}".replace("\n## ", "\n### ")
        gained = [difference(rows, label) for label in OURS]
        parts += [f"## {pool}: {POOLS[pool]} hopeless", curves(rows), *gained, tables]
    return "\n\n".join(part.strip() for part in parts if part)


def draw(results: dict[str, Results], picture: Path) -> None:
    """Held-out accuracy against rollouts: each seed thin, the mean thick; a panel for each of
    `HOPELESS` with two seeds or more."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    named = {BASELINE: "uniform, 3e-6", **OURS}
    drawn = [pool for pool in HOPELESS if len(of_both(results[pool], "frontier, 3e-6")[2]) > 1]
    if not drawn:
        return
    with plt.rc_context(STYLE):
        figure, panels = plt.subplots(
            1, len(drawn), figsize=(3.7 * len(drawn), 3.5), layout="constrained", squeeze=False
        )
        for axes, pool in zip(panels[0], drawn, strict=True):
            for label, name in named.items():
                if not (done := results[pool].of(VARIANTS[label])):
                    continue
                curves_SE = np.array([row["series"][METRIC][1] for row in done])
                rollouts_E = evaluated_after(done[0])
                axes.plot(rollouts_E, curves_SE.T, color=COLOURS[name], lw=0.8, alpha=0.3)
                axes.plot(
                    rollouts_E,
                    curves_SE.mean(axis=0),
                    "o-",
                    color=COLOURS[name],
                    label=f"{name} ({len(done)} seeds)",
                )
            axes.set(xlabel="rollouts", xlim=(0, None))
            axes.set_title(f"{pool.partition('_')[0]}: {POOLS[pool]} hopeless", fontsize=10)
            axes.legend(frameon=False, loc="upper left", fontsize=9)
        panels[0, 0].set_ylabel("held-out pass@1 of SmolLM2-135M")
        figure.savefig(picture, metadata={"Date": None})


def only_of(names: Collection[str]) -> Callable[[list[str] | None], list[str] | None]:
    """A check of an option whose values are some of these names."""

    def check(chosen: list[str] | None) -> list[str] | None:
        for name in chosen or ():
            if name not in names:
                raise typer.BadParameter(f"there is no {name!r}; there are: {'; '.join(names)}")
        return chosen

    return check


def main(
    folder: Annotated[Path, typer.Option(help="What recipes/pretrained/prepare.py has written.")] = Path(
        "runs/pretrained"
    ),
    results: Annotated[
        Path, typer.Option(help="The file of rows. Beside one of your own are its page and its picture.")
    ] = RESULTS / "pretrained_mixed.jsonl",
    runs: Annotated[Path, typer.Option(help="Where the run in progress is.")] = Path("runs/pretrained-mixed"),
    seeds: Annotated[int, typer.Option(help="How many seeds.")] = 5,
    pool: Annotated[
        list[str] | None,
        typer.Option(
            help="A pool to train on; several times for several. [default: all]", callback=only_of(POOLS)
        ),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(help="A row of the page's tables. [default: all]", callback=only_of(VARIANTS)),
    ] = None,
    only_report: Annotated[bool, typer.Option("--report", help="Train nothing.")] = False,
    precision: Annotated[
        str | None,
        typer.Option(
            help="Of the products. [default: bfloat16 where the processor multiplies in it, else float32]"
        ),
    ] = None,
) -> None:
    precision = precision or fast_precision()
    pools = {name: Results(results, runs, pool=name) for name in POOLS}
    for seed in range(0 if only_report else seeds):
        for name in pool or POOLS:
            shared = common(folder, name, precision)
            pools[name].run(
                variants(method or list(VARIANTS), shared),
                1,
                shared,
                series=SERIES,
                first_seed=seed,
                more=lambda prepared, folder: {
                    "precision": precision,
                    **{name: round(folder.metrics()[-1][name], 1) for name in ("seconds", "cpu_seconds")},
                },
            )
    ours = results.parent.resolve() == RESULTS
    title = "A pretrained model among hopeless problems"
    command = COMMAND if ours else f"{COMMAND} --results {results}"
    write_page(results.stem, title, command, page(pools), results.parent)
    draw(pools, PICTURES / "result-pretrained.svg" if ours else results.with_suffix(".svg"))


if __name__ == "__main__":
    typer.run(main)
