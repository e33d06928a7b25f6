"""The pictures of docs/watch.md: `curro watch` on simulated runs, and what a real run shows of its prompts.

    python -m benchmarks.hosts.screenshots simulated     # watch in light, in dark and at phone width
    python -m benchmarks.hosts.screenshots prompts RUN   # watch and inspect, where the texts of prompts are

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

from curro.runs.report import inspect_run
from curro.runs.watch.server import WatchedRun, WatchServer

SHOTS = (
    ("watch-light", 1280, 1180, False),
    ("watch-dark", 1280, 1180, True),
    ("watch-phone", 390, 1180, False),
)
SPEC = "posterior:exploration=0.25"
PROMPTS_TOP = "return document.querySelector('h2').getBoundingClientRect().top + scrollY"
OPEN_ONE = "document.querySelector('.rankings details').open = true; " + PROMPTS_TOP
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
    """A simulated run."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        runs = [WatchedRun(simulated_run(folder / "posterior", SPEC, steps=240).path, "posterior")]
        with browsing(folder) as browser, serving(runs) as server:
            for name, width, height, dark in SHOTS:
                browser.open(server.url, width=width, dark=dark)
                browser.screenshot(PICTURES / f"{name}.png", height=height)


@app.command()
def prompts(run: Path) -> None:
    """The prompts of a run: on the live page and in the terminal."""
    console = Console(record=True, width=118, markup=False, highlight=False, file=StringIO())
    inspect_run(run, 3, console)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        terminal = folder / "terminal.html"
        terminal.write_text(
            console.export_html(code_format="<meta charset=utf-8><pre>{code}</pre>", inline_styles=True)
        )
        with browsing(folder) as browser, serving([WatchedRun(run, run.name)]) as server:
            browser.open(terminal.as_uri(), width=1000, dark=False)
            height = browser.run("return document.documentElement.scrollHeight")
            browser.screenshot(PICTURES / "inspect.png", height=height)
            browser.open(server.url, width=1280, dark=False)
            browser.screenshot(PICTURES / "watch-prompts.png", top=browser.run(OPEN_ONE), height=900)


if __name__ == "__main__":
    app()
