"""Online difficulty filtering in small: the paper's tables 1 and 3 (accuracy by level), figures 2 and 3.

    python -m benchmarks.papers.difficulty_filtering               # trains what has no row yet; hours
    python -m benchmarks.papers.difficulty_filtering --report      # trains nothing, writes results/band.md
    python -m benchmarks.papers.difficulty_filtering --quick       # some minutes, writes nothing

Trains the lab's chains with 16 prompts of 16 rollouts a step, as the paper does, and compares after equally
many updates: a gate pays for full batches with more rollouts, which the table states. Every run adds a row to
benchmarks/results/band.jsonl as it ends, so that a stopped command can be repeated; the most important
rows come first. The offline rows choose from pass rates of the warm model ("initial") or of one that was
trained before by plain GRPO with another seed ("external"), each measured with 16 rollouts a prompt.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq
import typer
from benchmarks.common import PICTURES, RESULTS, write_page
from benchmarks.papers.variants import Results, Row, Summary, Variant, not_run

from curro.lab import family
from curro.rollout.engines.engine import SamplingSettings
from curro.rollout.engines.models import load_model
from curro.rollout.sampling import attempts
from curro.runs.folder import RunFolder
from curro.runs.report.compare import METRIC
from curro.training.plan import Plan

DATA = "lab:chains"
LEVELS = ((1, 2), (3, 5), (6, 8), (9, 11), (12, 14))
"""Letters in a chain."""
BALANCED = ("0,1", "0.1,0.9", "0.2,0.8", "0.3,0.7", "0.4,0.6")
SKEWED = {
    "0 < p <= 1": "0,1,high",
    "0.2 < p <= 1": "0.2,1,high",
    "0.4 < p <= 1": "0.4,1,high",
    "0 <= p < 1": "0,1,low",
    "0 <= p < 0.8": "0,0.8,low",
    "0 <= p < 0.6": "0,0.6,low",
}
PLAIN = Variant("least-visited")
FIGURE_2 = "0.2,0.8"


def gate(band: str) -> Variant:
    return Variant(f"least-visited admission=band:{band}")


class Offline:
    """The pass rates of two models, and the data files that are made from them.

    Args:
        folder: of the models and data files.
        steps: of the external model's training.
        common: settings of its training.
    """

    def __init__(self, folder: Path, steps: int, common: Mapping[str, Any]) -> None:
        self.folder, self.steps, self.common = folder, steps, common

    def external(self) -> str:
        """The folder of the external model: trained by plain GRPO with a seed that no other run has."""
        results = Results(self.folder / "external.jsonl", self.folder / "external")
        results.run(
            [PLAIN], 1, {**self.common, "eval_prompts": 10}, steps=self.steps, keep=True, first_seed=100
        )
        return str(self.folder / "external" / "least-visited-seed100" / "model")

    def rates(self, model: str, name: str) -> dict[str, float]:
        """The pass rate of every training prompt by its key, estimated once."""
        path = self.folder / f"rates-{name}"
        if not (path / "pass_rates.parquet").is_file():
            _curro(
                "estimate",
                DATA,
                f"--limit={self.common['limit']}",
                f"--model={model}",
                "-k16",
                f"--out={path}",
            )
        table = pq.read_table(path / "pass_rates.parquet").to_pandas()
        return dict(zip(table["key"], table["mean"], strict=True))

    def make(self) -> None:
        """Estimate by both models and write the four data files, unless they exist."""
        self.rates(DATA, "initial")
        self.rates(self.external(), "external")
        for proxy in ("initial", "external"):
            for order in ("data", "easy-first"):
                if not (file := self.file(proxy, order)).is_file():
                    _curro("curate", str(self.folder / f"rates-{proxy}"), f"--order={order}", f"--out={file}")

    def file(self, proxy: str, order: str) -> Path:
        return self.folder / f"{proxy}-{order}.jsonl"

    def variant(self, proxy: str, order: str) -> Variant:
        """Curation, in the data's order, or scheduling, easy ones first, with the band (0.2, 0.8)."""
        file = self.file(proxy, order)
        settings = {
            "data": str(file), "limit": None, "reward": DATA, "model": DATA, "eval_data": DATA,
            "learning_rate": family("chains").recipe.learning_rate,
            "warmup_steps": family("chains").recipe.warmup_steps,
            "max_completion_length": family("chains").recipe.max_completion_length,
            "prompt_column": "prompt", "answer_column": "answer", "key_column": "key",
        }  # fmt: skip
        name = f"{'curation' if order == 'data' else 'schedule'} by the {proxy} model's pass rates"
        return Variant("least-visited" if order == "data" else "scheduled", settings, name)


def _curro(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "curro", *arguments], check=True)


