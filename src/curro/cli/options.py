"""Options that are made from `TrainSettings`, so that each is typed once, and the help says every default."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from curro.training.declared import SettingSpec
from curro.training.settings import TrainSettings, known_settings, read_settings

Config = Annotated[
    Path | None,
    typer.Option(
        rich_help_panel="Output",
        help="Take settings from this TOML file, which has the options' names as keys, or from a run "
        "folder. Options on the command line win.",
    ),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        rich_help_panel="Output",
        help="Run the code that the settings in the folder of --resume or --config name.",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        help="How many runs to train at the same time. [default: one for each CPU core; one on a GPU]"
    ),
]


def with_settings(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of these settings (of all, if none is named) in place of its `**options`.

    What was not given on the command line is None.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters.values()
        order = list(known_settings())
        parameters = [_parameter(name) for name in sorted(names or order, key=order.index)]
        parameters += [
            item.replace(kind=item.KEYWORD_ONLY) for item in own if item.kind is not item.VAR_KEYWORD
        ]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {item.name: item.annotation for item in parameters}
        return command

    return decorate


def option_values(options: dict[str, Any]) -> dict[str, Any]:
    """What was given on the command line, as `TrainSettings.of` takes it."""
    known = known_settings()
    return {
        name: value if (parse := known[name].parse) is None else parse(value)
        for name, value in options.items()
        if value is not None
    }


def values_of_file(config: Path, trust: bool) -> dict[str, Any]:
    """The settings in a file or a run folder by name.

    Raises:
        ConfigError, RunError: as `read_settings`; or a folder names code, without `trust`.
    """
    values = read_settings(config)
    if not trust and (config.is_dir() or config.name == "config.json"):
        from curro.training.trust import check

        check(TrainSettings.of(values, str(config)), str(config))
    return values


def _parameter(name: str) -> inspect.Parameter:
    item = known_settings()[name]
    kind = str if item.parse else item.kind
    metavar = "<low>,<high>" if item.parse else None
    option = typer.Option(help=_help(name, item), metavar=metavar, rich_help_panel=item.panel)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
    )


def _help(name: str, item: SettingSpec) -> str:
    choices = f" One of {', '.join(item.choices)}." if item.choices else ""
    default = getattr(TrainSettings, name)
    if default is None:
        default = item.otherwise
    elif isinstance(default, tuple):
        default = ",".join(f"{end:g}" for end in default)
    elif isinstance(default, float):
        default = f"{default:g}"
    return f"{item.help}{choices} [default: {default}]"
