"""Is the estimate of what uniform sampling would find right? Uniform sampling is trained beside it.

    python -m benchmarks.learning.uniform_estimate            # trains what has no row yet
    python -m benchmarks.learning.uniform_estimate --report   # trains nothing, writes the page

A curriculum estimates, from those of its groups whose chance of being drawn it knows, which share of groups
would have a signal under uniform sampling (`signal/uniform_share`, with a 95% interval). Here every hard pool
of `benchmarks.bench` is trained on by methods with an estimate, one seed each, and the estimate is compared
with two shares:

* that of the same policy: before each of its steps, as many prompts as the step takes are drawn uniformly and
  rolled out beside it, and nothing is trained on them. This is what is estimated.
* that of a run of uniform sampling, whose policy has learnt from other prompts. This is what a user would
  compare with, and it also shows how far the two policies have come apart.

Gives up: runs are of 1,600 rollouts in groups of 4, which are as many groups as 3,200 rollouts in groups of
8.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import typer
from benchmarks.bench.tasks import TASKS
from benchmarks.common import RESULTS, sampled_rewards, write_page
from benchmarks.papers.variants import Results, Variant

from curro.rollout.engines.engine import SamplingSettings
from curro.rollout.sampling import beside_training
from curro.runs.folder import RunFolder
from curro.runs.reader import LEARNABLE, read_history
from curro.training.plan import Plan

UNIFORM = "uniform"
METHODS = ("prioritized-replay", "pspo:epsilon=0.1", "frontier:exploration=0.25")
POOLS = [name for name in TASKS if name.endswith("/hard")]
GROUP, ROLLOUTS, PARTS = 4, 1_600, 2
ESTIMATE = ("signal/uniform_share", "signal/uniform_share_low", "signal/uniform_share_high")
Shares = dict[str, list[list[float | None]]]
"""By variant, after each part of its run: the share of its groups with a signal, the three of the estimate,
and the share of the groups beside it where there were some."""


def variant(pool: str, method: str) -> Variant:
    """A method on a pool."""
    return Variant(method, name=f"{pool} {method}, groups of {GROUP}")


class Beside:
    """Groups of uniformly drawn prompts, rolled out by the policy of each step and not trained on."""

    def __init__(self) -> None:
        self.has_signal: list[np.ndarray] = []

    def on_step(self, prepared: Plan, line: dict[str, Any]) -> None:
        """Roll out the groups of the step that comes next."""
        settings, step = prepared.settings, line["step"]
        if step == 0:
            self.has_signal = []
        if step == settings.steps or settings.curriculum == UNIFORM:
            return
        count = settings.prompts_per_step or 1
        drawn = np.random.default_rng([settings.seed, step]).choice(
            len(prepared.prompts), count, replace=False
        )
        with beside_training(prepared.model, step):
            rewards_PG = sampled_rewards(
                prepared.model,
                prepared.tokenizer,
                [prepared.prompts[prompt] for prompt in drawn.tolist()],
                prepared.reward,
                environment=prepared.environment,
                samples=settings.rollouts_per_prompt or 1,
                settings=SamplingSettings(settings.max_completion_length or 1, settings.temperature),
            )
        self.has_signal.append(~prepared.curriculum.table.is_flat(rewards_PG.var(axis=1)))

    def shares(self, prepared: Plan, folder: RunFolder) -> dict[str, list[list[float | None]]]:
        """The columns of a finished run's row."""
        lines = [line for line in folder.metrics() if line["step"] > 0]
        has_signal = read_history(folder).groups.state == LEARNABLE
        beside = np.concatenate(self.has_signal) if self.has_signal else np.full(1, np.nan)
        rows: list[list[float | None]] = []
        for part in range(1, PARTS + 1):
            line = lines[part * len(lines) // PARTS - 1]
            values = [
                has_signal[: part * len(has_signal) // PARTS].mean(),
                *(line[name] for name in ESTIMATE),
                beside[: part * len(beside) // PARTS].mean() if self.has_signal else np.nan,
            ]
            rows.append([None if np.isnan(value) else round(float(value), 4) for value in values])
        return {"shares": rows}


def run(results: Results) -> None:
    """Train what has no row yet."""
    for pool in POOLS:
        task, beside = TASKS[pool], Beside()
        common = {name: value for name, value in asdict(task.settings()).items() if name != "curriculum"}
        common |= {
            "rollouts": ROLLOUTS,
            "rollouts_per_prompt": GROUP,
            "prompts_per_step": task.step // GROUP,
            "eval_every": 10**6,
            "eval_prompts": 8,
        }
        variants = [variant(pool, method) for method in (UNIFORM, *METHODS)]
        results.run(variants, 1, common, more=beside.shares, on_step=beside.on_step)


def error(share: float, groups: float) -> float:
    """Two standard errors of a share of so many groups, by Agresti and Coull, so that none is 0."""
    centre = (groups * share + 2) / (groups + 4)
    return float(2 * np.sqrt(centre * (1 - centre) / (groups + 4)))


def table(found: Shares, groups: float, part: int) -> tuple[list[str], str]:
    """The rows of the table after a part of the runs, and how many intervals agree with the two shares.

    The compared shares have errors of their own, as shares of `groups` groups, and so intervals at 95%.
    """
    rows: list[str] = []
    meets, holds = ({"same": list[bool](), "trained": list[bool]()} for _ in range(2))
    for pool in POOLS:
        if variant(pool, UNIFORM).key not in found:
            continue
        trained = found[variant(pool, UNIFORM).key][part][0] or 0.0
        cells = [f"{trained:.2f} ± {error(trained, groups):.2f}"]
        for method in METHODS:
            values = found.get(variant(pool, method).key)
            if values is None:
                cells.append("")
                continue
            own, estimate, low, high, beside = [*values[part], None][:5]
            if estimate is None or low is None or high is None:
                cells.append(f"{own:.2f}, too few groups")
                continue
            words = [f"{own:.2f}, **{estimate:.2f}** ({low:.2f} to {high:.2f})"]
            for name, share in (("same", beside), ("trained", trained)):
                if share is not None:
                    wide = error(share, groups)
                    meets[name].append(low <= share + wide and share - wide <= high)
                    holds[name].append(low <= share <= high)
            if beside is not None:
                words.append(f"{beside:.2f}" + ("" if meets["same"][-1] else " *outside*"))
            words.append("" if meets["trained"][-1] else "*outside* the run")
            cells.append(", ".join(word for word in words if word))
        rows.append(f"| {pool} | {' | '.join(cells)} |")
    counts = [
        f"{sum(meets[name])} of {len(meets[name])} meet that of {words}, and {sum(holds[name])} hold its "
        "share itself"
        for name, words in (("same", "the same policy"), ("trained", "the uniform run"))
        if meets[name]
    ]
    return rows, "; ".join(counts)


def report(results: Results) -> str:
    """The page: a table after each part of the runs."""
    found: Shares = {row["variant"]: row["shares"] for row in results.rows()}
    parts = [
        "The share of groups with a signal. *Uniform sampling*: what a run of it found. The methods: what "
        "they found themselves, **their estimate of uniform sampling** with its 95% interval, and what as "
        "many uniformly drawn groups of the same policy found beside them. An estimate begins at 32 groups "
        "whose chance of being drawn is known. *Outside*: the interval does not meet that of the share "
        "beside the same policy, or, *outside the run*, that of the uniform run.\n"
    ]
    for part in range(PARTS):
        done = (part + 1) * ROLLOUTS // PARTS
        rows, counts = table(found, done / GROUP, part)
        parts.append(
            f"## After {done:,} rollouts in groups of {GROUP}\n\nOf the intervals {counts}.\n\n"
            f"| pool | uniform sampling | {' | '.join(METHODS)} |\n"
            f"|---|{'--:|' * (1 + len(METHODS))}\n" + "\n".join(rows) + "\n"
        )
    return "\n".join(parts)


def main(
    only_report: Annotated[bool, typer.Option("--report", help="Write the page, train nothing.")] = False,
) -> None:
    results = Results(RESULTS / "uniform_estimate.jsonl", Path("runs/uniform-estimate"))
    if not only_report:
        run(results)
    text = report(results)
    typer.echo(text)
    write_page(
        "uniform_estimate", "Uniform sampling, estimated and trained",
        "python -m benchmarks.learning.uniform_estimate", text,
    )  # fmt: skip


if __name__ == "__main__":
    typer.run(main)
