"""What the papers leave open, in small: sweeps of their options, five seeds each.

    python -m benchmarks.papers.open_questions              # trains what has no row yet; hours
    python -m benchmarks.papers.open_questions --report    # trains nothing, writes results/open_questions.md

Each question trains the lab's models with its variants, the same seeds and the same budget of rollouts. The
table has the held-out accuracy at the end, and the difference to the first variant, paired by seed, with
Student's 95% intervals. A run adds a row to benchmarks/results/open_questions.jsonl as it ends, so that the
command goes on where it was stopped; the questions come in order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import typer
from benchmarks.common import RESULTS, write_page
from benchmarks.papers.metis import HARD, METIS
from benchmarks.papers.pspo import SMOOTHED, STD, grpo
from benchmarks.papers.variants import Results, Row, Variant, mean_interval, not_run

from curro.rollout.engines.engine import SamplingSettings
from curro.rollout.engines.models import load_model
from curro.rollout.sampling import attempts
from curro.runs.folder import RunFolder
from curro.runs.report.compare import METRIC
from curro.training.plan import Plan

PUBLISHED = "prioritized-replay:variant=published"
CHAINS = {
    "data": "lab:chains",
    "limit": 1000,
    "rollouts": 8_192,
    "prompts_per_step": 8,
    "eval_every": 1000,
    "eval_prompts": 250,
}
REPLAY = CHAINS | {"eval_samples": 4}
GATES = CHAINS | {"rollouts": 12_288, "limit": 2000, "prompts_per_step": 16, "fill_limit": 60.0}


@dataclass(frozen=True)
class Question:
    """Variants that answer one question, and what their runs have in common.

    Attributes:
        variants: by label; the first is what the others are compared with.
        common: settings of `curro train`.
        more: further columns of a row, each a column of the table.
        metric: what is compared at the end of the runs.
        steps: training steps of a run; None: as many as the rollouts pay for.
    """

    title: str
    variants: Mapping[str, Variant]
    common: Mapping[str, Any]
    more: Callable[[Plan, RunFolder], Mapping[str, Any]] = field(default=lambda prepared, folder: {})
    metric: str = METRIC
    steps: int | None = None


def pools(prepared: Plan, folder: RunFolder) -> dict[str, Any]:
    """Figure 3 of prioritized replay at the end; success and variance over the last fifty batches."""
    lines = folder.metrics()
    last, steps = lines[-1], lines[-1]["step"]
    groups = folder.groups(["step", "mean", "variance"])
    late = [group for group in groups if group["step"] > steps - 50]
    return {
        "pass@4": last["eval/pass@4"],
        "seen": len(prepared.prompts) - last["table/unseen"],
        "solved": last.get("replay/solved_pool"),
        "unsolved": last.get("replay/unsolved_pool"),
        "batch success": float(np.mean([group["mean"] for group in late])),
        "batch variance": float(np.mean([group["variance"] for group in late])),
    }


def kept(prepared: Plan, folder: RunFolder) -> dict[str, Any]:
    """The final model's pass rate on the prompts of which a group was solved whole."""
    solved = {group["prompt"] for group in folder.groups(["prompt", "mean"]) if group["mean"] == 1}
    rows = [prepared.prompts[number] for number in sorted(solved)]
    model, tokenizer = load_model(str(folder.model))
    length = prepared.settings.max_completion_length or 1
    texts, _ = attempts(model, tokenizer, rows, environment=None, n=8, settings=SamplingSettings(length))
    right = [text.strip() == rows[i // 8]["answer"] for i, text in enumerate(texts)]
    return {"solved once": len(rows), "solved now": float(np.mean(right))}


def lengths(prepared: Plan, folder: RunFolder) -> dict[str, Any]:
    """Mean tokens of the final model's answers to the first training prompts."""
    model, tokenizer = load_model(str(folder.model))
    length = prepared.settings.max_completion_length or 1
    rows = prepared.prompts[:200]
    texts, _ = attempts(model, tokenizer, rows, environment=None, n=8, settings=SamplingSettings(length))
    return {"tokens": float(np.mean([len(tokenizer.encode(text)) for text in texts]))}


def replay(options: str = "") -> Variant:
    return Variant(PUBLISHED + options)


def sizes(gate: str) -> dict[str, Variant]:
    """A gate with groups of three sizes, at the same number of rollouts a step."""
    return {
        f"{gate or 'no gate'}, groups of {size}": Variant(
            f"least-visited {gate and f'admission=band:{gate}'}".strip(),
            {"rollouts_per_prompt": size, "prompts_per_step": 256 // size},
        )
        for size in (4, 16)
    }


QUESTIONS = {
    "replay": Question(
        "Prioritized replay: heap or sum tree, exploration, retests, the moving average, the first priority",
        {
            "as published": replay(),
            "uniform": Variant("uniform"),
            "sum tree (4.2)": replay(",draw=proportional"),
            "no exploration": replay(",exploration=0"),
            "exploration 0.25": replay(",exploration=0.25"),
            "exploration 0.5": replay(",exploration=0.5"),
            "no retests": replay(",retest_every=0"),
            "retests every 3 steps": replay(",retest_every=3"),
            "no moving average": replay(",smoothing=1"),
            "unseen prompts have priority 0.15": replay(",initial_priority=0.15"),
            "unseen prompts come first (section 2)": replay(",initial_priority=inf"),
        },
        REPLAY,
        pools,
    ),
    "pspo": Question(
        "PSPO: lambda and beta of prompt sampling, on GRPO",
        {
            "PPS, lambda 0.6, beta 0.4": grpo(f"pspo {STD}"),
            "lambda 0, uniform": grpo(f"uniform {STD}"),
            "lambda 0.3": grpo(f"pspo:exponent=0.3 {STD}"),
            "lambda 1": grpo(f"pspo:exponent=1 {STD}"),
            "beta 0": grpo(f"pspo:beta=0 {STD}"),
            "beta 1": grpo(f"pspo:beta=1 {STD}"),
        },
        CHAINS,
    ),
    "groups": Question(
        "Difficulty filtering: bands and group sizes at equally many rollouts",
        sizes("") | sizes("0,1") | sizes("0.3,0.7"),
        GATES,
    ),
    "metis": Question(
        "METIS: five seeds, exploration, exemplars from low to high",
        {
            "uniform": Variant("uniform"),
            "METIS": Variant(METIS),
            "exploration 0.125": Variant(f"{METIS},exploration=0.125"),
            "spread exemplars (A.1)": Variant(f"{METIS},spread=true"),
        },
        {"data": HARD, "rollouts": 10**7, "eval_every": 50},
        steps=50,
    ),
    "repeats": Question(
        "PSPO: ERS where prompts come back, 100 prompts ten times each",
        {
            "GRPO": grpo(f"uniform {STD}"),
            "ERS, alpha 0.99": grpo(f"uniform {SMOOTHED}"),
            "ERS, alpha 0.3": grpo(f"uniform {SMOOTHED}:alpha=0.3"),
        },
        CHAINS | {"limit": 100},
    ),
    "forgetting": Question(
        "Prioritized replay: forgetting with and without the solved pool's retests, an easy pool",
        {
            "as published": replay(),
            "solved never retested": replay(",retest_solved=0"),
            "4 solved retested": replay(",retest_solved=4"),
        },
        CHAINS | {"data": "lab:chains/easy"},
        kept,
    ),
    "bonus": Question(
        "Prioritized replay: the bonus and the length of answers (4.4)",
        {
            "1e-4, as published": replay(),
            "no bonus": replay(",bonus=0"),
            "0.05": replay(",bonus=0.05"),
        },
        REPLAY | {"data": "lab:chain_sum"},
        lengths,
    ),
    "longer": Question(
        "Prioritized replay: 1,000 steps in place of 250 (section 6)",
        {"as published": replay(), "uniform": Variant("uniform")},
        REPLAY | {"rollouts": 32_000, "prompts_per_step": 4, "eval_every": 250},
        pools,
    ),
    "shares": Question(
        "Difficulty filtering: the variance gate on rewards between 0 and 1",
        {
            "no gate": Variant("least-visited"),
            "variance above 0.01": Variant("least-visited admission=variance:0.01"),
            "variance above 0.05": Variant("least-visited admission=variance:0.05"),
        },
        GATES | {"data": "lab:chains_share"},
        metric="eval/reward",
    ),
    "turns": Question(
        "Difficulty filtering: bands on a task of several turns, as function calls have them",
        {
            "no gate": Variant("least-visited"),
            "0 < p < 1": Variant("least-visited admission=band:0,1"),
            "0.3 < p < 0.7": Variant("least-visited admission=band:0.3,0.7"),
        },
        GATES | {"data": "lab:locks"},
    ),
    "losses": Question(
        "PSPO's parts under DAPO's loss",
        {
            "DAPO's mean": Variant(f"uniform {STD}", {"loss_type": "dapo"}),
            "+ ERS": Variant(f"uniform {SMOOTHED}", {"loss_type": "dapo"}),
            "+ PPS": Variant(f"pspo {STD}", {"loss_type": "dapo"}),
            "+ ERS + PPS": Variant(f"pspo {SMOOTHED}", {"loss_type": "dapo"}),
        },
        CHAINS,
    ),
}


def final(row: Row, metric: str) -> float:
    return row["series"][metric][1][-1]


def table(question: Question, results: Results) -> str:
    """The variants at the end of their runs, and their differences to the first."""
    rows_of = {label: results.of(variant) for label, variant in question.variants.items()}
    (first, *_), lines = rows_of.values(), []
    base = {row["seed"]: final(row, question.metric) for row in first}
    columns = [
        name for name in (first[0] if first else {}) if name not in ("variant", "seed", "question", "series")
    ]
    for label, rows in rows_of.items():
        if not rows:
            continue
        gains = np.array(
            [final(row, question.metric) - base[row["seed"]] for row in rows if row["seed"] in base]
        )
        ends = np.array([final(row, question.metric) for row in rows])
        cells = [label, mean_interval(ends), "" if rows is first else mean_interval(gains)]
        for name in columns:
            values = [row[name] for row in rows if row[name] is not None]
            form = ".3f" if any(value % 1 for value in values) else ".0f"
            cells.append(format(np.mean(values), form) if values else "-")
        lines.append(f"| {' | '.join([*cells, str(len(rows))])} |")
    score = "held-out reward" if question.metric == "eval/reward" else "held-out pass@1"
    head = ["", score, "against the first", *columns, "seeds"]
    text = f"| {' | '.join(head)} |\n|---|{'--:|' * (len(head) - 1)}\n" + "\n".join(lines)
    return "\n\n".join([text, *not_run([label for label, rows in rows_of.items() if not rows])])


def main(
    only_report: Annotated[bool, typer.Option("--report", help="Write the page, train nothing.")] = False,
    seeds: Annotated[int, typer.Option(help="Runs of each variant.")] = 5,
    only: Annotated[list[str] | None, typer.Option(help="Questions by name.")] = None,
) -> None:
    parts, unanswered = [], []
    for name, question in QUESTIONS.items():
        results = Results(RESULTS / "open_questions.jsonl", Path("runs/open"), question=name)
        if not only_report and (not only or name in only):
            results.run(
                question.variants.values(), seeds, question.common,
                series=() if question.metric == METRIC else (question.metric,),
                steps=question.steps, more=question.more,
            )  # fmt: skip
        if results.rows():
            parts.append(f"## {question.title}\n\n{table(question, results)}")
        else:
            unanswered.append(question.title)
    if unanswered:
        parts.append("No run yet: " + "; ".join(unanswered) + ".")
    write_page(
        "open_questions",
        "What the papers leave open",
        "python -m benchmarks.papers.open_questions",
        "\n\n".join(parts),
    )


if __name__ == "__main__":
    typer.run(main)
