"""The pictures of docs/watch.md: the live page of a simulated run, and what `curro inspect` prints.

    python -m benchmarks.hosts.screenshots simulated
    python -m benchmarks.hosts.screenshots prompts RUN   # a run whose prompts have texts

Needs Chromium and its driver (Debian's chromium-driver).
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import typer
from benchmarks.common import PICTURES
from benchmarks.hosts.browser import Browser
from benchmarks.hosts.simulated_runs import simulated_run
from rich.console import Console

from curro.contrib.watch.server import WatchedRun, WatchServer
from curro.runs.report.inspect import inspect_run

SPEC = "posterior:exploration=0.25"
app = typer.Typer()


@contextmanager
def browsing(folder: Path) -> Iterator[Browser]:
    """A browser with its profile in this folder."""
    browser = Browser(folder / "profile")
    try:
        yield browser
    finally:
        browser.close()


@contextmanager
def serving(runs: list[WatchedRun]) -> Iterator[WatchServer]:
    """The live page of these runs."""
    with WatchServer(runs) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@app.command()
def simulated() -> None:
    """The live page of a simulated run."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        runs = [WatchedRun(simulated_run(folder / "posterior", SPEC, steps=240).path, "posterior")]
        with browsing(folder) as browser, serving(runs) as server:
            browser.open(server.url, width=1280, dark=False)
            browser.screenshot(PICTURES / "watch-light.png", height=1180)


@app.command()
def prompts(run: Path) -> None:
    """The prompts of a run in the terminal."""
    console = Console(record=True, width=118, markup=False, highlight=False, file=StringIO())
    inspect_run(run, 3, console)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        terminal = Path(scratch) / "terminal.html"
        terminal.write_text(
            console.export_html(code_format="<meta charset=utf-8><pre>{code}</pre>", inline_styles=True)
        )
        with browsing(Path(scratch)) as browser:
            browser.open(terminal.as_uri(), width=1000, dark=False)
            height = browser.run("return document.documentElement.scrollHeight")
            browser.screenshot(PICTURES / "inspect.png", height=height)


if __name__ == "__main__":
    app()