def measured(offline: Offline) -> Callable[[Plan, RunFolder], dict[str, Any]]:
    """The further columns of a row: accuracy by level, and how hard the batches of figure 2 seem to whom."""

    def more(prepared: Plan, folder: RunFolder) -> dict[str, Any]:
        model, tokenizer = load_model(str(folder.model))

        def pass_rates(prompts: list[str], samples: int) -> np.ndarray:
            rows = [{"prompt": prompt} for prompt in prompts]
            length = prepared.settings.max_completion_length or 1
            texts, _ = attempts(
                model, tokenizer, rows, environment=None, n=samples, settings=SamplingSettings(length)
            )
            right = [
                texts[i * samples + j].strip() == answer(prompt)
                for i, prompt in enumerate(prompts)
                for j in range(samples)
            ]
            return np.reshape(right, (-1, samples)).mean(axis=1)

        held_out = [row["prompt"] for row in family("chains").problems(500, seed=0, split="test")]
        rates = pass_rates(held_out, 16)
        letters = np.array([len(prompt) - 2 for prompt in held_out])
        levels = [rates[(letters >= low) & (letters <= high)].mean() for low, high in LEVELS]
        measures: dict[str, Any] = {"levels": [round(float(rate), 4) for rate in levels]}
        if prepared.settings.curriculum == gate(FIGURE_2).curriculum:
            groups = [group for group in folder.groups() if group["admitted"]]
            keys = {group["key"] for group in groups}
            text = {row["key"]: row["prompt"] for row in prepared.prompts if row["key"] in keys}
            after = dict(zip(text, pass_rates(list(text.values()), 16), strict=True))
            views = {
                "before": offline.rates(DATA, "initial"),
                "after": after,
                "external": offline.rates(offline.external(), "external"),
            }
            by_step: dict[int, list[dict[str, Any]]] = {}
            for group in groups:
                by_step.setdefault(group["step"], []).append(group)
            measures["difficulty"] = {
                "during": [_mean([1 - group["mean"] for group in batch]) for batch in by_step.values()],
                **{
                    name: [_mean([1 - view[group["key"]] for group in batch]) for batch in by_step.values()]
                    for name, view in views.items()
                },
            }
        return measures

    return more


def answer(prompt: str) -> str:
    return family("chains").worked({"prompt": prompt})


def _mean(values: list[float]) -> float:
    return round(float(np.mean(values)), 4)


def variants(offline: Offline) -> dict[str, Variant]:
    """The rows of table 1 that are trained, the most important first."""
    bands = {f"{low} < p < {high}": gate(f"{low},{high}") for low, high in (b.split(",") for b in BALANCED)}
    first = ("0 < p < 1", "0.3 < p < 0.7", "0.2 < p < 0.8")
    return {
        "plain GRPO, 0 <= p <= 1": PLAIN,
        **{label: bands[label] for label in first},
        "curation, initial model": offline.variant("initial", "data"),
        "schedule, initial model": offline.variant("initial", "easy-first"),
        "curation, external model": offline.variant("external", "data"),
        "schedule, external model": offline.variant("external", "easy-first"),
        **{label: gate(band) for label, band in SKEWED.items()},
        **{label: band for label, band in bands.items() if label not in first},
    }


ORDER = (
    "curation, external model", "curation, initial model", "schedule, external model",
    "schedule, initial model", "plain GRPO, 0 <= p <= 1", *SKEWED,
    *(f"{low} < p < {high}" for low, high in (band.split(",") for band in BALANCED)),
)  # fmt: skip
"""The paper's."""


def table(rows: Mapping[str, list[Row]], start: float) -> str:
    """Table 1, with what the paper does not have: the rollouts that the batches took."""
    lines = [f"| warm model (SFT) | {start:.3f} | 0 | |"]
    for label in ORDER:
        if not rows[label]:
            continue
        summary = Summary.of(rows[label])
        lines.append(
            f"| {label} | {summary.interval} | {summary.rollouts[-1]:,.0f} | {len(summary.finals)} |"
        )
    missing = not_run([label for label in ORDER if not rows[label]])
    return (
        "## After equally many updates (table 1 of the paper)\n\n"
        "| groups trained on | held-out pass@1 | rollouts | seeds |\n|---|--:|--:|--:|\n"
        + "\n".join([*lines, "", *missing])
    )


def levels(rows: Mapping[str, list[Row]]) -> str:
    """Accuracy by level, the paper's table 3, for all rows with a run."""
    head = " | ".join(f"{low} to {high}" for low, high in LEVELS)
    lines = []
    for label in ORDER:
        if rows[label]:
            means = np.mean([row["levels"] for row in rows[label]], axis=0)
            lines.append(f"| {label} | " + " | ".join(f"{mean:.3f}" for mean in means) + " |")
    return (
        f"## By level: letters in a chain (table 3)\n\n| | {head} |\n|---|{'--:|' * len(LEVELS)}\n"
        + "\n".join(lines)
    )


