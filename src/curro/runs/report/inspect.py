"""Print what a run knows of its prompts."""

from __future__ import annotations

import os
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table
from rich.text import Text

from curro.core.errors import ConfigError, RunError
from curro.core.text import printable, readable
from curro.runs.folder import RunFolder
from curro.runs.reader import GroupColumns, read_history
from curro.runs.report.advice import verdict
from curro.runs.report.prompts import PromptHistory, Ranking, kept_rollouts, rankings, spelt_out

_WIDTH = 60


def inspect_run(run: RunFolder | str | os.PathLike[str], n: int, console: Console) -> None:
    """Print the prompt table's columns, and the first prompts of each ranking.

    Then say how the run stands against uniform sampling.

    Args:
        n: prompts to show of each ranking.

    Raises:
        RunError: no run, or one that has neither a prompt table nor a finished step.
        ConfigError: n < 1.
    """
    if n < 1:
        raise ConfigError(f"the number of prompts to show is at least 1, not {n}")
    folder = run if isinstance(run, RunFolder) else RunFolder.open(run)
    if folder.has_table or not folder.latest():
        console.print(render_columns(folder.table()))
    else:
        console.print("The prompt table is saved with the first checkpoint; the run's groups so far:")
    history = read_history(folder)
    for ranking in rankings(history.groups, n):
        console.print(render_ranking(ranking))
    console.print(Text(verdict(history).sentence))


def render_columns(table: pa.Table) -> Table:
    """Summarise each column: its type, smallest, mean and largest value, and missing ones."""
    shown = _table(f"{table.num_rows} prompts", ("column", "type", "least", "mean", "most", "missing"))
    for name in table.column_names:
        column = table[name]
        if name == NUMBER or str(column.type) in ("string", "large_string"):
            continue
        values = pc.cast(column, pa.float64(), safe=False).to_numpy()
        known = values[~np.isnan(values)]
        with np.errstate(over="ignore", invalid="ignore"):
            summary = [known.min(), known.mean(), known.max()] if len(known) else [np.nan] * 3
        shown.add_row(
            Text(printable(name)), str(column.type), *map(_number, summary), f"{len(values) - len(known)}"
        )
    return shown


NUMBER = "prompt"
"""The column of a prompt table that holds the prompts' numbers."""


def render_ranking(ranking: Ranking) -> Table:
    """Show a ranking with its rule below."""
    shown = _table(ranking.title, ("row", "prompt", "visits", "now", "at step", "best", "at step"))
    shown.columns[1].justify = "left"
    shown.caption = Text(ranking.rule, style="dim") if ranking.prompts else Text("none", style="dim")
    for prompt in ranking.prompts:
        shown.add_row(
            f"{prompt.number}",
            Text(readable(prompt.text, _WIDTH)),
            f"{prompt.visits}",
            f"{prompt.rate:.2f}",
            f"{prompt.last_step}",
            f"{prompt.best:.2f}",
            f"{prompt.best_step}",
        )
    return shown


def _table(title: str, columns: Iterable[str]) -> Table:
    shown = Table(title=Text(title), title_justify="left", caption_justify="left")
    for i, name in enumerate(columns):
        shown.add_column(Text(name), justify="right" if i else "left", overflow="fold")
    return shown


def _number(value: float | None) -> str:
    return "-" if value is None or value != value else f"{value:.4g}"


MOST_TEXT = 4000
"""Characters of a text that are printed."""

_COLOURS = {"all right": "green", "all wrong": "red", "mixed": "blue"}


def inspect_prompt(folder: RunFolder, prompt: str, n: int, console: Console) -> None:
    """Print a prompt's latest n visits, and the rollouts that were kept of the latest of them.

    Raises:
        RunError: no run, or a prompt that it has not drawn.
    """
    groups = read_history(folder).groups
    number = find_prompt(groups, prompt)
    kept = {} if number is None else kept_rollouts(folder.rollouts_file, [number])
    history = None if number is None else PromptHistory.of(groups, number, kept)
    if history is None:
        raise RunError(
            f"the run in {folder.path} has not drawn a prompt {readable(prompt, 60)!r}: give a key or a "
            "number, as `curro inspect` shows them"
        )
    source = f", from {printable(history.source)}" if history.source else ""
    console.print(Text(f"{readable(history.title, 400)} (prompt {history.number}{source})", style="bold"))
    if history.title != history.key:
        console.print(Text(f"key {readable(history.key, 400)}", style="dim"))
    if history.text:
        console.print(written(history.text))
    console.print(_visits(history, n))
    latest = next((visit for visit in history.visits if visit.rollouts), None)
    if latest is None:
        console.print("No rollouts of it were kept: curro train --keep-rollouts N keeps N of every group.")
        return
    for rollout in latest.rollouts:
        style = "green" if rollout.reward is not None and rollout.reward > 0 else "red"
        console.print(Text(f"step {latest.step}, {rollout.facts}", style=style))
        console.print(written(rollout.text))


def find_prompt(groups: GroupColumns, prompt: str) -> int | None:
    """Find a prompt's number by its key or else by its number; None for a prompt that was never drawn."""
    rows = np.flatnonzero(pc.equal(groups.texts["key"], prompt).fill_null(False))
    if len(rows):
        return int(groups.prompt[rows[0]])
    if prompt.isascii() and prompt.isdigit() and len(prompt) < 16 and int(prompt) in groups.prompt:
        return int(prompt)
    return None


def written(text: str) -> Text:
    """A model's or a data set's text, indented, with all that would steer a terminal spelt out."""
    return Text("\n".join(f"  {line}" for line in spelt_out(text, MOST_TEXT).split("\n")))


def _visits(history: PromptHistory, n: int) -> Table:
    table = Table(title=Text(f"{history.count} visits, the latest first"), title_justify="left")
    for name in ("step", "success", "", "chosen for", "trained on", "predicted"):
        table.add_column(name, justify="right" if name in ("step", "success") else "left")
    for visit in history.visits[:n]:
        table.add_row(
            f"{visit.step}",
            f"{visit.rate:.2f}",
            Text(visit.state, style=_COLOURS[visit.state]),
            visit.reason,
            "yes" if visit.is_admitted else "no",
            visit.predicted,
        )
    return table
