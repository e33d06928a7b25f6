"""What the ablations share: train every variant with `curro compare`, read the runs, write tables."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import typer
from scipy.stats import t as student

from curro.registry import parse_curriculum
from curro.report.compare import Row, comparison_table
from curro.runs import RunFolder

DOCS = Path(__file__).parents[1] / "docs"
Tables = dict[str, dict[str, str]]
"""By title, the curricula by their labels; the first of each is what the others are measured against."""


def train(tables: Tables, out: Path, *options: str) -> dict[str, list[RunFolder]]:
    """Train every curriculum, or go on with it; returns the runs by curriculum."""
    names = list(dict.fromkeys(name for variants in tables.values() for name in variants.values()))
    command = [sys.executable, "-m", "curro", "compare", *names, f"--out={out}", *options]
    if subprocess.run(command).returncode:
        raise typer.Exit(1)
    runs: dict[str, list[RunFolder]] = {name: [] for name in names}
    wanted = {str(parse_curriculum(name)): name for name in names}
    for path in sorted(out.glob("*-seed*/config.json")):
        folder = RunFolder.open(path.parent)
        name = wanted.get(str(folder.config["settings"]["curriculum"]))
        if name is not None:
            runs[name].append(folder)
    return runs


def interval(row: Row) -> str:
    """The mean and Student's 95% interval over seeds."""
    width = "" if row.error is None else f" ± {student.ppf(0.975, row.seeds - 1) * row.error:.3f}"
    return f"{row.final:.3f}{width}"


def report(tables: Tables, runs: dict[str, list[RunFolder]], intro: str) -> str:
    """The tables as Markdown."""
    rows = {found.name: found for found in comparison_table(runs)}
    parts = [intro]
    for title, variants in tables.items():
        first = rows[next(iter(variants.values()))]
        lines = [_line(label, rows[name], first, runs[name]) for label, name in variants.items()]
        parts.append(
            f"### {title}\n\n"
            "| | curriculum | held-out pass@1 | against the first | rollouts to the level | updates |\n"
            "|---|---|--:|--:|--:|--:|\n" + "\n".join(lines)
        )
    return "\n\n".join(parts) + "\n"


def _line(label: str, row: Row, first: Row, runs: list[RunFolder]) -> str:
    reached = "not reached" if row.to_level is None else f"{row.to_level:,.0f}"
    updates = sum(run.metrics()[-1]["step"] for run in runs) / len(runs)
    gain = f"{row.final - first.final:+.3f}"
    return f"| {label} | `{row.name}` | {interval(row)} | {gain} | {reached} | {updates:,.0f} |"


def write(page: Path, text: str, place: str = "results") -> None:
    """Put the results where the page has a place for them."""
    start, end = f"<!-- {place} -->\n", f"<!-- end of {place} -->\n"
    before, rest = page.read_text().split(start)
    page.write_text(f"{before}{start}{text}{end}{rest.split(end)[1]}")
