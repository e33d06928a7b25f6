"""`curro serve`: a curriculum that any trainer on this machine can ask over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def serve(
    config: Annotated[
        Path,
        typer.Argument(
            help="A TOML file with the keys `folder`, either `data` or `prompts` (how many there are), and a "
            "table [curriculum] with the arguments of `curro.Curriculum`."
        ),
    ],
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port on this machine; 0 takes a free one.")
    ] = 8377,
    socket: Annotated[
        Path | None, typer.Option(help="Listen at this socket in the file system instead of a port.")
    ] = None,
) -> None:
    """Serve a curriculum over HTTP to trainers on this machine.

    Every call is saved before it is answered, so after a kill the same command continues.
    Ctrl-C or SIGTERM ends it.
    """
    from curro.contrib.serve.run import ServeSettings
    from curro.contrib.serve.run import serve as run

    settings = ServeSettings.read(config)
    run(
        settings.build(),
        Path(settings.folder),
        port=port,
        path=socket,
        say=lambda sentence: print(sentence, flush=True),
        run_folder=None if settings.run_folder is None else Path(settings.run_folder),
    )
