"""`curro watch`: a page that shows runs while they go on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from curro.cli.terminal import plain_console
from curro.core.errors import ConfigError
from curro.core.text import printable


def watch(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="The folders of the runs: of curro train, the output_dir of a TRL script or one of its "
            "checkpoints, or the default_local_dir of a verl run; or a folder that holds such folders, as "
            "the --out of curro compare. A run may be finished, still training, or not yet begun."
        ),
    ],
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port of the page. 0 takes a free one.")
    ] = 7700,
) -> None:
    """Show runs on a local page while they train.

    The page only reads the files of the runs, so watching a run does not affect it. Only this machine
    reaches it, by the printed address, which has a secret in it; to open it on another machine, forward the
    port (ssh -L 7700:127.0.0.1:7700 SERVER). Ctrl-C ends it.
    """
    from curro.contrib.watch.server import WatchedRun, WatchServer
    from curro.runs.folder import find_runs

    os.nice(10)
    paths = find_runs(runs)
    watched = [WatchedRun(path, name) for path, name in zip(paths, run_names(paths), strict=True)]
    try:
        server = WatchServer(watched, port)
    except OSError as error:
        raise ConfigError(
            f"the page cannot have port {port}: {error.strerror}; choose another one with --port, or --port 0"
        ) from error
    for path in paths:
        if not path.exists():
            plain_console().print(
                f"there is no folder {printable(str(path))} yet; its run is shown once there is"
            )
    plain_console().print(f"watching {len(watched)} run{'s' * (len(watched) > 1)}: {server.url}")
    with server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            plain_console().print("stopped; the runs go on")


def run_names(paths: Sequence[Path]) -> list[str]:
    """Each path from the folder on that holds all of them: a legend has no room for whole paths."""
    whole = [os.path.abspath(path) for path in paths]
    shared = os.path.commonpath([os.path.dirname(path) for path in whole])
    return [os.path.relpath(path, shared) for path in whole]