def picture(rows: list[Row], path: Path) -> None:
    """Figure 2: how hard the batches of the gate (0.2, 0.8) are for four models."""
    plt.rcParams["svg.hashsalt"] = "curro"
    figure, axis = plt.subplots(figsize=(6, 3.2), layout="constrained")
    for name in ("before", "during", "after", "external"):
        axis.plot(np.mean([row["difficulty"][name] for row in rows], axis=0), label=name)
    axis.set(xlabel="training step", ylabel="difficulty, 1 - p", ylim=(0, 1))
    axis.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


AXES = {"step": "training step", "rollouts": "rollouts", "cpu_seconds": "processor seconds"}
"""What figure 3 has accuracy against."""


def picture_progress(rows: Mapping[str, list[Row]], path: Path) -> None:
    """Figure 3: accuracy by band against training steps, rollouts and time."""
    shown = {label: rows[label] for label in FIGURE_3 if rows[label]}
    figure, panels = plt.subplots(
        1, len(AXES), figsize=(3.6 * len(AXES), 3.2), sharey=True, layout="constrained"
    )
    for name, panel in zip(AXES, panels, strict=True):
        for label, found in shown.items():
            summary = Summary.of(found)
            x = summary.steps
            if name != "step":
                x = np.mean([np.interp(x, *row["series"][name]) for row in found], axis=0)
            panel.plot(x, summary.mean, label=label)
        panel.set(xlabel=AXES[name], xscale="linear" if name == "step" else "log")
    panels[0].set(ylabel="held-out pass@1")
    panels[0].legend(frameon=False, fontsize="small")
    figure.savefig(path, metadata={"Date": None})


def main(
    quick: Annotated[bool, typer.Option(help="One seed, a few steps, nothing written.")] = False,
    only_report: Annotated[bool, typer.Option("--report", help="Write the page, train nothing.")] = False,
    seeds: Annotated[int, typer.Option(help="Runs of each row.")] = 3,
    steps: Annotated[int, typer.Option(help="Updates of a run.")] = 48,
) -> None:
    path, folder, limit = RESULTS / "band.jsonl", Path("runs/band"), 2000
    if quick:
        folder = Path(tempfile.mkdtemp())
        path, seeds, steps, limit = folder / "rows.jsonl", 1, 2, 200
    common = {
        "data": DATA, "limit": limit, "rollouts": 10**7, "prompts_per_step": 16, "rollouts_per_prompt": 16,
        "eval_every": 16, "eval_prompts": 250, "fill_limit": 60.0,
    }  # fmt: skip
    results = Results(path, folder)
    offline = Offline(folder, steps, common)
    trained = variants(offline)
    if not only_report:
        offline.make()
        series = ("cpu_seconds",)
        results.run(trained.values(), seeds, common, steps=steps, series=series, more=measured(offline))
    rows = {label: results.of(variant) for label, variant in trained.items()}
    start = float(
        np.mean([row["series"][METRIC][1][0] for of_variant in rows.values() for row in of_variant])
    )
    text = (
        f"The lab's `chains`, {limit:,} prompts, after {steps} updates of 16 prompts with 16 rollouts, mean "
        "and 95% interval over the seeds that have been run; and the rollouts that it took, rejected ones "
        "counted.\n\n"
        f"{table(rows, start)}\n\n{levels(rows)}\n"
    )
    typer.echo(text)
    if not quick:
        if rows[FIGURE_2_LABEL]:
            picture(rows[FIGURE_2_LABEL], PICTURES / "band-difficulty.svg")
            text += SEEN
            picture_progress(rows, PICTURES / "band-progress.svg")
            text += PROGRESS
        write_page("band", "Difficulty filtering", "python -m benchmarks.papers.difficulty_filtering", text)


FIGURE_2_LABEL = "0.2 < p < 0.8"
FIGURE_3 = ("plain GRPO, 0 <= p <= 1", *(band.replace(",", " < p < ") for band in BALANCED))
SEEN = """
How hard are the batches that the gate 0.2 < p < 0.8 fills (figure 2)? To the model before training, while it
trains, after it, and to the external model:

![Difficulty of the batches](../../docs/img/band-difficulty.svg)
"""
PROGRESS = """
Accuracy by band against updates, against rollouts, rejected ones counted, and against processor time
(figure 3):

![Accuracy by band](../../docs/img/band-progress.svg)
"""


if __name__ == "__main__":
    typer.run(main)
