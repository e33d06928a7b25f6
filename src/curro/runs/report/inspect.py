"""Print what a run knows of its prompts."""

from __future__ import annotations

import os
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from curro.core.errors import RunError
from curro.core.text import printable, readable
from curro.runs.folder import RunFolder
from curro.runs.reader import GroupColumns, read_history
from curro.runs.report.advice import verdict
from curro.runs.report.prompts import PromptHistory, Ranking, kept_rollouts, rankings, spelt_out

_WIDTH = 60


def inspect_run(run: RunFolder | str | os.PathLike[str], n: int, console: Console) -> None:
    """Print the first n prompts of each ranking, and how the run stands against uniform sampling.

    Raises:
        RunError: no run, or one that has not finished a step.
    """
    history = read_history(run)
    for ranking in rankings(history.groups, n):
        console.print(render_ranking(ranking))
    console.print(Text(verdict(history).sentence))


def render_ranking(ranking: Ranking) -> Table:
    """Show a ranking with its rule below."""
    shown = _table(ranking.title, ("row", "prompt", "visits", "now", "at step", "best", "at step"))
    shown.columns[1].justify = "left"
    shown.caption = Text(ranking.rule if ranking.prompts else "none", style="dim")
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
    for name in columns:
        shown.add_column(name, justify="right", overflow="fold")
    return shown


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
    if prompt in groups.keys:
        return int(groups.prompt[groups.keys.index(prompt)])
    if prompt.isascii() and prompt.isdigit() and len(prompt) < 16 and int(prompt) in groups.prompt:
        return int(prompt)
    return None


def written(text: str) -> Text:
    """A model's or a data set's text, indented, with all that would steer a terminal spelt out."""
    return Text("\n".join(f"  {line}" for line in spelt_out(text, MOST_TEXT).split("\n")))


def _visits(history: PromptHistory, n: int) -> Table:
    columns = ("step", "success", "", "chosen for", "trained on", "predicted")
    table = _table(f"{history.count} visits, the latest first", columns)
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
