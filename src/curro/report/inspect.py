"""What a run knows of its prompts, in the terminal."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table
from rich.text import Text

from curro.errors import ConfigError
from curro.evaluation.estimate_summary import render_bands
from curro.report.rankings import Ranking, rankings, readable
from curro.report.run_reader import read_history
from curro.storage.run_folder import RunFolder

_WIDTH = 60


def inspect_run(
    run: RunFolder | str | os.PathLike[str],
    n: int,
    console: Console,
    out: str | os.PathLike[str] | None = None,
) -> None:
    """Print the prompt table's columns and first n rows, and the n hardest, most informative, regressed.

    Last, for the usual difficulty bands, the rollouts that an admitted group would cost.

    Args:
        run: the run, or its folder.
        n: how many prompts of each.
        console: where to print.
        out: write the whole prompt table to this .csv or .parquet file instead.

    Raises:
        RunError: no run, or one without a prompt table.
        ConfigError: n < 1, or a file of another kind.
    """
    folder = run if isinstance(run, RunFolder) else RunFolder.open(run)
    if n < 1:
        raise ConfigError(f"the number of prompts to show is at least 1, not {n}")
    table = folder.table()
    if out is not None:
        export(table, Path(out))
        console.print(Text(f"{table.num_rows} prompts written to {out}"))
        return
    console.print(render_columns(table))
    console.print(render_rows(table, n))
    history = read_history(folder)
    for ranking in rankings(history.groups, n):
        console.print(render_ranking(ranking))
    size = folder.config.get("settings", {}).get("rollouts_per_prompt")
    rates = history.groups.rate[history.groups.latest]
    if size and len(rates):
        costs = render_bands(rates, size)
        costs.title, costs.title_justify = Text("Bands, by the prompts' latest groups"), "left"
        console.print(costs)


def export(table: pa.Table, path: Path) -> None:
    """Write the prompt table as CSV or Parquet, by the file's name.

    Raises:
        ConfigError: a name that ends otherwise, or a folder that does not exist.
    """
    import pyarrow.csv
    import pyarrow.parquet

    writers: dict[str, Callable[[pa.Table, Path], Any]] = {
        ".csv": pyarrow.csv.write_csv,
        ".parquet": pyarrow.parquet.write_table,
    }
    if path.suffix not in writers:
        raise ConfigError(f"{path} is neither .csv nor .parquet: name a file that ends in one of them")
    if not path.parent.is_dir():
        raise ConfigError(f"{path} cannot be written: there is no folder {path.parent}")
    writers[path.suffix](table, path)


def render_columns(table: pa.Table) -> Table:
    """A line for every column: its type, smallest, mean and largest value, and how many are missing."""
    shown = _table(f"{table.num_rows} prompts", ("column", "type", "least", "mean", "most", "missing"))
    for name in table.column_names:
        column = table[name]
        if pa.types.is_string(column.type):
            continue
        values = pc.cast(column, pa.float64()).to_numpy()
        known = values[~np.isnan(values)]
        summary = [known.min(), known.mean(), known.max()] if len(known) else [np.nan] * 3
        shown.add_row(Text(name), str(column.type), *map(_number, summary), f"{len(values) - len(known)}")
    return shown


def render_rows(table: pa.Table, n: int) -> Table:
    """The first n rows."""
    shown = _table(
        f"The first {min(n, table.num_rows)} prompts",
        [name.replace("_", "\n") for name in table.column_names],
    )
    for row in table.slice(0, n).to_pylist():
        shown.add_row(*(_cell(value) for value in row.values()))
    return shown


def render_ranking(ranking: Ranking) -> Table:
    """A ranking with its rule below."""
    shown = _table(ranking.title, ("prompt", "visits", "now", "at step", "best", "at step"))
    shown.caption = Text(ranking.rule, style="dim") if ranking.prompts else Text("none", style="dim")
    for prompt in ranking.prompts:
        shown.add_row(
            Text(readable(prompt.key, _WIDTH)),
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


def _cell(value: Any) -> Text:
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    return Text(readable(value, _WIDTH) if isinstance(value, str) else _number(value))


def _number(value: float) -> str:
    return "-" if value != value else f"{value:.4g}"
