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
RUNS = {"posterior": "posterior:exploration=0.25", "uniform": "uniform"}
PROMPTS_TOP = "return document.querySelector('#prompts').getBoundingClientRect().top + scrollY"
app = typer.Typer()


class Page:
    """An address as the browser of the tests takes it."""

    def __init__(self, url: str) -> None:
        self.url = url

    def as_uri(self) -> str:
        return self.url


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


def wait_until(browser: Browser, condition: str) -> None:
    """Wait for a JavaScript expression to be true, and then for what moves to rest."""
    while not browser.run(f"return {condition}"):
        threading.Event().wait(0.2)
    threading.Event().wait(1)


@app.command()
def simulated() -> None:
    """Two simulated runs, compared."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        runs = [
            WatchedRun(simulated_run(folder / name, spec, steps=240).path, name)
            for name, spec in RUNS.items()
        ]
        with browsing(folder) as browser, serving(runs) as server:
            for name, width, height, dark in SHOTS:
                browser.open(Page(server.url), width=width, dark=dark)
                wait_until(browser, "document.querySelectorAll('figure > svg text').length >= 100")
                browser.screenshot(PICTURES / f"{name}.png", height=height)


@app.command()
def prompts(run: Path) -> None:
    """The prompts of a run: the live page's rankings, and the terminal."""
    console = Console(record=True, width=118, markup=False, highlight=False, file=StringIO())
    inspect_run(run, 3, console)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        terminal = folder / "terminal.html"
        terminal.write_text(
            console.export_html(code_format="<meta charset=utf-8><pre>{code}</pre>", inline_styles=True)
        )
        with browsing(folder) as browser, serving([WatchedRun(run, run.name)]) as server:
            browser.open(terminal, width=1000, dark=False)
            height = browser.run("return document.documentElement.scrollHeight")
            browser.screenshot(PICTURES / "inspect.png", height=height)
            browser.open(Page(server.url), width=1280, dark=False)
            wait_until(browser, "document.querySelectorAll('#rankings button').length > 0")
            browser.screenshot(PICTURES / "watch-prompts.png", top=browser.run(PROMPTS_TOP), height=900)


if __name__ == "__main__":
    app()
