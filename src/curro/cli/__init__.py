"""The command `curro`: every mistake ends in one sentence, never in a traceback."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import typer
from rich.console import Console

from curro.cli import bench, compare, curate, estimate, inspect, train
from curro.errors import CurroError
from curro.messages import printable

app = typer.Typer(
    help="A curriculum engine for RL post-training: which prompts a policy practises on next.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its markup swallows the `[default: ...]` of a help text
    add_completion=False,
)
app.command("train")(train.train)
app.command("compare")(compare.compare)
app.command("bench")(bench.bench)
app.command("inspect")(inspect.inspect)
app.command("report")(inspect.report)
app.command("estimate")(estimate.estimate)
app.command("curate")(curate.curate)


def main() -> None:
    """Run the command; exit status 2 after a mistake of the user's.

    Modules of the user's own are found in the working directory, as `python -m` finds them.
    """
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        app()
    except CurroError as error:
        _end(str(error))
    except OSError as error:
        _end(f"{error.filename} cannot be used: {error.strerror}" if error.filename else str(error))
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "curro":
            raise
        _end(f"{error.name} is not installed: pip install 'curro[train]'")


def _end(sentence: str) -> NoReturn:
    Console(stderr=True, soft_wrap=True).print(
        f"curro: {printable(sentence)}", style="red", markup=False, highlight=False
    )
    sys.exit(2)
