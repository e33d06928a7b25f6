"""One prompt's history, in the terminal."""

from __future__ import annotations

import re

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from curro.errors import RunError
from curro.messages import printable
from curro.report.history import Groups
from curro.report.prompt_history import PromptHistory, Rollout, RolloutsReader
from curro.report.rankings import readable
from curro.report.run_reader import read_history
from curro.storage.run_folder import RunFolder

MOST_TEXT = 4000
"""Characters of a text that are printed."""

_COLOURS = {"all right": "green", "all wrong": "red", "mixed": "blue"}


def inspect_prompt(folder: RunFolder, prompt: str, n: int, console: Console) -> None:
    """Print a prompt's latest n visits, and the rollouts that were kept of the latest of them.

    Args:
        prompt: its key, or its number.

    Raises:
        RunError: no run, or a prompt that it has not drawn.
    """
    groups, kept = read_history(folder).groups, RolloutsReader(folder.rollouts_file)
    while kept.advance():
        pass
    number = find_prompt(groups, prompt)
    found = None if number is None else PromptHistory.of(groups, number, kept)
    if found is None:
        raise RunError(
            f"the run in {folder.path} has not drawn the prompt {readable(prompt, 60)!r}: give its key or "
            "its number, as `curro inspect` shows them"
        )
    source = f", from {printable(found.source)}" if found.source else ""
    console.print(Text(f"{readable(found.key, 400)} (prompt {found.number}{source})", style="bold"))
    if found.text:
        console.print(written(found.text))
    console.print(_visits(found, n))
    latest = next((visit for visit in found.visits if visit.rollouts), None)
    if latest is None:
        console.print("No rollouts of it were kept: curro train --keep-rollouts N keeps N of every group.")
        return
    for rollout in latest.rollouts:
        console.print(_facts(latest.step, rollout))
        console.print(written(rollout.text))


def find_prompt(groups: Groups, prompt: str) -> int | None:
    """A prompt's number, by its key or its number; None for one that was never drawn. Keys win."""
    for row in np.flatnonzero(groups.first).tolist():
        if groups.key(row) == prompt:
            return int(groups.prompt[row])
    if prompt.isascii() and prompt.isdigit() and len(prompt) < 16 and int(prompt) in groups.prompt:
        return int(prompt)
    return None


def written(text: str) -> Text:
    """What a model or a data set wrote, line by line, with all that would steer a terminal spelt out."""
    cut = f"\n… {len(text) - MOST_TEXT:,} more characters" if len(text) > MOST_TEXT else ""
    lines = [printable(line) for line in re.split(r"\r?\n", text[:MOST_TEXT])]
    return Text("\n".join(f"  {line}" for line in lines) + cut)


def _visits(found: PromptHistory, n: int) -> Table:
    table = Table(title=Text(f"{found.count} visits, the latest first"), title_justify="left")
    for name in ("step", "success", "", "chosen for", "trained on", "predicted"):
        table.add_column(name, justify="right" if name in ("step", "success") else "left")
    for visit in found.visits[:n]:
        predicted = ", ".join(f"{name[10:]} {value:.2f}" for name, value in visit.predicted.items())
        table.add_row(
            f"{visit.step}",
            f"{visit.rate:.2f}",
            Text(visit.state, style=_COLOURS[visit.state]),
            visit.reason,
            "yes" if visit.is_admitted else "no",
            predicted,
        )
    return table


def _facts(step: int, rollout: Rollout) -> Text:
    reward = "no reward" if rollout.reward is None else f"reward {rollout.reward:g}"
    parts = [f"step {step}", reward]
    parts += [] if rollout.tokens is None else [f"{rollout.tokens} tokens"]
    parts += ["cut at the limit"] if rollout.is_cut else []
    style = "green" if rollout.reward is not None and rollout.reward > 0 else "red"
    return Text(", ".join(parts), style=style)
