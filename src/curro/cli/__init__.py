"""The command `curro`: every mistake ends in one sentence, never in a traceback.

Only the command that is run is imported, so that `curro --help` comes at once.
"""

from __future__ import annotations

import errno
import importlib
import sys
from collections.abc import Collection
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from typer.core import TyperCommand

import curro
from curro.core.errors import CurroError
from curro.core.text import install_extra, printable

COMMANDS = {
    "demo": ("curro.cli.demo:demo", "Train a small model with and without a curriculum, and compare."),
    "train": ("curro.cli.train:train", "Train a model on the prompts that a curriculum chooses."),
    "compare": ("curro.cli.compare:compare", "Train with several curricula on one task and compare them."),
    "serve": (
        "curro.contrib.serve.command:serve",
        "Serve a curriculum over HTTP to trainers on this machine.",
    ),
    "methods": ("curro.cli.methods:methods", "List all methods, or the options of one."),
    "watch": ("curro.contrib.watch.command:watch", "Show runs on a local page while they train."),
    "inspect": ("curro.cli.inspect:inspect", "Show a run's hard, informative and forgotten prompts."),
    "report": ("curro.cli.inspect:report", "Write a run's curves and pictures to one HTML page."),
    "doctor": ("curro.contrib.doctor.command:doctor", "Say where the rollouts of any trainer's run went."),
    "estimate": (
        "curro.cli.estimate:estimate",
        "Measure how often a model solves each prompt of a data set.",
    ),
    "evaluate": ("curro.cli.evaluate:evaluate", "Measure models on benchmark suites or on a data set."),
    "curate": ("curro.cli.curate:curate", "Write a data file of the prompts whose pass rate lies in a band."),
}
"""The function of each command, and the first line of its help."""


class GroupedCommand(TyperCommand):
    """A command whose help lists its options in groups, the most used first."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options of each group under its name; `rich_help_panel` names an option's group."""
        groups: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        for item in self.get_params(ctx):
            record = item.get_help_record(ctx)
            if record is not None:
                is_argument = item.param_type_name == "argument"
                group = "Arguments" if is_argument else getattr(item, "rich_help_panel", None) or "Options"
                groups.setdefault(group, []).append(record)
        for name, records in groups.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)


def make_app(commands: Collection[str]) -> typer.Typer:
    """The command line, with these commands ready to run and the others known by name and first line."""
    app = typer.Typer(
        help="A curriculum engine for RL post-training: it chooses the prompts that a policy is trained on "
        "next.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # its markup swallows the `[default: ...]` of a help text
        add_completion=False,
    )
    for name, (target, summary) in COMMANDS.items():
        if name in commands:
            module, _, function = target.partition(":")
            app.command(name, cls=GroupedCommand)(getattr(importlib.import_module(module), function))
        else:
            app.command(name, help=summary)(_not_imported)

    @app.callback()
    def whole(
        version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    ) -> None:
        pass

    return app


def _not_imported() -> None:
    raise AssertionError("a command that was not imported was run")


def main() -> None:
    """Run the command; exit status 2 after a mistake of the user's."""
    arguments = sys.argv[1:] or ["--help"]
    if arguments[0] == "--version":
        print(f"curro {curro.__version__}")
        sys.exit(0)
    try:
        sys.exit(make_app(arguments[:1])(arguments, standalone_mode=False))
    except CurroError as error:
        _end(str(error))
    except OSError as error:
        _end(_sentence(error))
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "curro":
            raise
        _end(f"{error.name} is not installed: {install_extra('train')}")
    except Exception as error:
        if not hasattr(error, "format_message"):  # only errors of the command line itself have it
            raise
        _end(_mistyped(error))


def _mistyped(error: Any) -> str:
    """What is wrong with the words of a command line, and where its help is."""
    sentence = error.format_message().rstrip(".")
    command = getattr(getattr(error, "ctx", None), "command_path", "curro")
    return f"{sentence[0].lower()}{sentence[1:]} (see {command} --help)"


def _sentence(error: OSError) -> str:
    """What is wrong with a file or a disk."""
    where = f" where {error.filename} is" if error.filename else ""
    saved = "what was saved before is still there"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full{where}: free some space; {saved}"
    if error.errno == errno.EFBIG:
        return f"a file may not grow further{where}: raise the limit on its size (ulimit -f); {saved}"
    return f"{error.filename} cannot be used: {error.strerror}" if error.filename else str(error)


def _end(sentence: str) -> NoReturn:
    Console(stderr=True, soft_wrap=True).print(
        f"curro: {printable(sentence)}", style="red", markup=False, highlight=False
    )
    sys.exit(2)
