"""The picture of docs/watch.md: the live page of a simulated run.

    python -m benchmarks.hosts.screenshots

Needs Chromium and its driver (Debian's chromium-driver).
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from benchmarks.common import PICTURES
from benchmarks.hosts.browser import Browser
from benchmarks.hosts.simulated_runs import simulated_run

from curro.contrib.watch.server import WatchedRun, WatchServer

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


if __name__ == "__main__":
    app()
